"""The tables of results: claims, arms, learning rates, runs and theory."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from ln_repro.claims.arena import LEAST_SCHEMES, arena, arm_sensitivity
from ln_repro.claims.arms import own_settings
from ln_repro.claims.causes import separations
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import VERDICTS, mean_interval
from ln_repro.claims.judge import Archive, Row
from ln_repro.claims.lr50 import shown_lr50
from ln_repro.claims.metrics import Count
from ln_repro.claims.rates import LIMITS, METRICS, SHARES, multiverse
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run
from ln_repro.records.record import AVERAGE, Record, Score
from ln_repro.report import collapse
from ln_repro.report.arena import arena_table, limit_words, lr50_table
from ln_repro.report.claims import LEADING, claims_table, theory_table
from ln_repro.report.tables import Table, rounded
from ln_repro.system.files import Json

Files = dict[str, dict[str, Table]]  # tables by file and name
SCORES = {"test": "BLEU", "test_tokenised": "BLEU tok.", AVERAGE: "BLEU avg.", f"{AVERAGE}_tokenised": "BLEU avg. tok."}
"""Names of columns by key in a record."""
OTHER_EPOCHS = "last, max: BLEU tok. after the last epoch, and at the epoch where it is highest"
LEGEND = (
    "[a, b]: 95 % interval of the mean; (a to b): lowest and highest seed, if there are two, if only some train, or if "
    "the interval would exceed the possible values (100 BLEU)."
)
"""Explains the cells of arms and rates."""
MULTIVERSE = (
    f"MT-1 for every combination of limit ({', '.join(map(str, LIMITS))} of the best arm), share of the seeds "
    f"({', '.join(map(str, SHARES))}) and metric ({', '.join(METRICS)}), by the largest rates that train"
)


def all_tables(archive: Archive, rows: Sequence[Row]) -> Files:
    """Return the tables of claims, arms, learning rates, runs and theory; files without a table are left out.

    ``rows`` are those of `ln_repro.claims.judge.claim_rows`. Fine-tuning has no table of arms.
    """
    settings = {name: evidence for name, evidence in sorted(archive.evidence.items()) if not evidence.starts}
    replication = {f"{name}-replication": evidence for name, evidence in sorted(archive.replication.items())}
    varied = {
        f"{name}-{variation}" if variation else name: part
        for name, evidence in settings.items()
        for variation, part in {"": evidence, **evidence.variations}.items()
    }
    arenas = {}
    for name, evidence in settings.items():
        entries = arena(evidence)
        if len(entries) >= LEAST_SCHEMES:
            arenas[f"arena-{name}"] = arena_table(entries, archive.kept.costs)
    own = {run.record.id: ", ".join(own_settings(run.experiment, archive.arms)) for run in archive.kept.runs}
    files = {
        "claims": {
            "claims": claims_table(rows),
            "leading": claims_table([row for row in rows if row.id in LEADING]),
            "initialisation": theory_table(rows),
        },
        "lr50": {"lr50": lr50_table(archive.evidence, archive.replication)},
        "multiverse": {"multiverse": multiverse_table(archive)},
        "arms": {f"arms-{name}": arms_table(evidence) for name, evidence in settings.items()},
        "rates": {f"rates-{name}": rates_table(part) for name, part in {**varied, **replication}.items()},
        "causes": {f"causes-{name}": causes_table(part) for name, part in {**settings, **replication}.items()},
        "collapse": {
            "collapse-iwslt-60": collapse.collapse_table(
                [run for run in (*archive.kept.runs, *archive.stopped) if run.record.setting == "iwslt-60"]
            ),
            **{f"collapse-{name}": collapse.degrees_table(part) for name, part in replication.items()},
        },
        "ramps": {
            "stacks": collapse.stacks_table(archive),
            **{f"ramps-{name}": collapse.ramps_table(part) for name, part in replication.items()},
        },
        "branches": {"branches": collapse.branches_table(archive), "remedies": collapse.remedies_table(archive)},
        "bursts": {"bursts": collapse.bursts_table(archive)},
        "depth": {f"depth-{name}": depth_table(evidence) for name, evidence in settings.items()},
        "arena": arenas,
        "runs": run_tables(archive.kept.records, own),
        "theory": {"theory": findings_table(archive.theory.get("findings", []))},
    }
    files = {name: {key: table for key, table in tables.items() if table.rows} for name, tables in files.items()}
    for tables in (files["arms"], files["rates"]):
        for name in [*tables][-1:]:
            tables[name] = tables[name]._replace(notes=[LEGEND])
    return {name: tables for name, tables in files.items() if tables}


def run_tables(records: Sequence[Record], own: Mapping[str, str]) -> dict[str, Table]:
    """Return one table of runs for each corpus and task; ``own`` are the settings of their own, by id."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        task = "" if record.decodes else f"-{record.axes.task}"
        groups.setdefault(f"runs-{record.corpus}{task}", []).append(record)
    return {name: runs_table(groups[name], own) for name in sorted(groups)}


