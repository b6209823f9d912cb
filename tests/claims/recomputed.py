"""The verdicts' inputs once more, by numpy from the files of records and settings: nothing of the project's is used.

An arm is told by what its name says of norm, optimizer, ramp and tail, and a record by the same of its own fields.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
Record = dict[str, Any]
ByRate = dict[float, dict[int, Record]]
"""The records of an arm by peak rate, then by seed."""


@cache
def records() -> list[Record]:
    """Return the exploratory records of translation, by experiment, seed and id."""
    found = [json.loads(line) for path in (ROOT / "results" / "records").glob("*.jsonl")
             for line in path.read_text().splitlines()]  # fmt: skip
    found = [one for one in found if one["axes"]["seed"] <= 100]
    return sorted((one for one in found if one["axes"].get("task", "translation") == "translation"),
                  key=lambda one: (one["exp"], one["axes"]["seed"], one["id"]))  # fmt: skip


def values(setting: str) -> dict[str, Any]:
    """Return the values of a setting that arms refer to and its limits of training, with those of what it extends."""
    whole = yaml.safe_load((ROOT / "conf" / "setting" / f"{setting}.yaml").read_text())
    bases = [base for base in whole["defaults"] if isinstance(base, str)]
    return {**(values(*bases) if bases else {}), **whole["reference"], **whole.get("train", {})}


def described(setting: str, arm: str) -> tuple[Any, ...]:
    """Return what an arm's name says: norm, optimizer, ramp, its part, tail, epochs, and the usual initialisation."""
    reference, words = values(setting), arm.split("_")
    optimizer = next((word for word in words if word in ("sgd", "radam")), "adam")
    part = next((word for word in words if word in ("encoder", "decoder")), "all")
    tail = next((word for word in words if word in ("literal", "step", "linear", "anchored")), None)
    if tail is None and "fixed" in words:
        tail = "constant"
    if tail is None and "nowarm" in words and words[0] in ("preln", "postln"):
        tail = {"radam": "linear", "sgd": "anchored"}.get(optimizer, "step" if words[0] == "preln" else "anchored")
    ramp = 0 if "nowarm" in words else reference["short_ramp" if "short" in words else "ramp"]
    return (
        "admin_closed" if "closed" in words else words[0], optimizer, ramp, part,
        tail or ("anchored" if ramp == 0 else "inverse_sqrt"),
        reference["fixed_epochs" if "fixed" in words else "max_epoch"],
        "xavier" if words[0] in ("deepnorm", "subln", "tfixup") else "xavier_legacy",
    )  # fmt: skip


def own(record: Record) -> tuple[Any, ...]:
    """Return the same of a record, without its initialisation; two settings of a corpus may differ in nothing else."""
    settings = record["settings"]
    schedule = settings["schedule"]
    return (settings["norm"], settings["optimizer"]["name"], schedule["warmup_updates"], schedule.get("part", "all"),
            schedule["decay"], settings["train"]["max_epoch"])  # fmt: skip


def plain(record: Record) -> bool:
    """Return whether nothing is scaled that no arm scales, and depth, moments and dropout are the usual ones."""
    optimizer, model = record["settings"]["optimizer"], record["settings"]["model"]
    usual = {"multi30k": 3}.get(record["exp"].partition("_")[0], 6)
    return intervened(record) == (False, None, "zero", 1.0) and (
        optimizer.get("betas") in (None, [0.9, 0.98]) and (model["dropout"], model["layers"]) == (0.1, usual)
    )


def intervened(record: Record) -> tuple[Any, ...]:
    """Return the settings that change the training of an arm to test a cause; older records lack them."""
    optimizer, model = record["settings"]["optimizer"], record["settings"]["model"]
    return (optimizer.get("equal_layer_norms", False), optimizer.get("max_relative_update"),
            optimizer.get("second_moment", "zero"), model.get("branch_gain", 1.0))  # fmt: skip


