"""Claims about depth: one depth at which the scheme alone trains is enough; none among enough is a contradiction."""

import pytest

from ln_repro.claims.judge import CLAIMS, evidence_of, row_of
from ln_repro.records.archive import Run
from tests.claims.made import made, made_runs, named

X_1, X_3 = (next(claim for claim in CLAIMS if claim.id == id) for id in ("X-1", "X-3"))


def runs(setting: str, depths: dict[int, dict[str, float]], seeds: int = 5) -> list[Run]:
    """Return runs by number of layers: the BLEU of each arm."""
    return [
        made(f"{setting}_{arm}", seed, bleu, model__layers=layers)
        for layers, arms in depths.items()
        for arm, bleu in arms.items()
        for seed in range(1, seeds + 1)
    ]


BOTH = {"postln_warm": 33.0, "deepnorm_warm": 33.0}
ALONE = {"postln_warm": 2.0, "deepnorm_warm": 33.0}


@pytest.mark.parametrize(
    ("depths", "seeds", "verdict"),
    [
        ({6: BOTH, 12: ALONE, 18: BOTH}, 5, "reproduced"),
        ({12: ALONE}, 5, "reproduced"),
        ({6: BOTH, 12: ALONE}, 4, "inconclusive"),
        ({6: BOTH, 12: BOTH, 18: BOTH}, 5, "contradicted"),
        ({6: BOTH, 12: BOTH}, 5, "inconclusive"),
        ({6: BOTH, 12: BOTH, 18: {"postln_warm": 33.0}}, 5, "inconclusive"),
        ({}, 5, "not-run"),
    ],
)
def test_one_depth_at_which_deepnorm_alone_trains_is_enough(depths, seeds: int, verdict: str) -> None:
    own = evidence_of(runs("iwslt", depths, seeds), named, {})
    found = row_of(X_1, own, {}).own
    both = [layers for layers, arms in depths.items() if len(arms) > 1]
    assert (found.verdict, len(found.evidence)) == (verdict, 2 * seeds * len(both))
    others = row_of(X_1, evidence_of(runs("toy", depths, seeds), named, {}), {}).others
    assert [other.verdict for other in others] == ([] if verdict == "not-run" else [verdict])


def test_the_command_is_a_sweep_over_depths() -> None:
    row = row_of(X_1, {}, {})
    assert row.own.command == (
        "ln-repro sweep grid=depth arms=postln_warm,deepnorm_warm corpus=iwslt seeds=5 --skip-recorded"
    )
    assert (row.cost_gpu_hours, row_of(X_3, {}, {}).cost_gpu_hours) == (60, 45)


def test_admin_has_to_train_at_18_layers_where_post_ln_does_not() -> None:
    level = made_runs("iwslt", {arm: {"bleu": 33.0} for arm in ("admin_warm", "admin_warm_closed", "postln_warm")})
    for deep, verdict in (({}, "inconclusive"), ({18: {"postln_warm": 2.0, "admin_warm": 33.0}}, "reproduced"),
                          ({18: {"postln_warm": 33.0, "admin_warm": 33.0}}, "contradicted")):  # fmt: skip
        assert row_of(X_3, evidence_of(level + runs("iwslt", deep), named, {}), {}).own.verdict == verdict


def test_depths_are_told_from_other_variations_and_named_by_their_layers() -> None:
    deeper = [made("toy_postln_warm", 1, 30.0, model__layers=12, init="fairseq"), *runs("toy", {24: BOTH, 6: ALONE})]
    assert [*evidence_of(deeper, named, {})["toy"].by_depth] == [6, 24]
