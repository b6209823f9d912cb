"""The report page: all verdicts with their rules, figures and numbers, and the curves of all runs, in one HTML file."""

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import interventions
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED
from ln_repro.claims.words import corpus_order, ends_words, named
from ln_repro.records.archive import Run
from ln_repro.records.series import POINTS
from ln_repro.report.reproduction import arm_of
from ln_repro.report.tables import Table, signatures
from ln_repro.report.theory_panels import Panel, described, measured

"""Maximum number of points of a training curve."""
Arm = dict[str, Any]
ASSETS = Path(__file__).parent / "assets"
VERDICTS = {
    REPRODUCED: "the claim's rule is met over the seeds, by a 95 % interval or Fisher's exact test",
    CONTRADICTED: "the opposite is shown by the same means",
    INCONCLUSIVE: "neither is shown: there are too few seeds or rates so far, or the result lies between the two",
    NOT_RUN: "no run yet on the paper's data",
}
GROUPS = {
    "MT": "Translation, IWSLT14 German to English",
    "WMT": "Translation, WMT14 English to German",
    "BERT": "BERT pre-training",
    "TH": "Theory, and gradients at initialisation",
    "X": "Beyond the paper",
}
"""Headings by the first part of a claim's id."""
Finding = Mapping[str, Any]
OTHERS = ("other", "preln-sgd", "postln-radam")
"""Colours of series that do not belong to a norm placement."""
PANELS: dict[str, Sequence[str]] = {
    "TH-2": ("hidden_states simplified postln", "hidden_states real postln"),
    "TH-3": ("hidden_states simplified preln", "hidden_states real preln"),
    "TH-5": ("shares",),
    "TH-6": ("figure_3 c", "simplified_gradients last postln"),
    "TH-7": ("figure_3 d", "simplified_gradients last preln"),
    "TH-8": ("figure_3 a", "figure_3 b"),
    "TH-9": ("figure_3 a", "figure_3 b"),
    "TH-11": ("figure_3 b", "simplified_gradients layers postln"),
    "TH-11-pre": ("simplified_gradients layers preln",),
}
"""The panels of each finding; findings that are not listed have one of their intervals by width of the model."""


def page(runs: Sequence[Run], claims: Sequence[Mapping[str, Any]], theory: Mapping[str, Any], figure: str = "") -> str:
    """Return the page as HTML; it depends only on the arguments.

    ``theory`` has the ``findings`` and ``figures`` of `ln-repro theory`; a finding is shown with the claim of its id.
    ``figure`` is the first figure, as SVG.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    records = [run.record for run in runs]
    arms = arms_of(runs)
    findings = {finding["id"]: finding for finding in theory["findings"]}
    panels = {name: finding_panels(finding, theory["figures"]) for name, finding in findings.items()}
    groups: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        kind = claim["id"].partition("-")[0]
        shown = _shown(claim, arms, findings.get(claim["id"]), panels.get(claim["id"], []))
        groups.setdefault(GROUPS.get(kind, kind), []).append(shown)
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["named"] = named
    data = json.dumps(
        {"panels": panels, **chart_data(runs, arms)}, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return environment.get_template("page.html").render(
        groups=groups,
        verdicts=VERDICTS,
        figure=figure[figure.find("<svg") :] if figure else "",
        others=sorted({other["data"] for claim in claims for other in claim["other_corpora"]}, key=corpus_order),
        arms=arms,
        filters=_filters(arms),
        runs=len(records),
        points=POINTS,
        signatures=[note for note in signatures(records) if note.startswith("BLEU tok.:")],
        data=data.replace("<", "\\u003c"),  # so that the data cannot close the script element
        asset=lambda name: (ASSETS / name).read_text(encoding="utf-8"),
    )


def _shown(
    claim: Mapping[str, Any], arms: Sequence[Arm], finding: Finding | None, panels: Sequence[Any]
) -> dict[str, Any]:
    """Return a claim with its arms, its runs by corpus, its numbers and its panels."""
    evidence = {*claim["evidence"], *(name for other in claim["other_corpora"] for name in other["evidence"])}
    used = [arm for arm in arms if evidence & {*arm["ids"]}]
    runs = {corpus: [name for arm in used if arm["data"] == corpus for name in arm["ids"] if name in evidence]
            for corpus in _corpora(used)}  # fmt: skip
    numbers = number_table(finding) if finding else None
    scored = {arm["data"] for arm in used if arm["bleu_mean"] >= 0}
    return {**claim, "arms": used, "runs": runs, "scored": scored, "numbers": numbers, "panels": panels}


def _corpora(arms: Sequence[Arm]) -> list[str]:
    return sorted({arm["data"] for arm in arms}, key=corpus_order)


def _filters(arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the options of the filters and the initial corpus: the paper's, or the one with most runs."""
    corpora = _corpora(arms)
    sizes = {corpus: sum(len(arm["ids"]) for arm in arms if arm["data"] == corpus) for corpus in corpora}
    first = corpora[0] if corpora[:1] in (["iwslt14"], ["wmt14"]) else max(corpora, key=sizes.__getitem__, default=None)
    return {
        "corpora": corpora,
        "first": first,
        "norms": sorted({arm["norm"] for arm in arms}, key=lambda norm: (norm not in ("preln", "postln"), norm)),
        "optimizers": sorted({arm["optimizer"] for arm in arms}),
    }


