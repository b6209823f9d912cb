"""Joint byte-pair encoding (Sennrich et al. 2016) with subword-nmt."""

import contextlib
import io
import itertools
from collections.abc import Iterable

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from ln_repro.corpus.parallel import Line, over_lines


def learn(sides: Iterable[list[str]], merges: int) -> str:
    """Learn merges jointly on all sides and return the merge table; it is empty if there is nothing to merge."""
    lines = list(itertools.chain.from_iterable(sides))
    if not any(len(word) > 1 for line in lines for word in line.split(" ")):
        return ""  # learn_bpe would fail
    codes = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        learn_bpe(iter(lines), codes, merges)
    table = codes.getvalue()
    return table if table.count("\n") > 1 else ""  # the first line is the version


def segmenter(codes: str) -> Line:
    """Return a function that segments the words of a line, with ``@@`` after every subword except the last."""
    table = BPE(io.StringIO(codes))
    return lambda line: str(table.process_line(line))


def segment_lines(lines: list[str], codes: str) -> list[str]:
    """Return the segmented lines."""
    return over_lines(segmenter, (codes,), lines)
