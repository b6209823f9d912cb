"""How many runs share a GPU, on made-up curves of throughput."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ln_repro.sweep.packing import GAIN, MEASURED_SECONDS, MEMORY, Packing, first_try, remember


def saturating(runs: int) -> float:
    """Five runs fill the machine."""
    return 100.0 * min(runs, 5)


def linear(runs: int) -> float:
    return 100.0 * runs


def flat(runs: int) -> float:
    """One run fills it."""
    return 100.0


def worse(runs: int) -> float:
    """From seven on they are in each other's way."""
    return 100.0 * runs if runs < 7 else 100.0


def slow(runs: int) -> float:
    """Every doubling brings a half."""
    return 100.0 * {1: 1, 2: 1.5, 4: 2.25, 8: 3.3, 16: 4.9}.get(runs, 0)


def measure(packing: Packing, curve: Callable[[int], float], noise: Callable[[], float] = lambda: 1.0) -> list[int]:
    """Feed windows until nothing changes any more; return the numbers that were tried."""
    tried = [packing.runs]
    while not packing.settled:
        runs = packing.runs
        for run in itertools.cycle(range(runs)):
            changed = packing.add(str(run), 5.0 * curve(runs) / runs * noise(), 5.0)
            if changed or packing.settled:
                break
        tried.append(packing.runs)
        assert len(tried) < 20
    return tried


@pytest.mark.parametrize(
    ("curve", "tried", "found"),
    [
        (saturating, [1, 2, 4, 8, 16, 12, 10, 9, 8], 8),
        (linear, [1, 2, 4, 8, 16, 16], 16),
        (flat, [1, 2, 1], 1),
        (worse, [1, 2, 4, 8, 6, 7, 6], 6),
        (slow, [1, 2, 4, 8, 16, 16], 16),
    ],
)
def test_it_grows_while_more_runs_do_more(curve: Callable[[int], float], tried: list[int], found: int) -> None:
    packing = Packing(16)
    assert measure(packing, curve) == tried
    assert packing.runs == packing.good == found
    assert packing.speed(found) == pytest.approx(curve(found))


@pytest.mark.parametrize("curve", [saturating, linear, flat, worse])
@pytest.mark.parametrize("seed", range(20))
def test_noise_costs_little(curve: Callable[[int], float], seed: int) -> None:
    """Windows that vary by a tenth: what is settled on reaches nearly all of the best throughput."""
    draw = random.Random(seed)
    packing = Packing(16)
    measure(packing, curve, lambda: draw.uniform(0.9, 1.1))
    assert curve(packing.runs) >= (1 - 2 * GAIN) * max(map(curve, range(1, 17)))


def test_a_number_is_judged_once_each_run_had_its_time() -> None:
    packing = Packing(2, 2)
    assert not packing.add("a", 100.0, 2 * MEASURED_SECONDS - 0.1) and not packing.good
    packing.add("b", 100.0, 0.1)
    assert packing.good == 2 and packing.settled


def test_a_large_run_beside_a_small_one_is_no_loss() -> None:
    """Its tokens are fewer; that the small one goes on as fast as before is what counts."""
    packing = Packing(2)
    assert packing.add("small", 1000.0, MEASURED_SECONDS)
    packing.add("small", 980.0, MEASURED_SECONDS)
    packing.add("large", 10.0, MEASURED_SECONDS)
    assert packing.settled and packing.runs == 2


def test_a_small_run_beside_a_large_one_is_no_gain_if_it_takes_half_of_it() -> None:
    packing = Packing(2)
    assert packing.add("large", 10.0, MEASURED_SECONDS)
    packing.add("small", 500.0, MEASURED_SECONDS)
    packing.add("large", 5.0, MEASURED_SECONDS)
    assert packing.settled and packing.runs == 1


def test_runs_too_short_to_be_measured_are_given_more_room() -> None:
    packing = Packing(6)
    assert [packing.skip() and packing.runs for _ in range(3)] == [2, 4, 6]
    assert not packing.skip() and packing.runs == 6
    assert not Packing.fixed(3).skip()


def test_the_next_sweep_begins_with_half_of_what_this_one_found(tmp_path: Path) -> None:
    folder, packing = tmp_path / "sweep", Packing(16)
    assert first_try(folder, "work") == 1
    remember(folder, "work", packing)  # nothing found yet
    assert first_try(folder, "work") == 1
    measure(packing, saturating)
    remember(folder, "work", packing)
    remember(folder, "other", Packing.fixed(1))
    assert json.loads((folder / MEMORY).read_text()) == {"work": 8}
    again = Packing(16, first_try(folder, "work"))
    assert measure(again, saturating)[:3] == [4, 8, 16] and again.runs == 8
    short = Packing(16, 4)
    short.skip()
    remember(folder, "work", short)  # it ended before it could find more than the last
    assert first_try(folder, "work") == 4 and first_try(folder, "other") == 1


@pytest.mark.parametrize("text", ["{", "[3]", '{"work": "8"}'])
def test_a_damaged_memory_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / MEMORY).write_text(text)
    assert first_try(tmp_path, "work") == 1
    packing = Packing(8)
    measure(packing, linear)
    remember(tmp_path, "work", packing)
    assert first_try(tmp_path, "work") == 4
