"""Records of an arm to a curve: means, intervals, and which runs are not averaged with which."""

from typing import Any

import pytest

from ln_repro.report.series import alike, by_corpus, curve
from ln_repro.statistics import mean_interval
from tests.report.made_up import run


def kept(*records: dict[str, Any]) -> list[str]:
    """Return the ids of the records that are drawn."""
    found, _ = by_corpus(records)
    return [record["id"] for arms in found.values() for of_arm in arms.values() for record in of_arm]


def test_a_curve_is_the_mean_over_seeds_with_its_interval() -> None:
    seeds = [run(seed=1, losses=[6.0, 4.0]), run(seed=2, losses=[7.0, 5.0]), run(seed=3, losses=[8.0, 3.0])]
    found = curve(seeds, "loss")
    assert found and found.seeds == 3 and found.lost == []
    assert found.means == {1: 7.0, 2: 4.0}
    assert found.intervals == {1: pytest.approx(mean_interval([6, 7, 8])), 2: pytest.approx(mean_interval([4, 5, 3]))}
    assert found.intervals[1] == pytest.approx((7 - 2.4841, 7 + 2.4841), abs=1e-4)  # t(2) = 4.3027, over sqrt 3


def test_one_seed_has_no_interval() -> None:
    found = curve([run(losses=[6.0])], "loss")
    assert found and found.means == {1: 6.0} and found.intervals == {}


def test_an_interval_ends_where_the_quantity_does() -> None:
    found = curve([run(seed=1, bleus=[0.0, 99.0]), run(seed=2, bleus=[90.0, 100.0])], "bleu")
    assert found and found.intervals == {1: (0, 100), 2: (pytest.approx(99.5 - 12.7062 / 2, abs=1e-4), 100)}


def test_bleu_is_the_tokenised_one() -> None:
    record = run(bleus=[20.0])
    record["epochs"][0]["test_bleu"] = 19.0
    found = curve([record], "bleu")
    assert found and found.means == {1: 20.0}


def test_what_was_not_scored_or_not_finite_is_no_point() -> None:
    assert curve([run(losses=[None, None])], "loss") is None and curve([], "loss") is None
    found = curve([run(losses=[None, 3.0])], "loss")
    assert found and found.means == {2: 3.0}


def test_a_lost_run_is_marked_where_it_ended_and_the_mean_goes_on_without_it() -> None:
    found = curve([run(seed=1, losses=[5.0, 3.0]), run(seed=2, losses=[9.0], status="diverged")], "loss")
    assert found and found.lost == [(1, 9.0)] and found.means == {1: 7.0, 2: 3.0} and list(found.intervals) == [1]


def test_records_are_found_by_corpus_and_arm() -> None:
    found, left_out = by_corpus([run("iwslt_preln_nowarm_radam"), run("iwslt_postln_warm"), run("toy_postln_warm")])
    assert {corpus: list(arms) for corpus, arms in found.items()} == {
        "iwslt": ["preln_nowarm_radam", "postln_warm"], "toy": ["postln_warm"],
    }  # fmt: skip
    assert left_out == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"init": "fairseq"}, "toy_postln_warm: init=fairseq, 1 of its records"),
        ({"norm": "deepnorm"}, "toy_postln_warm: norm=deepnorm, 1 of its records"),
        ({"data": "files"}, "toy_postln_warm: data=files, 1 of its records"),
        ({"lr": 1.0}, "toy_postln_warm: other settings, or a seed again, 1 of its records"),
        ({"precision": "bf16"}, "toy_postln_warm: other settings, or a seed again, 1 of its records"),
    ],
)
def test_a_run_that_is_not_what_its_name_says_is_left_out(change: dict[str, Any], reason: str) -> None:
    records = [run(id="a"), run(id="b", **change)]
    assert kept(*records) == ["a"]
    assert by_corpus(records)[1] == [reason]


def test_of_two_settings_the_one_with_more_seeds_is_drawn() -> None:
    records = [run(id="a", lr=1.0), run(id="b"), run(id="c", seed=2, precision="bf16")]
    assert [record["id"] for record in alike(records)] == ["b", "c"]
