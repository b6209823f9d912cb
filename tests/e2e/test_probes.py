"""Probes add events and do not change the training."""

import pytest

from tests.e2e.outcomes import outcome

PROBED = ("probe=all", "every=10", "probe_batches=3")


@pytest.mark.slow
def test_a_probed_run_is_the_same_run(command, expected):
    run = command("probed", *PROBED)
    run.complete()
    assert outcome(run.folder) == expected
    found, last = run.events("probe"), expected["updates"]
    due = sorted({*range(0, last + 1, 10), *(2**n for n in range(last.bit_length()))})
    for kind, updates in (("gradients", due), ("curvature", due), ("updates", due[1:])):
        assert [event["update"] for event in found if event["name"] == kind] == updates
    for event in found:
        assert event["batches"] == 3
        if event["name"] == "curvature":
            assert event["values"]["sharpness"] > 0
        if event["name"] == "updates":
            assert all(0 < change < 1 for change in event["values"]["outputs"]["decoder"])
    for event in (event for event in found if event["name"] == "gradients"):
        for name in ("encoder.w1", "decoder.w2", "decoder.cross.v"):
            mean, norms = (event["values"][kind][name] for kind in ("norm_of_mean", "mean_of_norms"))
            assert len(mean) == 1 and 0 < mean[0] <= norms[0] * (1 + 1e-6)
    accumulated = command("accumulated", *PROBED, "train.max_epoch=1", "train.batches_per_update=2")
    accumulated.complete()  # before the first update it is the same model, on the same mini-batches
    assert accumulated.events("probe")[0]["values"] == found[0]["values"]
