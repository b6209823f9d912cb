"""Compare a committed record with a repetition of its run: environments and numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ln_repro.claims.evidence import Arm, interventions
from ln_repro.claims.intervals import LEVEL, Interval, prediction_interval
from ln_repro.errors import UserError
from ln_repro.experiment.compose import flat, registered_experiment
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.records.archive import Run
from ln_repro.records.record import Record
from ln_repro.report.tables import Table

EQUAL, ROUNDING, SAME, DIFFERENT = "equal bit for bit", "equal within rounding", "same verdict", "different"
HALF_THE_DIGITS = 2.0**-11.5
"""The square root of float32's epsilon, a customary bound for rounding errors. Until the first loss is logged, training
amplifies them less than this; another seed differs by more."""
SEEDS, LOOSE = 3, 0.1  # minimum number of seeds for the interval of an arm, and relative tolerance with fewer seeds
NOT_COMPARED = {"train.device", "stop_on_divergence"}  # settings that may differ in a repetition
SHOWN = 5  # number of training losses to show, from the first
LOSS, NLL, BLEU, ACCURACY = "loss", "valid NLL", "test BLEU", "accuracy"
COLUMNS = {NLL: "valid_nll_loss", BLEU: "test_bleu_tokenised", ACCURACY: "valid_accuracy"}
LEAST_HALF_WIDTH = {BLEU: 0.1}
"""Minimum half-width of an interval: the last reported digit of a quantity; 0.01 for other quantities."""


class Key(NamedTuple):
    """What a number is, and when it was measured."""

    kind: str
    epoch: int
    update: int


Series = dict[Key, float | None]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: its grade, the reason as text, and the numbers that both runs have."""

    grade: str
    reason: str
    table: Table


def differences(record: Record, ours: Record) -> list[str]:
    """Return a message for each difference in code, corpus, environment and settings."""
    lines, commit, experiment = [], record.code.git, record.experiment
    if record.code != ours.code or ours.code.dirty:
        then, now = (
            f"{(code.git or code.version)[:10]}{', changed,' if code.dirty else ''}"
            for code in (record.code, ours.code)
        )
        lines.append(f"code: {then} then, {now} now")
        if commit and commit != ours.code.git:
            there = f"../ln-repro-{commit[:10]}"
            lines.append(f"  to run that code: git worktree add {there} {commit[:10]}")
            arm = registered_experiment(experiment.exp)
            if arm and arm.arm_key() == experiment.arm_key():  # otherwise, more settings would be needed
                own = [f"lr={experiment.lr}", f"init={experiment.init}", f"model.layers={experiment.model.layers}"]
                words = [f"exp={experiment.exp}", f"seed={experiment.seed}", *own, *interventions(experiment)]
                lines.append(f"  PYTHONPATH={there} ln-repro run {' '.join(words)}")
    described = {
        "corpus": (record.data.model_dump(exclude_unset=True), ours.data.model_dump(exclude_unset=True)),
        "environment": (record.environment, ours.environment),
        "setting": (experiment.settings(), ours.experiment.settings()),
    }
    for name, parts in described.items():
        before, after = map(flat, parts)
        known = after.keys() if name == "environment" else after.keys() & before.keys() - NOT_COMPARED
        lines += [
            f"{name}: {key} {before.get(key, 'not recorded')} then, {value} now"
            for key, value in after.items()
            if key in known and before.get(key) != value
        ]
    return lines


def arm_of(run: Run) -> tuple[object, ...]:
    """Return a key that is the same for all records of an arm: all settings except the seed, and the corpus."""
    experiment = run.experiment
    start = experiment.start and experiment.start.exp
    arm = Arm(run.arm_key, experiment.lr, experiment.init, experiment.model.layers)
    return arm, *interventions(experiment), start, run.record.data.fingerprint


def series(run: Run) -> Series:
    """Return a run's training losses, then the results of its epochs; None for numbers that are not finite."""
    training = [event for event in run.events if event["kind"] == "train"]
    values: Series = {Key(LOSS, event["epoch"], event["update"]): event["loss"] for event in training}
    for kind, name in COLUMNS.items():
        rows = run.record.epochs
        if kind == BLEU:  # of the epochs that are decoded, if any are
            rows = [row for row in rows if run.record.decodes and run.experiment.eval.decodes(row.epoch)]
        values |= {Key(kind, row.epoch, row.update): getattr(row, name) for row in rows if name in row.model_fields_set}
    return values


def check_length(theirs: Run, updates: int | None) -> None:
    """Raise `UserError` if a repetition of a run over so many updates had nothing to compare."""
    first = min((key.update for key in series(theirs)), default=0)
    if updates is not None and updates < first:
        raise UserError(f"train.max_update: needs at least {first} to compare anything, found {updates}")


def windows(run: Run) -> set[tuple[int, int]]:
    """Return the first and last update of each training loss, which a stop or a save by the clock cuts in two."""
    ends = [event["update"] for event in run.events if event["kind"] == "train"]
    return {*pairwise([0, *ends])}


