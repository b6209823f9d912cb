"""TH-10 and X: gradients after the ramp, later schemes (X-1 to X-4), and what warm-up does in each stack (X-5 to X-9).

X-5 to X-9 are this project's own claims: without warm-up the tokens of a Post-LN stack become one vector, even if the
rate is high for a few updates alone; it is the encoder's ramp that makes Post-LN faster; removing what its tokens
share replaces it; and SGD needs it, too. Earlier runs suggested them, so that only runs with seeds above `EXPLORED` are
judged.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

from ln_repro.claims.causes import ARMS, PROBE_BATCHES, VANISHING, layer_gradients, separation, unevenness_after
from ln_repro.claims.criteria import Claim, Finding, Origin, OverRates, Report, Rule, Trains, Within
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, LOG, REPRODUCED, VERDICTS, all_of
from ln_repro.claims.metrics import BLEU, LEVELS, NLL_RATIO, SEEDS, SHARE, TIMES_TO_FALL, Count, Effect, Metric
from ln_repro.claims.rules.amendments import AMENDED, REGISTRY, SECOND
from ln_repro.claims.rules.mt import NO_FASTER, TRAINED_BLEU
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run
from ln_repro.system.progress import plural

WRITTEN = Origin("2026-11-21T19:51Z", REGISTRY)  # of the rules for the schemes: before any run of a scheme
DEPTHS = "2026-11-23T17:00Z"
"""When the rule for depths was widened from the two greater depths of a setting to any: before any deeper run."""
SHOWN = SECOND._replace(source=f"{SECOND.source}: their limits had been arbitrary")
LEAST_DEPTHS = 3  # minimum number of depths for a contradiction, where the rule names none
NON_INFERIOR_BLEU, NON_INFERIOR_NLL = -0.3, 1.02
"""A scheme matches Post-LN if its BLEU minus Post-LN's, or the ratio of the NLLs, is within this limit."""
FEW = 1 / 3  # maximum share of the seeds that train if a scheme fails
CHECKPOINTS = (0.0, 1 / 15, 1 / 3, 1.0)
"""Parts of a run after which gradients are compared: the start and epochs 1, 5 and 15 of 15."""
BURST = Origin("2026-11-27T18:15Z", "after X-5b and X-5c; the runs without a burst were known")
"""Of X-5d: before any run with a burst."""
SPEED = Origin("2026-11-28T11:42Z", "seen on toy at 0.001")  # of X-6: before any run of these arms at these rates
BURST16 = Origin("2026-11-28T16:01Z", "one run of each in a pilot with other code and other initial weights was known")
"""Of X-7: before any recorded run with a burst of 16 updates."""
CENTRED = Origin(
    "2026-11-29T02:36Z",
    "two runs with centred branches and one of each other were known; those of Post-LN with the new seeds, too",
)
"""Of X-8a and X-8b: before any run of these arms with a new seed."""
LEARNT = Origin("2026-11-29T03:31Z", "after X-8a and X-8b, without a pilot")  # X-8c: before any run of its first arm
GAIN = Origin("2026-11-29T07:21Z", "known: centred runs on toy at higher rates, one on Multi30k, and Post-LN's")
"""Of X-8d: before any run of its second arm at this rate."""
SMALL = Origin("2026-11-29T09:17Z", "after X-8a to X-8d; Post-LN's runs were known")
"""Of X-8b on Multi30k: before any run of its first arm there."""
SMALLER = Origin("2026-11-29T09:39Z", "without a pilot; known: 9 of 10 with smaller initial weights in both stacks")
"""Of X-8e: before any run of its first arm."""
SMALL_GAIN = Origin("2026-11-29T12:33Z", "after X-8a to X-8e; Post-LN's runs were known")
"""Of X-8f: before any run of its second arm at this rate."""
SMALLER_THERE = Origin("2026-11-29T16:05Z", "after X-8b there and X-8f; Post-LN's runs were known")
"""Of X-8e on Multi30k: before any run of its first arm there."""
LONGER = Origin("2026-11-29T23:03Z", "known: a run with warm-up at 0.2, one at 0.5, and those of three epochs")
"""Of X-9: before any run that it judges."""
SEPARATES = 0.9  # area under the ROC curve above which a measure predicts failure


