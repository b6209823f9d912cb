"""The plan covers what the checks ask for."""

from ln_repro.theory.checks import CHECKS, CLAIMS
from ln_repro.theory.plan import FULL, QUICK, units
from ln_repro.theory.unit import Unit, among


def settings(unit: Unit, *names: str) -> tuple[object, ...]:
    return tuple(unit[name] for name in names)


def test_the_full_plan_has_what_every_check_is_about_over_enough_seeds() -> None:
    planned = units(FULL, list(CLAIMS))
    for check in CHECKS:
        wanted = [unit for unit in planned if among(unit, check.what, check.where)]
        for setting in {settings(unit, *check.by) for unit in wanted}:
            group = [unit for unit in wanted if settings(unit, *check.by) == setting]
            assert len({unit.seed for unit in group}) >= max(check.seeds, 10)
        assert wanted, check


def test_a_model_whose_layers_are_all_measured_is_not_measured_again() -> None:
    """TH-6 takes the depth of 6 from what TH-8 needs."""
    planned = units(QUICK, ["TH-6"])
    depths = {(unit.what, unit["layers"]) for unit in planned if unit.what.startswith("real")}
    assert depths == {("real_gradients", 6), ("real_last_gradient", 14)}
