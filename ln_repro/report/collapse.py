"""The tables of the collapse: how far it goes, which stack needs the ramp, and what replaces warm-up."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ln_repro.claims.causes import LATEST, STACKS, cosines, probes, relative_gradients
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import Archive
from ln_repro.claims.lr50 import arms_of, lr50
from ln_repro.claims.metrics import TIMES_TO_FALL, TOKENISED, Count
from ln_repro.claims.words import SCHEME_NAMES, arm_words, display_name
from ln_repro.experiment.name import Name
from ln_repro.records.archive import Run
from ln_repro.report.tables import Table, rate_words, rounded

ENCODER = "_warm_encoder"  # the end of the name of an arm with a ramp on the encoder alone
RAMPS = ("no ramp", "encoder's ramp", "decoder's ramp", "ramp on both")
LATE = 2048  # the second update at which collapse is shown
EXPLORATORY = "*: exploratory seeds, as there are no new ones"
BRANCHES = {
    "postln_nowarm": "Post-LN", "postln_warm": "Post-LN, ramp", "centred_nowarm": "centred", "shrunk_nowarm": "shrunk",
    "shrunksignal_nowarm": "shrunksignal", "centredfull_nowarm": "centredfull",
    "centredforward_nowarm": "centredforward", "centredgradient_nowarm": "centredgradient",
    "preln_nowarm_anchored": "Pre-LN",
}  # fmt: skip
"""The arms of the table of changed branches, with their names there; without warm-up, unless the name has a ramp."""
REMEDIES = {
    "postln_nowarm": "nothing",
    "shrunk_nowarm": "small branches",
    "shrunksignal_nowarm": "smaller branches",
    "centred_nowarm": "centred branches",
    "centredfull_nowarm": "centred, but large",
    "postln_warm_encoder": "ramp on the encoder",
    "postln_warm_decoder": "ramp on the decoder",
    "postln_warm": "ramp on both",
    "preln_nowarm_anchored": "Pre-LN instead",
}
"""The arms of the table of what replaces warm-up, with what is changed in Post-LN without it."""
TOO_HIGH = {"toy, 0.002": ("toy", 0.002), "toy, 0.004": ("toy", 0.004), "Multi30k, 0.001": ("multi30k6", 0.001)}
"""Settings and rates above Post-LN's limit, on toy 1.4 and 2.8 times it."""
EARLY = 5  # the epoch after which that table shows BLEU, of 15
BURSTS = {
    "burst16": "nothing",
    "burst16_newadam": "Adam",
    "burst16_newdecoder": "Adam, decoder",
    "burst16_newencoder": "Adam, encoder",
    "burst16_newencoderweights": "encoder",
}
"""The ends of the names of arms with a burst, and what is reset after it."""