@dataclass(frozen=True)
class DeepAlone(OverRates):
    """At one or more numbers of layers, few seeds of the first arm train, and all of the second's."""

    bleu: float | None  # minimum BLEU of a run that trains; None: part of that of the best arm
    layers: tuple[int, ...] = ()  # none: all that were run

    @property
    def parts(self) -> tuple[Trains, Trains]:
        """The conditions at each number of layers."""
        first, second = self.arms
        return Trains(first, most=FEW, bleu=self.bleu), Trains(second, least=1, bleu=self.bleu)

    def cost(self) -> float:
        """Return the cost of one seed, in runs with 6 layers."""
        return len(self.arms) * sum(self.layers) / 6

    def sentence(self) -> str:
        among = f" among {', '.join(map(str, self.layers))}" if len(self.layers) > 1 else ""
        depths = f"with {self.layers[0]} layers" if len(self.layers) == 1 else f"at some number of layers{among}"
        return f"{depths}: " + "; ".join(part.sentence() for part in self.parts)

    def judge(self, evidence: Evidence) -> Finding:
        verdicts, texts, runs, seeds = [], [], list[Run](), list[int]()
        for depth, part in evidence.by_depth.items():
            if (self.layers and depth not in self.layers) or part.missing(self.arms):
                continue
            findings = [criterion.judge(part) for criterion in self.parts]
            seeds.append(min(len(part.arms[arm]) for arm in self.arms))
            verdicts.append(all_of(finding.verdict for finding in findings) if seeds[-1] >= SEEDS else INCONCLUSIVE)
            texts.append(f"{depth} layers: {', '.join(map(str, findings))}")
            runs += [run for arm in self.arms for run in part.arms[arm].values()]
        result = min(verdicts, key=VERDICTS.index, default=CONTRADICTED)  # the best: the rule need hold at one depth
        depths = len(self.layers) or LEAST_DEPTHS
        if result == CONTRADICTED and len(verdicts) < depths:
            result = INCONCLUSIVE
        needs = f"{SEEDS} seeds at each of {depths} depths" if result == INCONCLUSIVE else None
        deciding = [text for text, verdict in zip(texts, verdicts, strict=True) if verdict == result]
        return Finding(result, text="; ".join(deciding), needs=needs, runs=runs, seeds=min(seeds, default=0))


class Predicts(OverRates):
    """The first layers' gradients at update 32 separate failing from training runs over schemes and rates."""

    def sentence(self) -> str:
        return (
            f"area under the ROC curve of {VANISHING.quantity}, over all runs of {', '.join(map(arm_words, self.arms))}"
            f" that fail or train: 95 % interval (resampling seeds) above {SEPARATES:g}; contradicted below"
        )

    def judge(self, evidence: Evidence) -> Finding:
        measured = separation(evidence, VANISHING)
        effect, total = replace(measured.effect, unit="area {}"), len(self.arms)
        if math.isnan(effect.value):
            return Finding(INCONCLUSIVE, needs="runs with probe=collapse")
        low, high = effect.interval
        result, needs = REPRODUCED if low > SEPARATES else CONTRADICTED if high < SEPARATES else INCONCLUSIVE, None
        runs = [run for run in evidence.of_arms(self.arms) if not math.isnan(VANISHING.of(run))]
        seeds = len({run.seed for run in runs})
        if measured.arms < total or seeds < SEEDS:
            lacking = {"arms": total - measured.arms, "seeds": SEEDS - seeds}
            result, needs = INCONCLUSIVE, ", ".join(f"{n} more {what}" for what, n in lacking.items() if n > 0)
        text = f"{effect} ({measured.failing} fail, {measured.training} train, {measured.arms} of {total} arms)"
        return Finding(result, effect, text, needs, runs, seeds)


