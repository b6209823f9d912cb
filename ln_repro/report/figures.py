"""All figures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ln_repro.claims.judge import Archive
from ln_repro.report.figure_collapse import draw_collapse
from ln_repro.report.figure_convergence import draw_convergence
from ln_repro.report.figure_initialisation import draw_initialisation
from ln_repro.report.figure_ramp import draw_ramp
from ln_repro.report.figure_rates import BERT, draw_rates
from ln_repro.system.files import Json

OF_RECORDS: tuple[Callable[[Archive, Path], list[Path]], ...] = (
    draw_rates, draw_collapse, draw_convergence, draw_ramp, partial(draw_rates, kind=BERT)
)  # fmt: skip


def draw_all(archive: Archive, theory: Json, out: Path) -> list[Path]:
    """Draw every figure that there are records for, and that of the theory; return the files.

    ``theory`` is the content of the file that `ln-repro theory` writes. Figures that were already drawn from the same
    data by the same code are not drawn again.
    """
    paths = [path for draw in OF_RECORDS for path in draw(archive, out)]
    return paths + draw_initialisation(theory.get("figures", {}), out)
