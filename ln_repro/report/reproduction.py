"""A committed record beside a run that repeats it: what was different around it, and how far apart their numbers are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ln_repro.experiment import build
from ln_repro.record import Record, decoded
from ln_repro.report.evidence import Run
from ln_repro.report.tables import Table
from ln_repro.statistics import LEVEL, prediction_interval

EQUAL, ROUNDING, SAME, DIFFERENT = "equal bit for bit", "equal within rounding", "same verdict", "different"
AS_BEFORE = {"divergence": {"rule": "never"}}
"""What a record means that lacks a setting whose default is not what was done before the setting existed."""
HALF_THE_DIGITS = 2.0**-11.5
"""The square root of float32's epsilon. Runs that differ by rounding begin one epsilon apart, and training amplifies
that, by any factor in the end; at the first logged loss it has not reached this customary bound, and another seed has."""
LOOSE = 0.1
"""Part of the record's value that a number may be apart where too few seeds tell how far is usual."""
SEEDS = 3
"""The fewest of an arm that its interval is taken from."""
SHOWN = 5
"""Training losses, from the first."""
LOSS, NLL, BLEU, ACCURACY = "training loss", "validation NLL", "test BLEU", "accuracy"
COLUMNS = {NLL: "valid_nll_loss", BLEU: "test_bleu_tokenised", ACCURACY: "valid_accuracy"}
Key = tuple[str, int, int]
"""A quantity, the epoch and the update."""
Series = dict[Key, float | None]


@dataclass(frozen=True)
class Comparison:
    """The grade, its reason in words, and the numbers that both runs have."""

    grade: str
    reason: str
    table: Table


def settings_of(record: Record) -> dict[str, Any]:
    """Return the settings that a record was run with, without paths and tracker; a start is named by its run's id."""
    settings = {**AS_BEFORE, **record["experiment"]}
    if start := settings.get("start"):
        settings["start"] = {**start, "given": f"{start['run']}@{start['epoch']}"}
    if record["environment"]["device"] == "cpu":
        settings["train"] = {**settings["train"], "device": "cpu"}
    return settings


def differences(record: Record, ours: Record) -> list[str]:
    """Return a line for each thing around a run that was different: code, corpus, environment, settings."""
    lines, (then, now) = [], (record["code"], ours["code"])
    if then != now or now["dirty"]:
        said = [f"{(code['git'] or code['version'])[:10]}{' with changes' * bool(code['dirty'])}" for code in (then, now)]
        lines.append(f"code: {said[0]} then, {said[1]} now")
        if then["git"] and then["git"] != now["git"]:
            lines.append(f"  that code: git worktree add ../at-{then['git'][:10]} {then['git']}")
            lines.append(
                f"  and its run: PYTHONPATH=../at-{then['git'][:10]} ln-repro run exp={record['exp']} "
                f"seed={record['axes']['seed']}"
            )
    for name, of in (("corpus", "data"), ("environment", "environment"), ("setting", "experiment")):
        before, after = flat(record[of]), flat(ours[of])
        lines += [
            f"{name}: {key}: {before.get(key, 'not recorded')} then, {after[key]} now"
            for key in after
            if before.get(key, None if of == "environment" else after[key]) != after[key] and key != "train.device"
        ]
    return lines


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def arm_of(record: Record) -> str:
    """Return what the records of an arm share: an id over settings and corpus, the seed and what nothing reads aside."""
    settings = settings_of(record) | {"seed": 1, "tracker": {"name": "none"}, "paths": {"runs": "-", "data": "-"}}
    schedule = settings["schedule"]
    unread = {name for name, tail in (("step_epoch", "step"), ("anchor", "anchored")) if tail not in schedule["decay"]}
    settings["schedule"] = {name: value for name, value in schedule.items() if name not in unread}
    if start := settings.get("start"):
        settings["start"] = {**start, "sha256": f"{start['exp']}@{start['update']}"}
    return build(settings).id(record["data"]["fingerprint"])


def series(run: Run) -> Series:
    """Return a run's training losses, then what was measured after its epochs; None where a number is not finite."""
    found: Series = {(LOSS, step["epoch"], step["update"]): step["loss"] for step in run.events if step["kind"] == "train"}
    columns = {kind: name for kind, name in COLUMNS.items() if kind != BLEU or decoded(run.record)}
    return found | {
        (kind, row["epoch"], row["update"]): row[name]
        for kind, name in columns.items()
        for row in run.record["epochs"]
        if name in row
    }


def failed(run: Run, until: float) -> int | None:
    """Return the update by which a run was lost; None if it was not, until so many updates."""
    lost = run.record["divergence"]
    return lost["update"] if lost and lost["update"] <= until else None