@dataclass(frozen=True)
class OnlyFirst(OverRates):
    """At least `SHARE` of the first arm's seeds train, and at most 1 - `SHARE` of the other arms'."""

    rates: tuple[Rate, ...]  # of each arm
    seeds: int

    def sentence(self) -> str:
        places = [f"{arm_words(arm)} at {rate:g}" for arm, rate in zip(self.arms, self.rates, strict=True)]
        least, (trains, *fail) = math.ceil(SHARE * self.seeds), places
        fails = " and ".join(f"{place} in at most {self.seeds - least}" for place in fail)
        return f"{trains} trains in at least {least} of {self.seeds} seeds, {fails}"

    def judge(self, evidence: Evidence) -> Finding:
        runs = {arm: evidence.curve(arm).get(rate, []) for arm, rate in zip(self.arms, self.rates, strict=True)}
        counts = {arm: Count.of(evidence.trained, of_arm) for arm, of_arm in runs.items()}
        used = [run for of_arm in runs.values() for run in of_arm]
        text = "; ".join(f"{arm_words(arm)}: {count} train" for arm, count in counts.items() if count.runs)
        fewest = min(count.runs for count in counts.values())
        if fewest < self.seeds:
            lacking = ", ".join(
                f"{self.seeds - count.runs} of {arm} at {rate:g}"
                for (arm, count), rate in zip(counts.items(), self.rates, strict=True)
                if count.runs < self.seeds
            )
            return Finding(INCONCLUSIVE, None, text, f"seeds: {lacking}", used, fewest)
        first, *others = counts.values()
        next_best = max(others, key=lambda count: count.share)
        holds = first.share >= SHARE and next_best.share <= 1 - SHARE + 1e-9
        effect = Effect(100 * (first.share - next_best.share), unit=f"{first} against {next_best} train")
        return Finding(REPRODUCED if holds else CONTRADICTED, effect, text, runs=used, seeds=fewest)


@dataclass(frozen=True)
class Faster(OverRates):
    """The time that the first arm takes to fall, over the second's, lies between ``low`` and ``high`` at one rate."""

    rate: Rate
    low: float = -math.inf
    high: float = math.inf
    seeds: int = SEEDS

    @property
    def condition(self) -> Within:
        return Within(TIMES_TO_FALL[max(LEVELS)], self.arms, self.low, self.high)

    def sentence(self) -> str:
        return f"at {self.rate:g}, {self.condition.sentence()}"

    def judge(self, evidence: Evidence) -> Finding:
        runs = {arm: {run.seed: run for run in evidence.curve(arm).get(self.rate, [])} for arm in self.arms}
        used = [run for of_arm in runs.values() for run in of_arm.values()]
        finding, seeds = self.condition.judge(Evidence(runs)), len(set.intersection(*map(set, runs.values())))
        if seeds < self.seeds:
            needs = f"{plural(self.seeds - seeds, 'seed')} of {' and '.join(self.arms)} at {self.rate:g}"
            finding = replace(finding, verdict=INCONCLUSIVE, needs=needs)
        return replace(finding, runs=used, seeds=seeds)


def _over_start(run: Run, kind: str = "norm_of_mean") -> float:
    """Return the last layer's gradient at the first probe after the ramp, or else the last one, over that at the start.

    It is NaN if no probe averages over `PROBE_BATCHES`.
    """
    last = {update: norms[-1] for update, norms in layer_gradients(run, kind).items()}
    if not last:
        return math.nan
    after = min((update for update in last if update >= run.record.axes.warmup_updates), default=max(last))
    return last[after] / last[min(last)]


def _uneven(run: Run) -> float:
    """Return the largest unevenness of the gradients at the `CHECKPOINTS`; NaN if one of them was not probed."""
    values = [unevenness_after(run, part) for part in CHECKPOINTS]
    return math.nan if any(map(math.isnan, values)) else max(values)


OVER_START = Metric("last layer's gradient after the ramp over that at the start", _over_start, "x{} in gradient", LOG)
OVER_START_OF_NORMS = Metric(
    "the same with the mean of the batches' norms", partial(_over_start, kind="mean_of_norms"), "x{} in gradient", LOG
)
UNEVEN = Metric("largest over smallest gradient", _uneven, "x{} in gradient", LOG)


def _rezero(bleu: float | None) -> tuple[Trains | Report, ...]:
    return (
        *(Trains(arm, least=1, bleu=bleu) for arm in ("rezero_nowarm", "rezero_nowarm_step")),
        Report(BLEU.minus(), ("rezero_nowarm", "postln_warm")),
    )


def _ours(id: str, claim: str, grid: str, **by_setting: Rule) -> Claim:
    """Return a claim of this project, which earlier runs suggested and only those with new seeds decide."""
    return Claim(id, claim, "ours", "not in the paper", "-", None, grid=f"rates arms={grid}", by_setting=by_setting,
                 explored=False)  # fmt: skip


def _only(trains: str, *fail: str, at: Rate | tuple[Rate, ...], origin: Origin, seeds: int = SEEDS) -> Rule:
    """Return the rule that only the first arm trains at a rate, or each at its own."""
    arms = (trains, *fail)
    return Rule((OnlyFirst(arms, at if isinstance(at, tuple) else (at,) * len(arms), seeds),), origin, seeds)


