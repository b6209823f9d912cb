"""Compare a committed record with a run that repeats it: settings, environment and numbers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ln_repro.claims.intervals import LEVEL, Interval, prediction_interval
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.records.archive import Run
from ln_repro.records.record import Record, decoded
from ln_repro.report.tables import Table

EQUAL, ROUNDING, SAME, DIFFERENT = "equal bit for bit", "equal within rounding", "same verdict", "different"
AS_BEFORE = {"divergence": {"rule": "never"}}
"""Settings of records made before these settings existed, where the default is not what was done then."""
ROUNDING_LIMIT = 2.0**-11.5
"""The square root of float32's epsilon. Training amplifies rounding errors, but hardly to this size before the first
logged loss; another seed differs by more."""
SEEDS, LOOSE = 3, 0.1
"""Fewest seeds for an interval of the arm; with fewer, a value may be off by this share of itself."""
SHOWN = 5
"""Number of training losses shown, from the first."""
LOSS, NLL, BLEU, ACCURACY = "loss", "valid NLL", "test BLEU", "accuracy"
COLUMNS = {NLL: "valid_nll_loss", BLEU: "test_bleu_tokenised", ACCURACY: "valid_accuracy"}
IGNORED = {"train.device", "stop_on_divergence"}
Key = tuple[str, int, int]
"""A quantity, the epoch and the update."""
Series = dict[Key, float | None]


@dataclass(frozen=True)
class Comparison:
    """The grade, its reason in words, and the numbers of both runs side by side."""

    grade: str
    reason: str
    table: Table


def settings_of(record: Record) -> dict[str, Any]:
    """Return the settings that a record was run with, without paths and tracker; a start is named by its run's id.

    Stopping early is off: the repetition runs as far as the record did, whatever today's rule says.
    """
    settings = {**AS_BEFORE, **record["experiment"], "stop_on_divergence": False}
    if start := settings.get("start"):
        settings["start"] = {**start, "given": f"{start['run']}@{start['epoch']}"}
    if record["environment"]["device"] == "cpu":
        settings["train"] = {**settings["train"], "device": "cpu"}
    return settings


def differences(record: Record, ours: Record) -> list[str]:
    """Return one line for each difference of code, corpus, environment and settings."""
    lines, commit = [], record["code"]["git"]
    if record["code"] != ours["code"] or ours["code"]["dirty"]:
        then, now = (f"{(code['git'] or code['version'])[:10]}{', changed,' * bool(code['dirty'])}"
                     for code in (record["code"], ours["code"]))  # fmt: skip
        lines.append(f"code: {then} then, {now} now")
        if commit and commit != ours["code"]["git"]:
            there = f"../ln-repro-{commit[:10]}"
            lines.append(f"  to run that code: git worktree add {there} {commit[:10]}")
            lines.append(f"  PYTHONPATH={there} ln-repro run exp={record['exp']} seed={record['axes']['seed']}")
    for name, part in (("corpus", "data"), ("environment", "environment"), ("setting", "experiment")):
        before, after = flat(record[part]), flat(ours[part])
        known = {key for key in after if key in before or part == "environment"} - IGNORED
        lines += [f"{name}: {key} {before.get(key, 'not recorded')} then, {after[key]} now"
                  for key in after if key in known and before.get(key) != after[key]]  # fmt: skip
    return lines


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted name."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def arm_of(run: Run) -> tuple[Any, ...]:
    """Return the key of a run's arm: all settings but the seed, and the corpus."""
    start = (run.record["experiment"].get("start") or {}).get("exp")
    return run.experiment.arm_key(), run.experiment.lr, run.experiment.init, start, run.record["data"]["fingerprint"]


def series(run: Run) -> Series:
    """Return training losses, then the measurements after each epoch; None where a number is not finite."""
    found: Series = {(LOSS, one["epoch"], one["update"]): one["loss"] for one in run.events if one["kind"] == "train"}
    for kind, name in COLUMNS.items():
        rows = run.record["epochs"] if kind != BLEU or decoded(run.record) else []
        found |= {(kind, row["epoch"], row["update"]): row[name] for row in rows if name in row}
    return found


