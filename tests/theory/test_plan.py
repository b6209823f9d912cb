"""The plan covers what the checks ask for."""

from ln_repro.theory.checks import CHECKS, CLAIMS
from ln_repro.theory.plan import FULL, QUICK, units
from ln_repro.theory.unit import grouped, select


def test_the_full_plan_has_what_every_check_is_about_over_enough_seeds() -> None:
    planned = [(unit, {}) for unit in units(FULL, list(CLAIMS))]
    for check in CHECKS:
        groups = grouped(select(planned, check.what, check.where), check.by)
        assert groups, check
        for group in groups.values():
            assert len({unit.seed for unit, _ in group}) >= max(check.seeds, 10)


def test_a_model_whose_layers_are_all_measured_is_not_measured_again() -> None:
    """TH-6 takes the depth of 6 from what TH-8 needs."""
    planned = units(QUICK, ["TH-6"])
    depths = {(unit.what, unit["layers"]) for unit in planned if unit.what.startswith("real")}
    assert depths == {("real_gradients", 6), ("real_last_gradient", 14)}
