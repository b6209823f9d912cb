"""Probes add events and does not change the training."""

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


@pytest.mark.slow
def test_precision_and_accumulation_do_not_change_what_is_measured(command):
    """Before the first update the model is the same, so the gradients have to be."""
    first = []
    for extra in ("precision=fp32", "precision=bf16", "train.batches_per_update=2"):
        run = command(extra, *PROBED, "train.max_epoch=1", extra)
        assert run.finish()[0] == 0
        first.append(run.events("probe")[0]["values"]["norm_of_mean"]["decoder.w2"])
    assert first[0] == pytest.approx(first[1], rel=0.02) and first[0] == pytest.approx(first[2], rel=0.02)
