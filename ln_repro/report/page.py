"""The report page: the figures, the tables of claims, and the curves of all runs, in one HTML file beside figures/."""

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import interventions
from ln_repro.claims.judge import Row
from ln_repro.claims.words import corpus_order, display_name
from ln_repro.records.archive import Run
from ln_repro.report.claims import claims_table, theory_table
from ln_repro.report.reproduction import arm_of
from ln_repro.report.results import signatures
from ln_repro.report.tables import Table, rate_words
from ln_repro.system.files import Json

ASSETS = Path(__file__).parent / "assets"
POINTS = 11  # maximum number of points of a training curve
ARM = ("data", "norm", "optimizer", "warm", "schedule", "decay", "rate", "seeds", "nll", "bleu")
RUN = ("id", "seed", "updates", "train", "epochs", "bleu")
"""What the data of the charts say of an arm and of a run; ``updates`` and ``epochs`` are numbers of grids."""


def page(runs: Sequence[Run], tables: Mapping[str, Table], figures: Collection[str]) -> str:
    """Return the page as HTML; it depends only on the arguments.

    Args:
        runs: whose curves are shown.
        tables: by heading, the first that of all claims.
        figures: the names of PNG files in figures/ beside the page; those that the template has words for are shown.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    arms = arms_of(runs)
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["display_name"] = display_name
    data = json.dumps(chart_data(runs, arms), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return environment.get_template("page.html").render(
        drawn=figures,
        tables=tables,
        arms=arms,
        filters=_filters(arms),
        runs=len(runs),
        points=POINTS,
        signatures=[note for note in signatures([run.record for run in runs]) if note.startswith("BLEU tok.:")],
        data=data.replace("<", "\\u003c"),  # so that the data cannot close the script element
        asset=lambda name: (ASSETS / name).read_text(encoding="utf-8"),
    )


def page_tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Return the tables of the page: claims about training, those about initialisation, and the rules of the first."""
    rules = [[row.id, row.claim, first.rule, first.written, first.needs] for row in rows for first in row.others[:1]]
    return {
        "Claims": claims_table(rows),
        "At initialisation": theory_table(rows),
        "Rules": Table(["", "claim", "rule", "written", "needs"], rules),
    }


def _filters(arms: Sequence[Json]) -> Json:
    """Return the options of the filters and the initial corpus: the paper's, or the one with most runs."""
    runs = Counter(arm["data"] for arm in arms for _ in arm["ids"])
    return {
        "corpora": sorted(runs, key=corpus_order),
        "first": max(runs, key=lambda corpus: (corpus in ("iwslt14", "wmt14"), runs[corpus]), default=None),
        "norms": sorted({arm["norm"] for arm in arms}, key=lambda norm: (norm not in ("preln", "postln"), norm)),
        "optimizers": sorted({arm["optimizer"] for arm in arms}),
    }


def arms_of(runs: Sequence[Run]) -> list[Json]:
    """Return the runs grouped into arms, whose runs differ only in the seed."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.record.exp, run.record.axes.precision, arm_of(run)), []).append(run)
    arms = [_arm(members) for members in groups.values()]
    return sorted(arms, key=lambda arm: (corpus_order(arm["data"]), arm["norm"], arm["exp"], arm["rate"]))


def _arm(runs: Sequence[Run]) -> Json:
    """Return an arm with its axes as text and its scores over seeds."""
    record, experiment = runs[0].record, runs[0].experiment
    translates, schedule = record.decodes, experiment.schedule
    words = [f"warm-up over {schedule.warmup_updates} updates" if schedule.warmup_updates else "no warm-up"]
    if not schedule.warmup_updates or schedule.decay != "inverse_sqrt":
        words.append(schedule.decay.replace("_", " "))
    words += [f"after {schedule.step_update} updates"] if schedule.step_update else []
    words += [f"after epoch {schedule.step_epoch}"] if schedule.step_epoch and "step" in schedule.decay else []
    words += [f"new {schedule.step_reset.replace('_', ' ')}"] if schedule.step_reset != "none" else []
    words += [f"of the {schedule.part} alone"] if schedule.part != "all" else []
    words += [f"init={experiment.init}"] if experiment.init != "xavier_legacy" else []
    layers = experiment.model.layers
    words += [f"{layers}+{layers} layers" if translates else f"{layers} layers"] if layers != 6 else []
    return {
        "exp": record.exp,
        "data": record.corpus if translates else f"{record.axes.data}, {record.axes.task}",
        "norm": record.axes.norm,
        "optimizer": experiment.optimizer.name,
        "warm": schedule.warmup_updates > 0,
        "schedule": ", ".join([*words, *interventions(experiment)]),
        "decay": schedule.decay,
        "rate": rate_words(experiment.lr),
        "ids": [run.record.id for run in runs],
        "seeds": len({run.seed for run in runs}),
        "nll": _spread([run.nll for run in runs if run.nll < math.inf], 2),
        "bleu": _spread([run.bleu for run in runs] if translates else [], 1),
    }


def _spread(values: Sequence[float], digits: int) -> str:
    """Return the mean and, of several values, the smallest and the largest, as text."""
    if not values:
        return "–"
    mean, low, high = (f"{of(values):.{digits}f}" for of in (fmean, min, max))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def chart_data(runs: Sequence[Run], arms: Sequence[Json]) -> Json:
    """Return the data of the charts, without names in each row; ``grids`` are the updates and epochs of curves."""
    run_of = {run.record.id: run for run in runs}
    grids: dict[tuple[int, ...], int] = {}

    def row(run: Run) -> list[Any]:
        curve, bleu = run.training_curve, run.curve("test_bleu_tokenised")
        step = max(1, math.ceil(len(curve) / POINTS))
        updates, epochs = tuple(curve)[step - 1 :: step], tuple(bleu)
        return [
            run.record.id,
            run.seed,
            grids.setdefault(updates, len(grids)),
            [round(curve[update], 2) for update in updates],
            grids.setdefault(epochs, len(grids)),
            [round(score, 1) for score in bleu.values()],
        ]

    rows = [[*(arm[name] for name in ARM), [row(run_of[name]) for name in arm["ids"]]] for arm in arms]
    return {"arm": [*ARM, "runs"], "run": RUN, "arms": rows, "grids": [*grids]}