def span(values: Sequence[float], form: str) -> str | None:
    """Return the lowest and the highest value as text, "28 to 31", or "37" if they are the same; None of no values."""
    if not values:
        return None
    low, high = (f"{end:{form}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def collapse_table(runs: Sequence[Run]) -> Table:
    """Return one row per run that was probed for collapse early: both stacks then, the NLL later, and the BLEU."""
    heads = [f"{what}, {stack}" for what in ("cosine", "gradient") for stack in STACKS]
    rows = []
    for run in sorted(runs, key=lambda run: run.record.exp):
        probed, gradients = probes(run, "collapse"), relative_gradients(run)
        if LATEST not in probed:
            continue
        cells: list[str | None] = [f"{cosines(run)[stack][LATEST]:.3f}" for stack in STACKS]
        cells += [rounded(gradients[stack].get(LATEST), ".1g") for stack in STACKS]
        nll = f"{probed[LATE]['nll']['dropout']:.1f}" if LATE in probed else None
        bleu = f"{run.bleu:.1f}" if run.record.bleu.test_tokenised else None
        rows.append([arm_words(Name.of(run.record.exp).arm), run.record.axes.precision, *cells, nll, bleu])
    notes = [f"cosine and gradient: at update {LATEST}; NLL: at update {LATE}, on the probes' batches, with dropout"]
    return Table(["arm", "precision", *heads, "NLL", "BLEU"], rows, notes)


def degrees_table(evidence: Evidence) -> Table:
    """Return how far the encoder's tokens become alike in Post-LN and Pre-LN, by arm and rate."""
    columns = ["arm", "peak rate", "trains", "smallest gradient", "largest cosine", "last cosine", "BLEU"]
    rows = []
    for arm in (*arms_of("postln"), *arms_of("preln")):
        for rate, runs in evidence.curve(arm).items():
            gradients = [relative_gradients(run)["encoder"] for run in runs]
            if not all(gradients):
                continue
            alike = [cosines(run)["encoder"] for run in runs]
            rows.append([
                arm_words(arm), rate_words(rate), str(Count.of(evidence.trained, runs)),
                span([min(curve.values()) for curve in gradients], ".2g"),
                span([max(curve.values()) for curve in alike], ".3f"),
                span([curve[max(curve)] for curve in alike], ".2f"), span([run.bleu for run in runs], ".0f"),
            ])  # fmt: skip
    note = "first layer's gradient of the encoder, over that before training; mean cosine between its output's tokens"
    return Table(columns, rows, [note])


def branches_table(archive: Archive) -> Table:
    """Return what becomes of Post-LN, by its encoder's branches: seeds that train, speed, BLEU and NLL."""
    speed, rows = TIMES_TO_FALL[0.9], []
    plain = {run.seed: run for run in _newest(archive, "toy", "postln_nowarm", 0.0005)[1]}
    for arm, name in BRANCHES.items():
        _, slow, _ = _newest(archive, "toy", arm, 0.0005)
        speeds = [speed.of(plain[run.seed], run) for run in slow if run.seed in plain]
        evidence, runs, star = _newest(archive, "multi30k6", arm, 0.001)
        early = [run.curve(TOKENISED).get(EARLY, 0.0) for run in runs if run.experiment.eval.decodes(EARLY)]
        rows.append(
            [
                name,
                _count(*_newest(archive, "toy", arm, 0.002)),
                f"{speed.effect(speeds).value:.2f}" if speeds else None,
                f"{fmean(run.nll for run in slow):.3f}" if slow else None,
                _count(evidence, runs, star),
                span(early, ".0f"),
                span([run.bleu for run in runs], ".0f"),
                span([run.final_nll for run in runs], ".2f"),
            ]
        )
    columns = [
        "branches", "toy, 0.002: trains", "toy, 0.0005: speed", "NLL", "Multi30k, 0.001: trains",
        f"BLEU, epoch {EARLY}", "BLEU, epoch 15", "NLL",
    ]  # fmt: skip
    note = f"without warm-up, unless there is a ramp; speed: as in MT-5, over Post-LN's; NLL: in bits; {EXPLORATORY}"
    return Table(columns, [row for row in rows if any(row[1:])], [note])


def remedies_table(archive: Archive) -> Table:
    """Return how many seeds train at rates at which Post-LN fails without warm-up, by what is changed."""
    rows = [
        [name, *(_count(*_newest(archive, setting, arm, rate)) for setting, rate in TOO_HIGH.values())]
        for arm, name in REMEDIES.items()
    ]
    return Table(["changed", *TOO_HIGH], [row for row in rows if any(row[1:])], [f"seeds that train; {EXPLORATORY}"])


def bursts_table(archive: Archive) -> Table:
    """Return what becomes of runs after 16 updates at ten times their rate, by what is reset then."""
    rows = []
    for norm in ("postln", "preln"):
        for end, reset in BURSTS.items():
            for rate, runs in archive.replication.get("toy", Evidence()).curve(f"{norm}_nowarm_{end}").items():
                count = Count.of(archive.replication["toy"].trained, runs)
                scores = span([run.bleu for run in runs], ".1f")
                rows.append([SCHEME_NAMES[norm], rate_words(rate), rate_words(rate / 10), reset, str(count), scores])
    return Table(["placement", "16 updates at", "then", "reset", "trains", "BLEU"], rows)


def _newest(archive: Archive, setting: str, arm: str, rate: float) -> tuple[Evidence, Sequence[Run], str]:
    """Return an arm's runs with new seeds at a rate and a mark: if there are none, exploratory ones and a star."""
    new, explored = (part.get(setting, Evidence()) for part in (archive.replication, archive.evidence))
    part, star = (new, "") if rate in new.curve(arm) else (explored, "*")
    return part, part.curve(arm).get(rate, []), star


def _count(evidence: Evidence, runs: Sequence[Run], star: str) -> str | None:
    return f"{Count.of(evidence.trained, runs)}{star}" if runs else None


def _ramped(evidence: Evidence) -> dict[str, list[str]]:
    """Return the arms of each placement of which one stack alone has had a ramp, in the order of `RAMPS`."""
    norms = [arm.removesuffix(ENCODER) for arm in evidence.rates if arm.endswith(ENCODER)]
    cells = {norm: arms_of(norm) for norm in norms}
    return {norm: [without, f"{warm}_encoder", f"{warm}_decoder", warm] for norm, (without, warm) in cells.items()}


def stacks_table(archive: Archive) -> Table:
    """Return how many seeds train with a ramp on a part of the model, at the rates at which this differs by part."""
    rows = []
    for setting, new in archive.replication.items():
        for norm, arms in _ramped(new).items():
            for rate in sorted({*new.curve(arms[1])} & {*new.curve(arms[2])}):
                parts = [_newest(archive, setting, arm, rate) for arm in arms]
                shares = {Count.of(part.trained, runs).share for part, runs, _ in parts if runs}
                if all(runs for _, runs, _ in parts) and len(shares) > 1:
                    words = [f"{_count(*part)} ({fmean(run.bleu for run in part[1]):.1f})" for part in parts]
                    rows.append([display_name(setting), display_name(norm), rate_words(rate), *words])
    note = f"seeds that train (their mean BLEU, with those that do not); {EXPLORATORY}"
    return Table(["setting", "placement", "peak rate", *RAMPS], rows, [note])


def ramps_table(evidence: Evidence) -> Table:
    """Return how much faster a ramp on a part of the model is than none, at rates that train without one.

    Placements whose LR50 without a ramp is only a bound are left out.
    """
    metric, rows = TIMES_TO_FALL[0.9], []
    for norm, arms in _ramped(evidence).items():
        limit = lr50(evidence, arms[0])
        if limit is None or not 0 < limit.median < math.inf:
            continue
        curves = [evidence.curve(arm) for arm in arms]
        for rate in sorted(set.intersection(*map(set, curves))):
            none, *ramped = ({run.seed: run for run in curve[rate]} for curve in curves)
            if Count.of(evidence.trained, none.values()).share < 0.5:
                continue
            factors = [Evidence({"none": none, "ramp": runs}).values(("none", "ramp"), metric.of) for runs in ramped]
            effects = [str(replace(metric.effect(of_ramp), unit="x{}")) for of_ramp in factors]
            rows.append([display_name(norm), rate_words(rate), f"{rate / limit.median:.2f}", *effects])
    notes = ["times as fast as without a ramp, to 90 % of the decrease in loss, as in MT-5; LR50: that without a ramp"]
    columns = ["placement", "peak rate", "over LR50", *RAMPS[1:]]
    return Table(columns, sorted(rows, key=lambda row: float(row[2])), notes)