def compare(theirs: Run, ours: Run, kept: Sequence[Run]) -> Comparison:
    """Compare a run with the record that it repeats, over the updates that both have.

    Args:
        theirs: the committed record.
        ours: the same settings, run again, perhaps for fewer updates.
        kept: all committed records; those of the same arm tell how far apart its runs are.
    """
    then, now = series(theirs), series(ours)
    shared = [key for key in then if key in now]
    lengths = [(run.record["experiment"]["train"]["max_epoch"], run.record["experiment"]["train"]["max_update"])
               for run in (theirs, ours)]  # fmt: skip
    cut = lengths[0] != lengths[1]
    lost = [failed(run, ours.record["updates"] if cut else math.inf) for run in (theirs, ours)]
    last = {key[0]: key for key in shared if then[key] is not None}
    ends = [key for kind, key in last.items() if kind != LOSS] or [key for key in shared if key[0] == LOSS][-1:]
    arm = {run.record["axes"]["seed"]: run for run in (*kept, theirs) if arm_of(run.record) == arm_of(theirs.record)}
    measured = {key: [value for run in arm.values() if (value := series(run).get(key)) is not None] for key in ends}
    intervals = {key: _interval(values, then[key], len(ends)) for key, values in measured.items()}
    outside = [key for key in ends if not _within(now[key], intervals[key])]
    first = next((_apart(then[key], now[key]) for key in shared if key[0] == LOSS), math.inf)
    complete = cut or then.keys() == now.keys()
    if len(arm) < SEEDS:
        where = f"within {LOOSE:.0%} of the record (a loose bound: {len(arm)} of the {SEEDS} seeds that an interval takes)"
    else:
        where = f"in the {LEVEL:.0%} interval of one more run of the arm's {len(arm)} seeds"
    near = f"the first loss is {first:.1e} of itself apart, and rounding allows {HALF_THE_DIGITS:.1e}"
    if (lost[0] is None) != (lost[1] is None):
        words = [f"lost at update {update}" if update is not None else "not lost" for update in lost]
        grade, reason = DIFFERENT, f"{words[0]} then, {words[1]} now"
    elif complete and all(then[key] == now[key] for key in shared):
        grade, reason = EQUAL, f"all {len(shared)} numbers that both have are the same"
    elif lost[0] is not None:
        grade = ROUNDING if first <= HALF_THE_DIGITS else SAME
        reason = f"both are lost, at update {lost[0]} then and {lost[1]} now; {near}"
    elif outside:
        grade, reason = DIFFERENT, f"{', '.join(map(_label, outside))}: not {where}; {near}"
    else:
        grade, reason = (ROUNDING if first <= HALF_THE_DIGITS else SAME), f"{near}; the end is {where}"
    return Comparison(grade, reason, _table(shared, then, now, intervals if lost[0] is None else {}))


def _apart(then: float | None, now: float | None) -> float:
    """Return how far two numbers are apart, as a part of the first."""
    if then is None or now is None:
        return 0.0 if then == now else math.inf
    return abs(now - then) / abs(then) if then else abs(now)


def _interval(values: Sequence[float], recorded: float | None, ends: int) -> tuple[float, float]:
    """Return where one more run of the arm is expected, all ``ends`` numbers of it together."""
    if len(values) >= SEEDS:
        return prediction_interval(values, 1 - (1 - LEVEL) / ends)
    return (recorded * (1 - LOOSE), recorded * (1 + LOOSE)) if recorded is not None else (math.nan, math.nan)


def _within(value: float | None, interval: tuple[float, float]) -> bool:
    return value is not None and interval[0] <= value <= interval[1]


def _label(key: Key) -> str:
    return f"{key[0]}, update {key[2]}" if key[0] == LOSS else f"{key[0]}, epoch {key[1]}"


def _table(
    shared: Sequence[Key], then: Series, now: Series, intervals: Mapping[Key, tuple[float, float]]
) -> Table:
    """Return the numbers side by side: the first training losses and the last, and all of the epochs."""
    losses = [key for key in shared if key[0] == LOSS]
    shown = [*losses[:SHOWN], *losses[SHOWN:][-1:], *(key for key in shared if key[0] != LOSS)]
    rows = []
    for key in shown:
        numbers = [None if value is None else f"{value:.7g}" for value in (then[key], now[key])]
        low, high = intervals.get(key, (None, None))
        allowed = None if low is None else f"{low:.5g} .. {high:.5g}"
        rows.append([_label(key), *numbers, f"{_apart(then[key], now[key]):.1e}", allowed])
    return {"columns": ["", "record", "now", "apart", "expected"], "rows": rows}