def compare(theirs: Run, ours: Run, kept: Sequence[Run]) -> Comparison:
    """Compare a run with the record that it repeats, over their common updates; it may have fewer.

    Training amplifies rounding errors. Therefore, the first losses tell whether the runs differ by rounding, and the
    last numbers need only be as near as runs of one arm are, by the committed records ``kept``.
    """
    then, now = _comparable(theirs, ours)
    shared, cut = [key for key in then if key in now], _cut_short(theirs, ours)
    diverged = [_diverged(run, ours.record.updates if cut else math.inf) for run in (theirs, ours)]
    if not shared and diverged == [None, None]:
        raise UserError(f"{theirs.record.id}: nothing to compare; give the new run more updates")
    alike, begins = _beginning(then, now, shared)
    intervals, where = _end(theirs, kept, then, shared)
    if any(diverged):
        intervals = {}
    outside = [key for key, (low, high) in intervals.items() if (end := now[key]) is None or not low <= end <= high]
    if (diverged[0] is None) != (diverged[1] is None):
        words = [f"diverged at update {update}" if update else "not diverged" for update in diverged]
        grade, reason = DIFFERENT, f"{words[0]} then, {words[1]} now; {begins}"
    elif shared and (cut or then.keys() == now.keys()) and all(then[key] == now[key] for key in shared):
        grade, reason = EQUAL, f"all {len(shared)} numbers that both have are the same"
    elif any(diverged):
        grade, reason = alike, f"both diverged, at update {diverged[0]} then and {diverged[1]} now; {begins}"
    elif not intervals:
        grade, reason = DIFFERENT, f"{begins}; no later number of the record is finite"
    elif outside:
        grade, reason = DIFFERENT, f"{begins}; {', '.join(map(_label, outside))}: not {where}"
    else:
        grade, reason = alike, f"{begins}; the end is {where}"
    return Comparison(grade, reason, _table(shared, then, now, intervals))


def _beginning(then: Series, now: Series, shared: Sequence[Key]) -> tuple[str, str]:
    """Return the grade that the first losses allow, and how far they are apart in words."""
    first = next((key for key in shared if key.kind == LOSS), None)
    if first is None:
        return SAME, "the record has no training losses"
    apart = _apart(then[first], now[first])
    words = f"the first losses differ by {apart:.1e}, relative to the record's (rounding: up to {HALF_THE_DIGITS:.1e})"
    return ROUNDING if apart <= HALF_THE_DIGITS else SAME, words


def _end(theirs: Run, kept: Sequence[Run], then: Series, shared: Sequence[Key]) -> tuple[dict[Key, Interval], str]:
    """Return the intervals in which the last numbers of each kind are expected, and what these are in words."""
    recorded = {key: value for key in shared if (value := then[key]) is not None}
    last = {key.kind: key for key in recorded}
    final = [key for kind, key in last.items() if kind != LOSS] or list(last.values())
    by_seed = {run.record.axes.seed: series(run) for run in (*kept, theirs) if arm_of(run) == arm_of(theirs)}
    of_arm = {key: [value for run in by_seed.values() if (value := run.get(key)) is not None] for key in final}
    intervals = {key: _expected(key, recorded[key], of_arm[key], len(final)) for key in final}
    seeds = min(map(len, of_arm.values()), default=0)
    words = f"in the range expected for {LEVEL:.0%} of this arm's runs (from {seeds} seeds)"
    if seeds < SEEDS:
        words = f"within {LOOSE:.0%} of the record, a loose bound (an interval needs {SEEDS} seeds, not {seeds})"
    return intervals, words


def _comparable(theirs: Run, ours: Run) -> tuple[Series, Series]:
    """Return the numbers of two runs, with the training losses of those updates that both have averaged."""
    ends = {end for _, end in windows(theirs) & windows(ours)}
    then, now = (
        {key: value for key, value in series(run).items() if key.kind != LOSS or key.update in ends}
        for run in (theirs, ours)
    )
    return then, now


def _cut_short(theirs: Run, ours: Run) -> bool:
    """Return whether one of the runs was to be shorter than the other, or was stopped early."""
    before, after = (run.experiment.train for run in (theirs, ours))
    shortened = any(getattr(before, key) != getattr(after, key) for key in ("max_epoch", "max_update"))
    return shortened or theirs.record.updates < ours.record.updates


def _diverged(run: Run, until: float) -> int | None:
    """Return the update after which a run's numbers were not finite, if it is not after ``until``; otherwise None."""
    event = run.record.divergence
    return event.update if event and event.rule == NOT_FINITE and event.update <= until else None


def _apart(then: float | None, now: float | None) -> float:
    """Return the relative difference of two numbers."""
    if then == now:
        return 0.0
    return math.inf if then is None or now is None else abs(now - then) / abs(then or 1.0)


def _expected(key: Key, value: float, arm: Sequence[float], ends: int) -> Interval:
    """Return the prediction interval for a number, given those of an arm's runs; simultaneous for ``ends`` numbers."""
    least = LEAST_HALF_WIDTH.get(key.kind, 0.01)
    low, high = value * (1 - LOOSE), value * (1 + LOOSE)
    if len(arm) >= SEEDS:
        low, high = prediction_interval(arm, 1 - (1 - LEVEL) / ends)
    return min(low, value - least), max(high, value + least)


def _label(key: Key) -> str:
    return f"{key.kind}, update {key.update}" if key.kind == LOSS else f"{key.kind}, epoch {key.epoch}"


def _table(shared: Sequence[Key], then: Series, now: Series, intervals: Mapping[Key, Interval]) -> Table:
    """Return a table of the first training losses, the last one, and the results of all epochs."""
    losses = [key for key in shared if key.kind == LOSS]
    rows = []
    for key in [*losses[:SHOWN], *losses[SHOWN:][-1:], *(key for key in shared if key.kind != LOSS)]:
        numbers = [None if value is None else f"{value:.6f}" for value in (then[key], now[key])]
        expected = " .. ".join(f"{end:.3f}" for end in intervals.get(key, ()))
        rows.append([_label(key), *numbers, f"{_apart(then[key], now[key]):.1e}".replace("0.0e+00", "0"), expected])
    return Table(["", "record", "now", "difference", "expected"], rows)