def compare(theirs: Run, ours: Run, kept: Sequence[Run]) -> Comparison:
    """Compare a run with the record that it repeats, over the updates that both have.

    Args:
        theirs: the committed record.
        ours: the same settings, run again, perhaps for fewer updates.
        kept: all committed records, from which the spread of the arm is taken.
    """
    then, now = series(theirs), series(ours)
    shared = [key for key in then if key in now]
    trained = [run.record["experiment"]["train"] for run in (theirs, ours)]
    cut = any(trained[0][key] != trained[1][key] for key in ("max_epoch", "max_update"))
    cut = cut or theirs.record["updates"] < ours.record["updates"]  # the record was stopped early
    ends = [_diverged_at(run, ours.record["updates"] if cut else math.inf) for run in (theirs, ours)]
    first = next((_apart(then[key], now[key]) for key in shared if key[0] == LOSS), math.inf)
    begins = f"the first loss differs by {first:.1e} of itself (rounding: up to {ROUNDING_LIMIT:.1e})"
    alike = ROUNDING if first <= ROUNDING_LIMIT else SAME
    arm = {run.record["axes"]["seed"]: run for run in (*kept, theirs) if arm_of(run) == arm_of(theirs)}
    last = {key[0]: key for key in shared if then[key] is not None}
    judged = [key for kind, key in last.items() if kind != LOSS] or list(last.values())
    intervals = {} if any(ends) else {key: _expected(key, then[key], arm.values(), len(judged)) for key in judged}
    outside = [key for key, (low, high) in intervals.items() if not low <= _finite(now[key]) <= high]
    where = f"where {LEVEL:.0%} of runs of this arm are expected by its {len(arm)} seeds"
    if len(arm) < SEEDS:
        where = f"within {LOOSE:.0%} of the record, a loose bound ({len(arm)} of the {SEEDS} seeds for an interval)"
    if (ends[0] is None) != (ends[1] is None):
        words = [f"diverged at update {update}" if update else "did not diverge" for update in ends]
        grade, reason = DIFFERENT, f"{words[0]} then, {words[1]} now; {begins}"
    elif shared and (cut or then.keys() == now.keys()) and all(then[key] == now[key] for key in shared):
        grade, reason = EQUAL, f"all {len(shared)} numbers that both have are the same"
    elif any(ends):
        grade, reason = alike, f"both diverged, at update {ends[0]} then and {ends[1]} now; {begins}"
    elif outside or not judged:
        labels = ", ".join(map(_label, outside)) or "no number that both have"
        grade, reason = DIFFERENT, f"{begins}; {labels}: not {where}"
    else:
        grade, reason = alike, f"{begins}; the last values are {where}"
    return Comparison(grade, reason, _table(shared, then, now, intervals))


def _diverged_at(run: Run, until: float) -> int | None:
    """Return the update, up to ``until``, at which a run's numbers ceased to be finite; None if they did not."""
    found = run.record["divergence"]
    return found["update"] if found and found["rule"] == NOT_FINITE and found["update"] <= until else None


def _finite(value: float | None) -> float:
    return math.nan if value is None else value


def _apart(then: float | None, now: float | None) -> float:
    """Return the difference of two numbers relative to the first."""
    if then == now:
        return 0.0
    return math.inf if then is None or now is None else abs(now - then) / abs(then or 1.0)


def _expected(key: Key, recorded: float | None, arm: Iterable[Run], judged: int) -> Interval:
    """Return where a further run of the arm is expected, with all of its ``judged`` numbers together.

    The interval reaches at least one unit of the last reported digit to either side of the record.
    """
    value, digit = _finite(recorded), 0.1 if key[0] == BLEU else 0.01
    values = [number for run in arm if (number := series(run).get(key)) is not None]
    if len(values) < SEEDS:
        return value * (1 - LOOSE), value * (1 + LOOSE)
    low, high = prediction_interval(values, 1 - (1 - LEVEL) / judged)
    return min(low, value - digit), max(high, value + digit)


def _label(key: Key) -> str:
    return f"{key[0]}, update {key[2]}" if key[0] == LOSS else f"{key[0]}, epoch {key[1]}"


def _table(shared: Sequence[Key], then: Series, now: Series, intervals: Mapping[Key, Interval]) -> Table:
    """Return the numbers side by side: the first training losses, the last one, and those of all epochs."""
    losses = [key for key in shared if key[0] == LOSS]
    rows = []
    for key in [*losses[:SHOWN], *losses[SHOWN:][-1:], *(key for key in shared if key[0] != LOSS)]:
        numbers = [None if value is None else f"{value:.6f}" for value in (then[key], now[key])]
        expected = " .. ".join(f"{end:.3f}" for end in intervals.get(key, ()))
        rows.append([_label(key), *numbers, f"{_apart(then[key], now[key]):.1e}".replace("0.0e+00", "0"), expected])
    return {"columns": ["", "record", "now", "apart", "expected"], "rows": rows}
