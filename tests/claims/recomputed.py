"""The verdicts' inputs once more, by numpy from the files of records and settings: nothing of the project's is used.

An arm is told by what its name says of norm, optimizer, ramp and tail, and a record by the same of its own fields.
"""

import json
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
Record = dict[str, Any]
ByRate = dict[float, dict[int, Record]]
"""The records of an arm by peak rate, then by seed."""
NEW = ", new seeds"
"""Marks the part of a setting's records that is the replication; the other part is exploratory."""


def part_of(record: Record) -> str:
    """Return the part that a record belongs to: its setting, and whether the seed is a new one."""
    setting = str(record["exp"].partition("_")[0])
    return f"{setting}{NEW}" if record["axes"]["seed"] > 100 else setting


@cache
def records(part: str) -> list[Record]:
    """Return the records of translation in a part, by experiment, seed and id."""
    lines = (ROOT / "results" / "records" / f"{part.removesuffix(NEW)}.jsonl").read_text().splitlines()
    of_part = [record for record in map(json.loads, lines) if part_of(record) == part]
    return sorted(of_part, key=lambda record: (record["exp"], record["axes"]["seed"], record["id"]))


def values(setting: str) -> dict[str, Any]:
    """Return the values of a setting that arms refer to and its limits of training, with those of what it extends."""
    whole = yaml.safe_load((ROOT / "conf" / "setting" / f"{setting}.yaml").read_text())
    bases = [base for base in whole["defaults"] if isinstance(base, str)]
    return {**(values(*bases) if bases else {}), **whole["reference"], **whole.get("train", {})}


RESETS = {"adam": "optimizer", "encoderweights": "encoder_weights"}
"""What the names of arms call otherwise than ``schedule.step_reset``."""


def described(part: str, arm: str) -> tuple[Any, ...]:
    """Return what an arm's name says: norm, optimizer, ramp, its stack, tail, epochs, and the usual initialisation."""
    reference, words = values(part.removesuffix(NEW)), arm.split("_")
    optimizer = next((word for word in words if word in ("sgd", "radam")), "adam")
    stack = next((word for word in words if word in ("encoder", "decoder")), "all")
    tail = next((word for word in words if word in ("literal", "step", "linear", "anchored")), None)
    if tail is None and {"fixed", "burst", "burst16"} & {*words}:
        tail = "constant" if "fixed" in words else "step"
    if tail is None and "nowarm" in words and words[0] in ("preln", "postln"):
        tail = {"radam": "linear", "sgd": "anchored"}.get(optimizer, "step" if words[0] == "preln" else "anchored")
    epochs = next((f"{word}_epochs" for word in words if word in ("fixed", "burst", "long")), "max_epoch")
    ramp = 0 if "nowarm" in words else reference["short_ramp" if "short" in words else "ramp"]
    return (
        "admin_closed" if "closed" in words else words[0], optimizer, ramp, stack,
        tail or ("anchored" if ramp == 0 else "inverse_sqrt"),
        reference[epochs], 16 if "burst16" in words else None,
        next((RESETS.get(word[3:], word[3:]) for word in words if word.startswith("new")), "none"),
        "xavier" if words[0] in ("deepnorm", "subln", "tfixup") else "xavier_legacy",
    )  # fmt: skip


def recorded(record: Record) -> tuple[Any, ...]:
    """Return the same of a record, without its initialisation; two settings of a corpus may differ in nothing else."""
    settings = record["settings"]
    schedule = settings["schedule"]
    return (settings["norm"], settings["optimizer"]["name"], schedule["warmup_updates"], schedule.get("part", "all"),
            schedule["decay"], settings["train"]["max_epoch"], schedule.get("step_update"),
            schedule.get("step_reset", "none"))  # fmt: skip


USUAL = (False, None, "zero", 1.0, "ramp")


def intervened(record: Record) -> tuple[Any, ...]:
    """Return the settings that change the training of an arm to test a cause; records name no defaults."""
    optimizer, model = record["settings"]["optimizer"], record["settings"]["model"]
    return (optimizer.get("equal_layer_norms", False), optimizer.get("max_relative_update"),
            optimizer.get("second_moment", "zero"), model.get("branch_gain", 1.0),
            record["settings"]["schedule"].get("embeddings", "ramp"))  # fmt: skip


