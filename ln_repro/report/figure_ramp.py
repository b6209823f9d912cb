"""The figure of ramps: how long a warm-up each norm placement needs, by learning rate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ln_repro.claims.evidence import EXPLORED, Evidence, scored, variation
from ln_repro.claims.judge import Archive
from ln_repro.claims.metrics import Count
from ln_repro.claims.words import SCHEME_NAMES
from ln_repro.records.archive import Run
from ln_repro.report.plotting import COLOURS, SETTING, WIDTH, draw_once
from ln_repro.report.tables import rate_words

LENGTHS = 3  # minimum number of lengths of the ramp, zero included, at every rate of a map
Map = Mapping[tuple[int, float], Sequence[Run]]  # the runs by length of the ramp and peak rate


def maps(archive: Archive) -> dict[str, Map]:
    """Return the map of each norm placement, of runs that differ in the rate and the length of the ramp alone.

    Their rates after the ramp are those of the setting's arm with warm-up; with a tail that depends on the length of
    the ramp, a shorter ramp would lower all later rates.
    """
    found: dict[str, Map] = {}
    for norm in COLOURS:
        cells = _map(archive, norm)
        lengths = Counter(rate for _, rate in cells)
        if enough := {cell: runs for cell, runs in cells.items() if lengths[cell[1]] >= LENGTHS}:
            found[norm] = enough
    return found


def _map(archive: Archive, norm: str) -> Map:
    arm = archive.arms(f"{SETTING}_{norm}_warm")
    if arm is None:
        return {}
    cells: dict[tuple[int, float], list[Run]] = {}
    for run in archive.kept.runs:
        if run.experiment.norm != norm or run.record.setting != SETTING or SETTING not in _part(archive, run):
            continue
        if not (run.record.data.published and scored(run)):  # see `gather`
            continue
        schedule = run.experiment.schedule
        full = schedule.anchor if schedule.decay == "anchored" else schedule.warmup_updates
        if schedule.decay in ("anchored", "inverse_sqrt"):
            with_ramp = schedule.model_copy(update={"warmup_updates": full, "decay": "inverse_sqrt"})
            experiment = run.experiment.model_copy(update={"schedule": with_ramp})
            if experiment.arm_key() == arm.key and not variation(experiment, arm):
                cells.setdefault((schedule.warmup_updates, experiment.lr), []).append(run)
    return cells


def _part(archive: Archive, run: Run) -> Mapping[str, Evidence]:
    """Return the evidence by setting of runs like this one, exploratory or of the replication."""
    return archive.replication if run.seed > EXPLORED else archive.evidence


def counted(archive: Archive, cells: Map) -> dict[tuple[int, float], Count]:
    """Return how many runs of each cell train."""
    return {cell: Count.of(lambda run: _part(archive, run)[SETTING].trained(run), runs)
            for cell, runs in sorted(cells.items())}  # fmt: skip


def draw_ramp(archive: Archive, out: Path) -> list[Path]:
    """Draw the figure into a folder; none without a map."""
    drawn = maps(archive)
    if not drawn:
        return []
    counts = {norm: counted(archive, cells) for norm, cells in drawn.items()}
    ids = [run.record.id for cells in drawn.values() for runs in cells.values() for run in runs]
    return [draw_once(out / "ramp.png", ids, _draw, counts)]


def _draw(counts: Mapping[str, Mapping[tuple[int, float], Count]], figure: Figure) -> None:
    """Draw a map for each norm placement: in each cell how many seeds train, the darker the more."""
    figure.set_size_inches(WIDTH, 2.8)
    axes = figure.subplots(1, len(counts), sharey=True, squeeze=False)[0]
    lengths = sorted({length for cells in counts.values() for length, _ in cells})
    for axis, (norm, cells) in zip(axes, counts.items(), strict=True):
        rates = sorted({rate for _, rate in cells})
        for (length, rate), count in cells.items():
            x, y = rates.index(rate), lengths.index(length)
            fill = (COLOURS[norm], count.share)
            axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=fill, edgecolor="#E4E4E4", linewidth=0.5))
            colour = "white" if count.share > 0.5 and norm == "preln" else "black"
            axis.text(x, y, str(count), ha="center", va="center", color=colour)
        axis.set(xlim=(-0.5, len(rates) - 0.5), ylim=(-0.5, len(lengths) - 0.5), xlabel="peak learning rate")
        axis.set_xticks(range(len(rates)), map(rate_words, rates))
        axis.set_title(f"{SCHEME_NAMES[norm]}: seeds that train")
        axis.grid(visible=False)
    axes[0].set_yticks(range(len(lengths)), map(str, lengths))
    axes[0].set_ylabel("updates of warm-up")
    figure.subplots_adjust(0.075, 0.16, 0.99, 0.91, wspace=0.05)