def finding_panels(finding: Finding, figures: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of a finding, with numbers of five digits."""
    names = PANELS.get(finding["id"], ())
    panels = [] if names else [_by_width(finding["values"])]
    for name in names:
        figure, _, part = name.partition(" ")
        if found := figures.get(figure):  # not if only some of the findings were computed
            panels.append(described(name, found[part] if part else found))
    for series in (series for panel in panels for series in panel["series"]):
        series |= {key: [float(f"{y:.5g}") for y in series[key]] for key in ("y", "low", "high") if key in series}
    return panels


def _by_width(values: Mapping[str, Mapping[str, Sequence[float]]]) -> Panel:
    """Return a panel of a finding's first quantity by width d, with one line per combination of other settings."""
    lines: dict[str, dict[str, tuple[float, float, float]]] = {}
    for setting, (low, high) in next(iter(values.values())).items():
        width, _, rest = setting.removeprefix("d=").partition(" ")
        lines.setdefault(rest or "norm / bound", {})[width] = ((low + high) / 2, low, high)
    series = [measured(*line) | {"colour": colour} for line, colour in zip(lines.items(), cycle(OTHERS), strict=False)]
    return {"title": "By width of the model", "x": "d", "y": "measured / predicted", "log": False, "series": series}


def number_table(finding: Finding) -> Table:
    """Return the table of a finding's checks: model, quantity, interval, rule and verdict."""
    return {
        "columns": ["model", "quantity", "ours, 95 %", "rule", "verdict", "seeds"],
        "rows": [[part["part"], part["quantity"], ends_words(part["interval"]), part["rule"], part["verdict"],
                  part["seeds"]] for part in finding["parts"]],
    }  # fmt: skip


def arms_of(runs: Sequence[Run]) -> list[Arm]:
    """Return the runs grouped into arms, whose runs differ only in the seed."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        axes = run.record.axes.model_dump(exclude={"seed", "task"})
        groups.setdefault((run.record.exp, str(axes), arm_of(run)), []).append(run)
    arms = [_arm(members) for members in groups.values()]
    return sorted(arms, key=lambda arm: (corpus_order(arm["data"]), -arm["bleu_mean"], arm["exp"], arm["lr"] or 0))


def _arm(runs: Sequence[Run]) -> Arm:
    """Return an arm with its axes as text and its scores over seeds."""
    members = [run.record for run in runs]
    axes = members[0].axes
    losses = [loss for record in members if (loss := record.lowest_loss) is not None]
    translates = members[0].decodes
    bleus = [run.bleu for run in runs] if translates else []
    warmup = axes.warmup_updates
    schedule = [f"warm-up over {warmup} updates" if warmup else "no warm-up"]
    if not warmup or axes.decay != "inverse_sqrt":
        schedule.append(axes.decay.replace("_", " "))
    given = runs[0].experiment
    other = [f"init={given.init}"] if given.init != "xavier_legacy" else []
    layers = given.model.layers
    other += [f"{layers}+{layers} layers" if translates else f"{layers} layers"] if layers != 6 else []
    return {
        "exp": members[0].exp,
        "data": members[0].corpus if translates else f"{axes.data}, {axes.task}",
        "norm": axes.norm,
        "optimizer": axes.optimizer,
        "warm": warmup > 0,
        "schedule": ", ".join([*schedule, *other, *interventions(given)]),
        "decay": axes.decay,
        "lr": axes.lr,
        "ids": [record.id for record in members],
        "seeds": [record.axes.seed for record in members],
        "loss": _spread(losses, 2),
        "bleu": _spread(bleus, 1),
        "bleu_mean": fmean(bleus) if bleus else -1.0,
        "diverged": sum(record.status == "diverged" for record in members),
    }


def _spread(values: Sequence[float], digits: int) -> str:
    """Return the mean and, of several values, the smallest and the largest, as text."""
    if not values:
        return "–"
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def chart_data(runs: Sequence[Run], arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the data of the charts: runs by id; updates that several runs share are stored once, in ``grids``."""
    arm_of = {name: number for number, arm in enumerate(arms) for name in arm["ids"]}
    grids: list[list[int]] = []
    shown = {}
    for run in runs:
        record, thinned = run.record, run.record.curve
        updates, losses = thinned.update, [_rounded(loss) for loss in thinned.loss]
        if updates not in grids:
            grids.append(updates)
        shown[record.id] = {
            "arm": arm_of[record.id],
            "seed": record.axes.seed,
            "epoch": [row.epoch for row in record.epochs],
            "loss": [_rounded(row.valid_loss) for row in record.epochs],
            "bleu": [_rounded(row.test_bleu_tokenised) for row in record.epochs],
            "grid": grids.index(updates),
            "train": losses,
        }
    keys = ("exp", "data", "norm", "optimizer", "warm", "decay", "schedule", "lr")
    named_arms = [
        {key: arm[key] for key in keys} | {"name": f"{named(arm['norm'])}, {named(arm['optimizer'])}"} for arm in arms
    ]
    return {"arms": named_arms, "runs": shown, "grids": grids}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