@cache
def by_rate(part: str, arm: str) -> ByRate:
    """Return the runs of an arm, one a seed: nothing is scaled, and depth, optimizer and dropout are the usual ones."""
    *wanted, init = described(part, arm)
    layers = 3 if part == "multi30k" else 6
    rates: ByRate = {}
    for record in records(part):
        optimizer, model, axes = record["settings"]["optimizer"], record["settings"]["model"], record["axes"]
        usual = (optimizer.get("betas") in (None, [0.9, 0.98]) and optimizer.get("eps") in (None, 1e-8)
                 and (model.get("dropout", 0.1), model["layers"]) == (0.1, layers))  # fmt: skip
        if usual and recorded(record) == tuple(wanted) and intervened(record) == USUAL and axes["init"] == init:
            rates.setdefault(axes["lr"], {}).setdefault(axes["seed"], record)
    return dict(sorted(rates.items()))


def lost(record: Record) -> bool:
    return bool(record["status"] == "diverged" and record["divergence"]["rule"] == "not_finite")


def bleu(record: Record) -> float:
    best = record["bleu"]["test_tokenised"]
    return 0.0 if lost(record) or not best else float(best["score"])


def size(record: Record) -> tuple[Any, ...]:
    return tuple(record["settings"]["model"][name] for name in ("layers", "width", "ffn"))


@cache
def means(part: str, arms: frozenset[str]) -> list[tuple[tuple[Any, ...], int, int, float]]:
    """Return model size, epochs, seeds and mean BLEU of every arm at every rate, initialised in whatever way."""
    specs = {described(part, arm)[:-1] for arm in arms}
    groups: dict[str, dict[int, Record]] = {}
    for record in records(part):
        if recorded(record) in specs:
            key = str((recorded(record), record["axes"]["init"], record["axes"]["lr"], intervened(record)))
            groups.setdefault(key, {}).setdefault(record["axes"]["seed"], record)
    every = [[*group.values()] for group in groups.values()]
    return [(size(runs[0]), runs[0]["settings"]["train"]["max_epoch"], len(runs), float(np.mean([*map(bleu, runs)])))
            for runs in every]  # fmt: skip


def relative(record: Record, arms: frozenset[str]) -> float:
    """Return BLEU over that of the best arm of this size and at most as many epochs.

    An arm of fewer than three seeds counts only if none with three would train beside it.
    """
    epochs = record["settings"]["train"]["max_epoch"]
    compared = [(seeds, mean) for dims, length, seeds, mean in means(part_of(record), arms)
                if dims == size(record) and length <= epochs]  # fmt: skip
    best = max(mean for _, mean in compared)
    several = max((mean for seeds, mean in compared if seeds >= 3), default=0.0)
    return bleu(record) / (several if several >= 0.88 * best else best)


def counts(runs: Iterable[Record], arms: frozenset[str]) -> tuple[int, int, int]:
    """Return how many runs train, how many fail, and how many there are."""
    shares = np.array([relative(record, arms) for record in runs])
    return int((shares >= 0.88).sum()), int((shares < 0.44).sum()), len(shares)


def usable(part: str, arm: str, arms: frozenset[str]) -> tuple[float, float] | None:
    """Return the smallest and the largest rate at which four of five seeds train."""
    of_rates = {rate: counts(runs.values(), arms) for rate, runs in by_rate(part, arm).items() if len(runs) >= 3}
    trains = [rate for rate, (hits, _, seeds) in of_rates.items() if hits >= 0.8 * seeds]
    return (min(trains), max(trains)) if trains else None


