"""Kill a preparation ten times and compare its result with an undisturbed one: ``python kills.py PAIRS FOLDER``."""

import random
import subprocess
import sys
import time
from pathlib import Path

from ln_repro.system.subprocesses import environment

PREPARE = """
import sys
from pathlib import Path
from ln_repro.corpus import shards
from ln_repro.corpus.prepare import prepare
from ln_repro.experiment.data import Data

if __name__ == "__main__":
    folder, root, shards.SIZE = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    files = {split: folder / split for split in ("train", "valid", "test")}
    prepare(Data(name="files", bpe_merges=500, **files), root, lambda line: print(line.split()[0], flush=True))
"""


def write_text(folder: Path, pairs: int) -> None:
    """Write parallel text of made-up words."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 9))) for _ in range(5_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for split, count in (("train", pairs), ("valid", 50), ("test", 50)):
        for lang in ("de", "en"):
            with (folder / f"{split}.{lang}").open("w") as file:
                for _ in range(count):
                    file.write(" ".join(draw.choices(words, weights, k=draw.randint(1, 30))) + ".\n")


def start(folder: Path, root: Path, size: int) -> "subprocess.Popen[str]":
    """Start to prepare the text in ``folder`` in shards of ``size`` pairs."""
    script = folder / "prepare.py"
    script.write_text(PREPARE)
    command = [sys.executable, str(script), str(folder), str(root), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def content(root: Path) -> dict[str, bytes]:
    """Return the content of every prepared file."""
    (prepared,) = (path for path in (root / "prepared").iterdir() if not path.name.startswith("."))
    return {str(path.relative_to(prepared)): path.read_bytes() for path in prepared.rglob("*") if path.is_file()}


def kill_ten_times(folder: Path, pairs: int, size: int) -> tuple[list[str], dict[str, bytes], dict[str, bytes]]:
    """Return the steps in which a preparation was killed, its final content, and that of an undisturbed one."""
    write_text(folder, pairs)
    assert start(folder, folder / "undisturbed", size).wait() == 0
    files = 2 * (-(-pairs // size) + 2) + 4  # two for each shard, merges, dictionary, and two of the last step
    steps, draw = [], random.Random(2)
    for number in range(1, 11):
        process = start(folder, folder / "killed", size)
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        while len(list((folder / "killed").rglob(".*.staging/*/*"))) < files * number // 10:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        steps.append([first, *process.communicate()[0].split()][-1])
    assert start(folder, folder / "killed", size).wait() == 0
    return steps, content(folder / "killed"), content(folder / "undisturbed")


if __name__ == "__main__":
    killed_in, found, expected = kill_ten_times(Path(sys.argv[2]), int(sys.argv[1]), 10_000)
    print(f"killed while {', '.join(killed_in)}: {'equal' if found == expected else 'DIFFERENT'}")