TINY = Rule(
    tuple(Report(metric, ("postln_warm",)) for metric in (OVER_START, OVER_START_OF_NORMS)), SHOWN, judged=False
)
EVEN = Rule(
    tuple(
        report
        for arm in ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm", "admin_nowarm")
        for report in (
            Report(UNEVEN, (arm,), f"{arm_words(arm)}, {UNEVEN.words}"),
            Report(NLL_RATIO, (arm, "postln_warm"), f"{arm_words(arm)}, against Post-LN with warm-up"),
        )
    ),
    SHOWN,
    judged=False,
)
"""Of TH-10 and X-4, only numbers are shown."""
ADMIN = (("admin_warm", "postln_warm"), ("admin_warm_closed", "postln_warm"))
DEEP = ("postln_warm", "deepnorm_warm")
NONE, ENCODER, DECODER, BOTH = "postln_nowarm", "postln_warm_encoder", "postln_warm_decoder", "postln_warm"
RAMPS = f"{BOTH},{ENCODER},{DECODER}"
AFTER = "postln_nowarm_burst16"
RESETS = tuple(f"{AFTER}_new{part}" for part in ("encoder", "decoder", "adam"))
OTHERS = (
    Claim(
        "TH-10", "Post-LN: gradients are tiny after warm-up", "section 3.4, figure 3(a, b)",
        "about 0.015 in every layer, 110 times below layer 6 at initialisation (read off)", "x0.009",
        TINY, TINY, options=f" probe=gradients probe_batches={PROBE_BATCHES}",
    ),
    Claim(
        "X-1", "DeepNorm trains at depths where Post-LN fails", "Wang et al. 2022; Liu et al. 2020",
        "Post-LN fails at 18-18 on WMT14; DeepNorm 28.8, 29.0, 28.9 at 18, 50, 100 on WMT17", "18 to 100 layers",
        Rule((DeepAlone(DEEP, TRAINED_BLEU, (6, 12, 18)),), Origin(DEPTHS, REGISTRY)),
        Rule((DeepAlone(DEEP, None),), Origin(DEPTHS, "the amendment's measure; any depth, as in the first rule")),
        grid=f"depth arms={','.join(DEEP)}",
    ),
    Claim(
        "X-2", "ReZero needs neither warm-up nor norm", "Bachlechner et al. 2020",
        "34.66 on IWSLT14, 1 to 2 below others", "34.66 BLEU",
        Rule(_rezero(TRAINED_BLEU), WRITTEN), Rule(_rezero(None), AMENDED),
    ),
    Claim(
        "X-3", "Admin matches or betters Post-LN", "Liu et al. 2020",
        "35.67 +- 0.15 and 35.64 +- 0.23 on IWSLT14; trains at 18-18 on WMT14, where Post-LN does not", "+0.03 BLEU",
        Rule((*(Within(BLEU.minus(), pair, NON_INFERIOR_BLEU) for pair in ADMIN),
              DeepAlone(("postln_warm", "admin_warm"), TRAINED_BLEU, (18,))), WRITTEN),
        Rule(tuple(Within(NLL_RATIO, pair, high=NON_INFERIOR_NLL) for pair in ADMIN), SECOND),
    ),
    Claim(
        "X-4", "Some scheme has even gradients throughout training and reaches Post-LN's final quality",
        "open question", "none claimed", "-",
        EVEN, EVEN, options=f" probe=gradients every=63 probe_batches={PROBE_BATCHES}",
    ),
    Claim(
        "X-5a", "The first layers' vanishing gradients predict which runs fail", "ours", "not in the paper", "-", None,
        Rule((Predicts(ARMS),), SECOND), grid=f"rates arms={','.join(ARMS)}",
        options=" probe=collapse", explored=False,
    ),
    _ours(
        "X-5b", "Just above its limit, Post-LN needs warm-up in the encoder alone", f"{RAMPS} rates=0.001,0.002",
        toy=_only(ENCODER, DECODER, at=0.002, origin=SECOND),
        multi30k6=_only(ENCODER, DECODER, at=0.001, origin=SECOND, seeds=3),
    ),
    _ours(
        "X-5c", "At higher rates, Post-LN needs warm-up in both stacks", f"{RAMPS} rates=0.002,0.004",
        toy=_only(BOTH, ENCODER, DECODER, at=0.004, origin=SECOND),
        multi30k6=_only(BOTH, ENCODER, DECODER, at=0.002, origin=SECOND, seeds=3),
    ),
    _ours(
        "X-5d", "After an epoch at ten times the rate, Post-LN does not train where it does from the start",
        f"{NONE},postln_nowarm_burst rates=0.0005,0.005",
        toy=_only(NONE, "postln_nowarm_burst", at=(0.0005, 0.005), origin=BURST),
    ),
    _ours(
        "X-6", "Where Post-LN trains, a ramp on the encoder makes it faster, one on the decoder does not",
        f"{NONE},{BOTH},{ENCODER},{DECODER} rates=0.0005,0.001",
        toy=Rule((Faster((NONE, ENCODER), 0.0005, NO_FASTER), Faster((NONE, DECODER), 0.0005, high=NO_FASTER)),
                 SPEED._replace(source=f"{SPEED.source}; the runs without a ramp were known")),
        multi30k6=Rule((Faster((BOTH, ENCODER), 0.001, NO_FASTER, seeds=3),), SPEED, 3),
    ),
    _ours(
        "X-7a", "Sixteen updates at ten times the rate keep Post-LN from training; Pre-LN recovers from them",
        f"{AFTER},preln_nowarm_burst16 rates=0.005,0.02",
        toy=_only("preln_nowarm_burst16", AFTER, at=(0.02, 0.005), origin=BURST16),
    ),
    _ours(
        "X-7b", "After such updates, it is the state of the encoder's weights that keeps Post-LN from training",
        f"{','.join(RESETS)} rates=0.005", toy=_only(*RESETS, at=0.005, origin=BURST16),
    ),
    _ours(
        "X-8a", "Just above its limit, Post-LN needs no warm-up if its encoder's branches are centred",
        f"centred_nowarm,{NONE} rates=0.001,0.002",
        toy=_only("centred_nowarm", NONE, at=0.002, origin=CENTRED),
        multi30k6=_only("centred_nowarm", NONE, at=0.001, origin=CENTRED, seeds=3),
    ),
    _ours(
        "X-8b", "What matters there is the size of the encoder's branches, not what their tokens share",
        f"shrunk_nowarm,centredfull_nowarm,{NONE} rates=0.001,0.002",
        toy=_only("shrunk_nowarm", "centredfull_nowarm", at=0.002, origin=CENTRED),
        multi30k6=_only("shrunk_nowarm", NONE, at=0.001, origin=SMALL, seeds=3),
    ),
    _ours(
        "X-8c", "Just above its limit, Post-LN needs no warm-up if the gradients of its encoder's branches are centred",
        f"centredgradient_nowarm,centredforward_nowarm,{NONE} rates=0.002",
        toy=_only("centredgradient_nowarm", NONE, at=0.002, origin=LEARNT),
    ),
    _ours(
        "X-8d", "Where Post-LN trains without warm-up, centring makes it faster",
        f"centred_nowarm,{NONE} rates=0.0005,0.001",
        toy=Rule((Faster((NONE, "centred_nowarm"), 0.0005, NO_FASTER),), GAIN),
    ),
    _ours(
        "X-8e", "Just above its limit, Post-LN needs no warm-up if its encoder's branches are very small",
        f"shrunksignal_nowarm,{NONE} rates=0.001,0.002",
        toy=_only("shrunksignal_nowarm", NONE, at=0.002, origin=SMALLER),
        multi30k6=_only("shrunksignal_nowarm", NONE, at=0.001, origin=SMALLER_THERE, seeds=3),
    ),
    _ours(
        "X-8f", "Where Post-LN trains without warm-up, very small branches in the encoder make it faster",
        f"shrunksignal_nowarm,{NONE} rates=0.0005",
        toy=Rule((Faster((NONE, "shrunksignal_nowarm"), 0.0005, NO_FASTER),), SMALL_GAIN),
    ),
    _ours(
        "X-9", "Under SGD, too, Post-LN needs warm-up at a rate at which it trains with it",
        f"{BOTH}_sgd_long,{NONE}_sgd_long rates=0.2",
        toy=_only(f"{BOTH}_sgd_long", f"{NONE}_sgd_long", at=0.2, origin=LONGER),
    ),
)  # fmt: skip
