"""All figures."""

from pathlib import Path

from ln_repro.claims.judge import Archive
from ln_repro.report.figure_branches import draw_branches
from ln_repro.report.figure_burst import draw_burst
from ln_repro.report.figure_collapse import draw_collapse
from ln_repro.report.figure_convergence import draw_convergence
from ln_repro.report.figure_delay import draw_delay
from ln_repro.report.figure_initialisation import draw_initialisation
from ln_repro.report.figure_ramp import draw_ramp
from ln_repro.report.figure_rates import BERT, draw_rates


def draw_all(archive: Archive, out: Path) -> list[Path]:
    """Draw every figure that there are records for, and that of the theory; return the files.

    Figures that were already drawn from the same data by the same code are not drawn again.
    """
    paths = [
        path
        for draw in (draw_rates, draw_collapse, draw_branches, draw_burst, draw_delay, draw_convergence, draw_ramp)
        for path in draw(archive, out)
    ]
    return [*paths, *draw_rates(archive, out, BERT), *draw_initialisation(archive.theory.get("figures", {}), out)]