def runs_table(records: Sequence[Record], own: Mapping[str, str]) -> Table:
    """Return one row per run with its scores at the epoch with the lowest validation loss, without empty columns.

    Beside them are the scores after the last epoch and the highest ones.
    """
    rows = []
    for record in records:
        tokenised = [row.test_bleu_tokenised for row in record.epochs if row.test_bleu_tokenised is not None]
        rows.append({
            "exp": record.exp, "overrides": own.get(record.id) or None, "seed": record.axes.seed,
            "valid loss": rounded(record.lowest_loss, ".3f"), "accuracy": rounded(record.accuracy, ".4f"),
            **{name: rounded(score.score if score else None, ".2f") for name, score in _scores(record).items()},
            "last": rounded(tokenised[-1] if tokenised else None, ".2f"),
            "max": rounded(max(tokenised, default=None), ".2f"), "status": record.status, "id": record.id,
        })  # fmt: skip
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    notes = [*([OTHER_EPOCHS] if "last" in columns else []), *signatures(records)]
    return _of_cells(columns, rows)._replace(notes=notes)


def _of_cells(columns: Sequence[str], rows: Sequence[Json]) -> Table:
    return Table(columns, [[row[column] for column in columns] for row in rows])


def signatures(records: Sequence[Record]) -> list[str]:
    """Return the distinct sacreBLEU signatures of the records' scores."""
    notes = []
    for name in SCORES.values():
        distinct = {score.signature for record in records if (score := _scores(record)[name])}
        notes += [f"{name}: {signature}" for signature in sorted(distinct)]
    return notes


def _scores(record: Record) -> dict[str, Score | None]:
    return {name: getattr(record.bleu, key) for key, name in SCORES.items()}


def multiverse_table(archive: Archive) -> Table:
    """Return how many combinations of limit, share of seeds and metric lead to each verdict on MT-1."""
    replication = {f"{name}, new seeds": evidence for name, evidence in archive.replication.items()}
    rows = [
        [name, arm, *(counts[verdict] for verdict in VERDICTS)]
        for name, evidence in {**dict(sorted(archive.evidence.items())), **replication}.items()
        for arm in ("postln_nowarm", "postln_nowarm_literal")
        if (counts := multiverse(evidence, "postln_warm", arm))
    ]
    return Table(["setting", "without warm-up", *VERDICTS], rows, [MULTIVERSE])


def arms_table(evidence: Evidence) -> Table:
    """Return one row per arm with statistics over its seeds; without decoding, columns that need BLEU are left out."""
    rows = []
    for arm, by_seed in sorted(evidence.arms.items()):
        rows.append(
            {
                "arm": arm,
                **_statistics(evidence, [run for _, run in sorted(by_seed.items())]),
                "LR50": limit_words(shown_lr50(evidence, arm)) if len(evidence.curve(arm)) > 1 else None,
                "LR sensitivity": _sensitivity(evidence, arm),
            }
        )
    columns = ["arm", "seeds", "BLEU tok.", "valid loss", "NLL", "trains", "skill", "LR50", "LR sensitivity"]
    return _of_cells(columns if _scored(evidence) else columns[:5], rows)


def rates_table(evidence: Evidence) -> Table:
    """Return one row per peak learning rate, for every arm that was run at several."""
    rows, seen = [], set()
    for arm in sorted(evidence.rates if _scored(evidence) else ()):
        curve = evidence.curve(arm)
        ids = tuple(run.record.id for runs in curve.values() for run in runs)
        if len(curve) < 2 or ids in seen:
            continue  # the same curve as that of an arm which differs only in its peak rate
        seen.add(ids)
        rows += [{"arm": arm, "peak rate": f"{rate:g}", **_statistics(evidence, runs)} for rate, runs in curve.items()]
    return _of_cells(("arm", "peak rate", "seeds", "trains", "fails", "BLEU tok.", "NLL", "skill"), rows)


