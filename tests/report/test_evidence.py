"""Which records are evidence, and for what."""

from typing import Any

import pytest
from ln_repro.report.evidence import Run, gather, strays

from ln_repro.compose import named
from tests.report.made_up import evidence_of, run


def test_records_are_found_by_corpus_and_arm() -> None:
    found = evidence_of([run("iwslt_preln_nowarm_radam"), run("iwslt_postln_warm"), run("toy_postln_warm")])
    assert {corpus: list(one.arms) for corpus, one in found.items()} == {
        "iwslt": ["preln_nowarm_radam", "postln_warm"], "toy": ["postln_warm"],
    }  # fmt: skip


def test_a_run_that_is_shorter_or_smaller_than_its_name_says_is_none() -> None:
    """Whatever the axes, which are the same; how it was run does not matter."""
    found = named("toy_postln_warm")
    assert found
    settings = found.settings()
    changes = {
        "train": {"max_epoch": None, "max_update": 50}, "model": {"layers": 2, "dropout": 0.3},
        "optimizer": {"betas": [0.9, 0.999]}, "eval": {"beam": 1}, "data": {"bpe_merges": 7},
        "schedule": {"step_epoch": 3, "anchor": 5},  # which this tail does not look at
    }  # fmt: skip
    for section, change in changes.items():
        changed = {**settings, section: {**settings[section], **change}}
        told = [line.partition(": ")[2] for line in strays([Run(run(experiment=changed))], named)]
        said = ", ".join(f"{section}.{name}={value}" for name, value in sorted(change.items()))
        assert told == ([f"{said} (1 of its records)"] if section != "schedule" else [])
    free = {**settings["train"], "log_every": 7, "save_every": 9, "threads": 2, "device": "cpu"}
    assert strays([Run(run(experiment={**settings, "train": free, "precision": "bf16"}))], named) == []


@pytest.mark.parametrize(
    ("exp", "change", "reason"),
    [
        ("toy_postln_warm", {"init": "fairseq"}, "init=fairseq"),
        ("toy_postln_warm", {"norm": "deepnorm"}, "norm=deepnorm"),
        ("toy_postln_warm", {"data": "files", "lr": 1.0}, "data=files, lr=1.0"),
        ("toy_postln_warm", {"precision": "bf16"}, "a seed again"),
        ("mine", {}, "no experiment of that name"),
    ],
)
def test_a_run_that_is_not_what_its_name_says_is_none(exp: str, change: dict[str, Any], reason: str) -> None:
    runs = [Run(run(id="a")), Run(run(exp, id="b", **change))]
    (only,) = [one for found in gather(runs, named).values() for arm in found.arms.values() for one in arm.values()]
    assert only.record["id"] == "a"
    assert strays(runs, named) == [f"{exp}: {reason} (1 of its records)"]