def student(values: Iterable[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean."""
    sample = np.array([*values])
    half = stats.t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def best_rate(part: str, arm: str) -> float:
    """Return the rate of lowest mean validation loss."""
    losses = {rate: np.mean([min((row["valid_loss"] for row in run["epochs"] if row["valid_loss"]), default=np.inf)
                             for run in runs.values()])
              for rate, runs in by_rate(part, arm).items() if len(runs) >= 3}  # fmt: skip
    return min(losses, key=lambda rate: losses[rate])


def crossing(target: float, curve: np.ndarray) -> float:
    """Return where a falling quantity, rows of place and value, first reaches the target."""
    first = int(np.argmax(curve[:, 1] <= target))
    (x0, y0), (x1, y1) = curve[max(first - 1, 0)], curve[first]
    return float(x1 if first == 0 else x0 + (target - y0) / (y1 - y0) * (x1 - x0))


def falling(record: Record) -> np.ndarray:
    """Return epoch and validation NLL, or of a short run update and training loss, averaged over 100 updates."""
    nll = np.array([(row["epoch"], row["valid_nll_loss"]) for row in record["epochs"]], float)
    if len(nll) >= 5:
        return nll
    curve = np.array([*zip(record["curve"]["update"], record["curve"]["loss"], strict=True)], float)
    window = np.ceil(curve[:, 0] / 100)
    means = np.array([curve[window == at].mean(axis=0) for at in np.unique(window)])
    return np.vstack([curve[:1], means[means[:, 0] > curve[0, 0]]])


def speed(slow: Record, fast: Record) -> float:
    """Return the time of one run over that of another to nine tenths of the former's decrease."""
    curve = falling(slow)
    target = curve[0, 1] - 0.9 * (curve[0, 1] - curve[:, 1].min())
    return crossing(target, curve) / crossing(target, falling(fast))


def area(failing: list[float], training: list[float]) -> float:
    """Return the area under the ROC curve by the rank sum of the failing runs."""
    ranks = stats.rankdata([*failing, *training])[: len(failing)]
    return float((ranks.sum() - len(failing) * (len(failing) + 1) / 2) / (len(failing) * len(training)))


def tokenised(record: Record) -> list[float]:
    """Return BLEU on tokens after each epoch."""
    scores = [row["test_bleu_tokenised"] for row in record["epochs"]]
    return [score for score in scores if score is not None] or [0.0]


def nll(record: Record) -> float:
    """Return the validation NLL at the lowest validation loss."""
    rows = [(row["valid_loss"], row["valid_nll_loss"]) for row in record["epochs"] if row["valid_loss"] is not None]
    return float(min(rows)[1]) if rows and not lost(record) else np.inf


def multiverse(part: str, warm: str, without: str, arms: frozenset[str]) -> dict[str, int]:
    """Return the verdicts on MT-1 for every limit, share of seeds and metric: by the largest rates that train."""
    curves = {
        arm: {rate: [*runs.values()] for rate, runs in by_rate(part, arm).items() if len(runs) >= 3} for arm in arms
    }
    corpora = (run["data"] for of_arm in curves.values() for runs in of_arm.values() for run in runs)
    blind = next(corpus["source_blind_bits"] for corpus in corpora if corpus.get("source_blind_bits"))
    metrics = [bleu, lambda run: tokenised(run)[-1], lambda run: max(tokenised(run)), lambda run: blind - nll(run)]
    verdicts = {"reproduced": 0, "inconclusive": 0, "contradicted": 0}
    for metric in metrics:
        scores = {arm: {rate: np.array([0.0 if lost(run) else max(0.0, metric(run)) for run in runs])
                        for rate, runs in of_arm.items()} for arm, of_arm in curves.items()}  # fmt: skip
        best = max(values.mean() for of_arm in scores.values() for values in of_arm.values())
        for limit, share in product((0.5, 0.6, 0.7, 0.8, 0.9, 0.98), (0.6, 0.8, 1.0)):
            ramp, none = (
                {rate: values / best >= limit for rate, values in scores[arm].items()} for arm in (warm, without)
            )
            high, low = (
                max((rate for rate, hit in hits.items() if hit.mean() >= share), default=None) for hits in (ramp, none)
            )
            tables = [[[hit.sum(), (~hit).sum()] for hit in (ramp[rate], none[rate])] for rate in {*ramp} & {*none}
                      if ramp[rate].mean() > none[rate].mean()]  # fmt: skip
            differ = any(stats.fisher_exact(table).pvalue < 0.05 for table in tables)
            known = high not in (None, max(ramp)) and low not in (None, max(none))
            if high and differ and high >= 2 * (low or min(none)):
                verdicts["reproduced"] += 1
            else:
                verdicts["contradicted" if high == low and known else "inconclusive"] += 1
    return verdicts


def lr50(counts: dict[float, tuple[int, int]]) -> np.ndarray:
    """Return lower end, median and upper end of the rate at which half of the seeds train.

    ``counts`` has the seeds that train, of all, by rate. Intercept and slope of the regression on log2(rate) have a
    flat prior; the slope is at most 10 an octave, and the rate at most three octaves from those run.
    """
    x, (hits, of) = np.log2([*counts]), np.array([*counts.values()]).T
    slope, intercept = np.linspace(0.02, 10, 500), np.linspace(-80, 80, 6401)[:, None]
    place = x.mean() + intercept / slope
    weight = np.where((x.min() - 3 <= place) & (place <= x.max() + 3), 1.0, 0.0)
    for at, trained, runs in zip(x, hits, of, strict=True):
        chance = 1 / (1 + np.exp(slope * (at - place)))
        weight *= chance**trained * (1 - chance) ** (runs - trained)
    order = np.argsort(place, axis=None)
    share = np.cumsum(weight.ravel()[order]) / weight.sum()
    return 2.0 ** np.interp([0.025, 0.5, 0.975], share, place.ravel()[order])
