"""Measure the preparation of text of several sizes; write the table and the picture of docs/scale.md.

Usage: python scripts/measure_scale.py [FOLDER...]

Each FOLDER is one that scripts/make_large_text.py wrote. Its row in docs/scale.csv is replaced; without FOLDER, the
table and the picture are made again from that file. Times are seconds of CPU, of all processes together, so that they
do not depend on the number of cores or on other programs; memory is the sum over all processes at its peak.
"""

import csv
import io
import itertools
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from ln_repro.corpus.base import Style
from ln_repro.corpus.bpe import learn, segmenter
from ln_repro.corpus.tokenise import tokeniser
from ln_repro.system.subprocesses import SELF, cores

DOCS = Path(__file__).parents[1] / "docs"
TABLE = DOCS / "scale.csv"
MERGES = 40_000
SAMPLE = 4_000
"""Number of lines on which functions are compared with those of the libraries, and on which merges are learnt."""


def main() -> None:
    """Measure, and write table and picture."""
    rows = {int(row["pairs"]): row for row in csv.DictReader(TABLE.open())} if TABLE.exists() else {}
    for folder in map(Path, sys.argv[1:]):
        row = {name: f"{value:.7g}" for name, value in {**preparation(folder), **libraries(folder)}.items()}
        print(row, flush=True)
        rows[int(row["pairs"])] = row
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*row], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[pairs] for pairs in sorted(rows))
    write_page([rows[pairs] for pairs in sorted(rows)])


def preparation(folder: Path) -> dict[str, float]:
    """Prepare the text in ``folder``; return its number of pairs, CPU time and peak memory."""
    files = [f"data.{split}={folder / split}" for split in ("train", "valid", "test")]
    command = ["-m", "ln_repro.cli", "data", "prepare", "data=files", f"data.bpe_merges={MERGES}", *files]
    with (folder / "train.de").open("rb") as lines:
        pairs = sum(1 for _ in lines)
    with tempfile.TemporaryDirectory(dir=folder) as data:
        before = _cpu()
        process = psutil.Popen([*SELF, *command, f"paths.data={data}"])
        total = largest = 0
        while process.poll() is None:
            sizes = [_memory(each) for each in [process, *process.children(recursive=True)]]
            total, largest = max(total, sum(sizes)), max(largest, *sizes)
            time.sleep(0.5)
        assert process.returncode == 0
        seconds = _cpu() - before
    return {"pairs": pairs, "cores": cores(), "cpu_seconds": seconds, "pairs_per_cpu_second": pairs / seconds,
            "peak_megabytes": total / 1e6, "largest_process_megabytes": largest / 1e6}  # fmt: skip


def libraries(folder: Path) -> dict[str, float]:
    """Return lines per CPU second of the libraries and of our functions, and the time to learn merges from a sample."""
    with (folder / "train.en").open() as file:
        lines = [line.rstrip("\n") for line in itertools.islice(file, SAMPLE)]
    plain, ours = MosesTokenizer("en"), tokeniser("en", Style())
    text = [ours(line) for line in lines]
    table = io.StringIO()
    learning = _seconds(lambda: learn_bpe(iter(text), table, 4_000))
    codes = table.getvalue()
    counts = Counter(itertools.chain.from_iterable(line.split() for line in text))
    table.seek(0)
    theirs, our_segmenter = BPE(table), segmenter(codes)
    return {
        "sacremoses": SAMPLE / _seconds(lambda: [plain.tokenize(line, return_str=True) for line in lines]),
        "our_tokeniser": SAMPLE / _seconds(lambda: [ours(line) for line in lines]),
        "subword_nmt": SAMPLE / _seconds(lambda: [theirs.process_line(line) for line in text]),
        "our_segmenter": SAMPLE / _seconds(lambda: [our_segmenter(line) for line in text]),
        "learn_bpe_seconds": learning,
        "our_learner_seconds": _seconds(lambda: learn(counts, 4_000)),
    }


def write_page(rows: list[dict[str, str]]) -> None:
    """Replace the table in docs/scale.md, and draw docs/scale.svg."""
    import matplotlib.pyplot as plt

    names = {"pairs": "pairs", "cpu_seconds": "CPU seconds", "pairs_per_cpu_second": "pairs per CPU second",
             "peak_megabytes": "peak memory, MB", "largest_process_megabytes": "largest process, MB"}  # fmt: skip
    table = ["| " + " | ".join(names.values()) + " |", "| ---: " * len(names) + "|"]
    table += ["| " + " | ".join(f"{float(row[name]):,.0f}" for name in names) + " |" for row in rows]
    page = (DOCS / "scale.md").read_text()
    begin, end = "<!-- table -->\n", "<!-- end -->"
    head, rest = page.split(begin)
    (DOCS / "scale.md").write_text(head + begin + "\n".join(table) + "\n" + end + rest.split(end)[1])
    pairs = [float(row["pairs"]) for row in rows]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    for axis, name in zip(axes, ("cpu_seconds", "peak_megabytes"), strict=True):
        axis.loglog(pairs, [float(row[name]) for row in rows], "o-")
        axis.set(xlabel="sentence pairs", ylabel=names[name])
        axis.grid(True, which="both", alpha=0.3)
    axes[1].axhline(2048 * 1.048576, color="grey", linestyle="--", label="2 GiB")
    axes[1].legend()
    figure.tight_layout()
    figure.savefig(DOCS / "scale.svg", metadata={"Date": None})


def _seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def _cpu() -> float:
    """Return the CPU time of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _memory(process: psutil.Process) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


if __name__ == "__main__":
    main()