def _statistics(evidence: Evidence, runs: Sequence[Run]) -> Json:
    """Return the cells that describe some runs, by column."""
    trained, failed = Count.of(evidence.trained, runs), Count.of(evidence.failed, runs)
    scored = _scored(evidence)
    mixed = scored and 0 < trained.hits < trained.runs
    return {
        "seeds": len(runs),
        "BLEU tok.": _mean([run.bleu for run in runs], 100, mixed) if scored else None,
        "valid loss": _mean([run.loss for run in runs], mixed=mixed),
        "NLL": _mean([run.nll for run in runs], mixed=mixed),
        "trains": f"{trained.hits}/{trained.runs}",
        "fails": f"{failed.hits}/{failed.runs}",
        "skill": _skill(evidence, runs),
    }


def causes_table(evidence: Evidence) -> Table:
    """Return one row per possible cause of failure: how well it separates failing from training runs."""
    columns = ["measure", "over updates 1 to 32", "area under ROC", "fail", "train", "arms", "intervention", "rescued"]
    rows = [
        [part.cause.name, part.cause.quantity, str(part.effect), part.failing, part.training, part.arms,
         part.cause.option or None, str(part.rescued) if part.rescued.runs else None]
        for part in separations(evidence)
    ]  # fmt: skip
    return Table(columns, rows)


def depth_table(evidence: Evidence) -> Table:
    """Return one row per arm that was run at several depths: the seeds that train and the BLEU, by number of layers."""
    depths = {layers: part for layers, part in evidence.by_depth.items() if _scored(part)}
    rows = []
    for arm in sorted({arm for part in depths.values() for arm in part.arms}):
        cells = {}
        for layers, part in depths.items():
            if by_seed := part.arms.get(arm):
                statistics = _statistics(part, [*by_seed.values()])
                cells[layers] = f"{statistics['trains']} ({statistics['BLEU tok.']})"
        if len(cells) > 1:
            rows.append([arm_words(arm), *(cells.get(layers) for layers in depths)])
    return Table(["arm", *(f"{layers} layers" for layers in depths)], rows)


def findings_table(findings: Sequence[Json]) -> Table:
    """Return one row per finding of the theory, including the rule for its verdict."""
    columns = ["id", "statement", "paper", "ours", "95 % interval", "seeds", "verdict", "rule"]
    cells = []
    for finding in findings:
        ends = ["-" if end is None else f"{end:.3g}" for end in finding["interval"]]
        cells.append({**finding, "ours": finding["quantity"], "95 % interval": " .. ".join(ends)})
    return _of_cells(columns, cells)


def _scored(evidence: Evidence) -> bool:
    """Return whether any run of the setting was decoded and scored."""
    return any(run.record.decodes for arm in evidence.rates.values() for runs in arm.values() for run in runs.values())


def _mean(values: Sequence[float], highest: float = math.inf, mixed: bool = False) -> str:
    """Return the mean with its interval, or the number of runs without a finite value.

    Least and greatest value replace the interval where it would be meaningless: for two seeds, if some seeds train and
    some do not (``mixed``), or if it exceeds the possible values, from 0 to ``highest``.
    """
    if missing := sum(not math.isfinite(value) for value in values):
        return f"none in {missing} of {len(values)}"
    mean, (low, high) = fmean(values), mean_interval(values)
    if len(values) < 2:
        return f"{mean:.3g}"
    if len(values) == 2 or mixed or low < 0 or high > highest:
        return f"{mean:.3g} ({min(values):.3g} to {max(values):.3g})"
    return f"{mean:.3g} [{low:.3g}, {high:.3g}]"


def _skill(evidence: Evidence, runs: Sequence[Run]) -> str | None:
    """Return the mean skill of the runs with a finite NLL; None if it is unknown."""
    values = [evidence.skill(run) for run in runs if math.isfinite(run.nll)]
    return None if not values or any(map(math.isnan, values)) else f"{fmean(values):.2f}"


def _sensitivity(evidence: Evidence, arm: str) -> str | None:
    """Return the learning-rate sensitivity in bits with its interval, and the rates; None if it is unknown."""
    rates = evidence.curve(arm).keys()
    sensitivity = arm_sensitivity(evidence, arm, rates)
    if sensitivity is None:
        return None
    value, (low, high) = sensitivity
    interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    return f"{value:.2f}{interval} over {min(rates):g} to {max(rates):g}"