@cache
def by_rate(setting: str, arm: str) -> ByRate:
    """Return the runs of an arm, one a seed."""
    *wanted, init = described(setting, arm)
    found: ByRate = {}
    for record in records():
        here = record["exp"].partition("_")[0] == setting and plain(record)
        if here and own(record) == tuple(wanted) and record["axes"]["init"] == init:
            found.setdefault(record["axes"]["lr"], {}).setdefault(record["axes"]["seed"], record)
    return dict(sorted(found.items()))


def bleu(record: Record) -> float:
    lost = record["status"] == "diverged" and record["divergence"]["rule"] == "not_finite"
    best = record["bleu"]["test_tokenised"]
    return 0.0 if lost or not best else float(best["score"])


def size(record: Record) -> tuple[Any, ...]:
    return tuple(record["settings"]["model"][name] for name in ("layers", "width", "ffn"))


@cache
def means(setting: str, arms: frozenset[str]) -> list[tuple[tuple[Any, ...], int, int, float]]:
    """Return model size, epochs, seeds and mean BLEU of every arm at every rate, initialised in whatever way."""
    specs = {described(setting, arm)[:-1] for arm in arms}
    groups: dict[str, dict[int, Record]] = {}
    for record in records():
        if record["exp"].partition("_")[0] == setting and own(record) in specs:
            key = str((own(record), record["axes"]["init"], record["axes"]["lr"], intervened(record)))
            groups.setdefault(key, {}).setdefault(record["axes"]["seed"], record)
    return [(size(one := next(iter(group.values()))), one["settings"]["train"]["max_epoch"], len(group),
             float(np.mean([bleu(record) for record in group.values()]))) for group in groups.values()]  # fmt: skip


def relative(record: Record, arms: frozenset[str]) -> float:
    """Return BLEU over that of the best arm of this size and at most as many epochs.

    An arm of fewer than three seeds counts only if none with three would train beside it.
    """
    setting, epochs = record["exp"].partition("_")[0], record["settings"]["train"]["max_epoch"]
    others = [(seeds, mean) for dims, length, seeds, mean in means(setting, arms)
              if dims == size(record) and length <= epochs]  # fmt: skip
    best = max(mean for _, mean in others)
    several = max((mean for seeds, mean in others if seeds >= 3), default=0.0)
    return bleu(record) / (several if several >= 0.88 * best else best)


def counts(runs: Iterable[Record], arms: frozenset[str]) -> tuple[int, int, int]:
    """Return how many runs train, how many fail, and how many there are."""
    shares = np.array([relative(record, arms) for record in runs])
    return int((shares >= 0.88).sum()), int((shares < 0.44).sum()), len(shares)


def usable(setting: str, arm: str, arms: frozenset[str]) -> tuple[float, float] | None:
    """Return the smallest and the largest rate at which four of five seeds train."""
    found = {rate: counts(runs.values(), arms) for rate, runs in by_rate(setting, arm).items() if len(runs) >= 3}
    trains = [rate for rate, (hits, _, seeds) in found.items() if hits >= 0.8 * seeds]
    return (min(trains), max(trains)) if trains else None


