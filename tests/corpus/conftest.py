"""Strange paths, a small corpus, and the real text where it is at hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from corpus_helpers import copy_files, settings

from ln_repro.corpus.prepare import Prepared, prepare
from ln_repro.corpus.registry import CORPORA

REAL = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a data folder whose name has spaces, quotes and a newline."""
    return tmp_path / 'it\'s a "strange"\nplace' / "data"


@pytest.fixture
def made(root: Path) -> Callable[..., Prepared]:
    """Return a function that prepares a corpus under `root`."""
    return lambda name, **changes: prepare(settings(name, **changes), root, copy_files, lambda line: None)


@pytest.fixture
def real() -> Path:
    """Return the folder of real text, or skip."""
    if not REAL.is_dir():
        pytest.skip(f"needs the real text in {REAL.name}/ beside the repository")
    return REAL


@pytest.fixture
def small_toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the toy corpus small, for tests of the machinery around it."""
    monkeypatch.setattr(type(CORPORA["toy"]), "pairs", {"train": 200, "valid": 20, "test": 20})
    yield
