"""`probe=gradients` adds events and does not change the training."""

import json

import pytest

from ln_repro.records.events import Events

PROBED = ("probe=gradients", "every=10", "probe_batches=3", "train.max_epoch=2", "train.log_every=1")


def events(run, kind):
    return [event for event in Events(run.folder / "events.jsonl").read() if event["kind"] == kind]


def losses(run):
    return [event["loss"] for event in events(run, "train")]


def test_a_probed_run_is_the_same_run(command):
    plain, probed = command("plain", "train.max_epoch=2", "train.log_every=1"), command("probed", *PROBED)
    for run in (plain, probed):
        status, _, error = run.finish()
        assert status == 0, error
    assert losses(probed) == losses(plain)
    assert json.loads((probed.folder / "record.json").read_text())["id"] == plain.folder.name.rsplit("-", 1)[1]
    found = events(probed, "probe")
    assert [event["update"] for event in found] == list(range(0, len(losses(plain)) + 1, 10))
    for event in found:
        assert (event["name"], event["batches"]) == ("gradients", 3)
        for name in ("encoder.w1", "decoder.w2", "decoder.cross.v"):
            mean, norms = (event["values"][kind][name] for kind in ("norm_of_mean", "mean_of_norms"))
            assert len(mean) == 1 and 0 < mean[0] <= norms[0] * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [("precision=bf16",), ("train.batches_per_update=2",)])
def test_precision_and_accumulation_do_not_change_what_is_measured(command, changed):
    """Before the first update the model is the same, so the gradients have to be."""
    first = []
    for name, extra in (("as it is", ()), ("changed", changed)):
        run = command(name, *PROBED, "train.max_epoch=1", *extra)
        assert run.finish()[0] == 0
        first.append(events(run, "probe")[0]["values"]["norm_of_mean"]["decoder.w2"])
    assert first[0] == pytest.approx(first[1], rel=0.02)