def student(values: Iterable[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean."""
    found = np.array([*values])
    half = stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    return float(found.mean() - half), float(found.mean() + half)


def best_rate(setting: str, arm: str) -> float:
    """Return the rate of lowest mean validation loss."""
    losses = {rate: np.mean([min((row["valid_loss"] for row in one["epochs"] if row["valid_loss"]), default=np.inf)
                             for one in runs.values()])
              for rate, runs in by_rate(setting, arm).items() if len(runs) >= 3}  # fmt: skip
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
    one, other = falling(slow), falling(fast)
    target = one[0, 1] - 0.9 * (one[0, 1] - one[:, 1].min())
    return crossing(target, one) / crossing(target, other)


def area(failing: list[float], training: list[float]) -> float:
    """Return the area under the ROC curve by the rank sum of the failing runs."""
    ranks = stats.rankdata([*failing, *training])[: len(failing)]
    return float((ranks.sum() - len(failing) * (len(failing) + 1) / 2) / (len(failing) * len(training)))


def multiverse(setting: str, warm: str, without: str, arms: frozenset[str]) -> dict[str, int]:
    """Return the verdicts on MT-1 for every limit, share of seeds and metric: by the largest rates that train."""

    def lost(one: Record) -> bool:
        return bool(one["status"] == "diverged" and one["divergence"]["rule"] == "not_finite")

    def tokenised(one: Record) -> list[float]:
        return [row["test_bleu_tokenised"] for row in one["epochs"] if row["test_bleu_tokenised"] is not None] or [0.0]

    curves = {arm: {rate: [*runs.values()] for rate, runs in by_rate(setting, arm).items() if len(runs) >= 3}
              for arm in arms}  # fmt: skip
    blind = next(one["data"]["source_blind_bits"] for arm in curves.values() for runs in arm.values() for one in runs
                 if one["data"].get("source_blind_bits"))  # fmt: skip

    def nll(one: Record) -> float:
        rows = [(row["valid_loss"], row["valid_nll_loss"]) for row in one["epochs"] if row["valid_loss"] is not None]
        return min(rows)[1] if rows and not lost(one) else np.inf

    metrics = [bleu, lambda one: tokenised(one)[-1], lambda one: max(tokenised(one)), lambda one: blind - nll(one)]
    verdicts = {"reproduced": 0, "inconclusive": 0, "contradicted": 0}
    for metric in metrics:
        score = {arm: {rate: [0.0 if lost(one) else max(0.0, metric(one)) for one in runs] for rate, runs in of.items()}
                 for arm, of in curves.items()}  # fmt: skip
        best = max(np.mean(values) for of in score.values() for values in of.values())
        for limit in (0.5, 0.6, 0.7, 0.8, 0.9, 0.98):
            hits = {arm: {rate: (np.array(values) / best >= limit) for rate, values in score[arm].items()}
                    for arm in (warm, without)}  # fmt: skip
            for share in (0.6, 0.8, 1.0):
                high, low = (max((rate for rate, hit in hits[arm].items() if hit.mean() >= share), default=None)
                             for arm in (warm, without))  # fmt: skip
                differ = any(
                    stats.fisher_exact([[hit.sum(), (~hit).sum()],
                                        [hits[without][rate].sum(), (~hits[without][rate]).sum()]]).pvalue < 0.05
                    and hit.mean() > hits[without][rate].mean()
                    for rate, hit in hits[warm].items() if rate in hits[without]
                )  # fmt: skip
                known = high not in (None, max(hits[warm])) and low not in (None, max(hits[without]))
                if high and differ and high >= 2 * (low or min(hits[without])):
                    verdicts["reproduced"] += 1
                else:
                    verdicts["contradicted" if high == low and known else "inconclusive"] += 1
    return verdicts


def lr50(counts: dict[float, tuple[int, int]], seed: int = 0) -> tuple[float, float, float]:
    """Return median and 95 % interval of the rate at which half of the seeds train, by a random walk.

    ``counts`` has the seeds that train, of all, by rate; slopes are at most 10 per octave.
    """
    draw, x = np.random.default_rng(seed), np.log2([*counts])
    hits, of = np.array([*counts.values()]).T
    place, slope, kept = x.mean(), 2.0, []

    def log_density(place: float, slope: float) -> float:
        if not (0 < slope <= 10 and x.min() - 3 <= place <= x.max() + 3):
            return -np.inf
        p = np.clip(1 / (1 + np.exp(np.clip(slope * (x - place), -700, 700))), 1e-300, 1 - 1e-16)
        return float((hits * np.log(p) + (of - hits) * np.log(1 - p)).sum() + np.log(slope))

    now = log_density(place, slope)
    for place_step, slope_step, chance in zip(
        draw.normal(0, 0.3, 60_000), draw.normal(0, 2.0, 60_000), np.log(draw.random(60_000)), strict=True
    ):
        proposed = log_density(place + place_step, slope + slope_step)
        if proposed - now > chance:
            place, slope, now = place + place_step, slope + slope_step, proposed
        kept.append(place)
    low, median, high = 2 ** np.quantile(kept[2000:], [0.025, 0.5, 0.975])
    return float(median), float(low), float(high)
