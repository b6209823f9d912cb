"""Which records are evidence, and for what."""

from typing import Any

import pytest

from ln_repro.compose import named_axes
from ln_repro.report.evidence import Run, gather, strays
from tests.report.made_up import evidence_of, run


def test_records_are_found_by_corpus_and_arm() -> None:
    found = evidence_of([run("iwslt_preln_nowarm_radam"), run("iwslt_postln_warm"), run("toy_postln_warm")])
    assert {corpus: list(one.arms) for corpus, one in found.items()} == {
        "iwslt": ["preln_nowarm_radam", "postln_warm"], "toy": ["postln_warm"],
    }  # fmt: skip


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
    (only,) = [
        one for found in gather(runs, named_axes).values() for arm in found.arms.values() for one in arm.values()
    ]
    assert only.record["id"] == "a"
    assert strays(runs, named_axes) == [f"{exp}: {reason} (1 of its records)"]
