"""fairseq-preprocess, with which tests of the engine binarise made-up text, and with which ours is compared."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from ln_repro.engine import compat
compat.apply()
from fairseq_cli.preprocess import cli_main
cli_main()
"""


def binarise(text: Path, out: Path, source: str, target: str) -> None:
    """Binarise ``train.<language>``, ``valid.<language>``, ... with a joint dictionary or a given ``dict.txt``."""
    command = ["--source-lang", source, "--target-lang", target, "--destdir", out, "--joined-dictionary"]
    command += ["--only-source"] if source == target else []
    command += ["--srcdict", text / "dict.txt"] if (text / "dict.txt").exists() else []
    for split in ("train", "valid", "test"):
        command += [f"--{split}pref", text / split] if (text / f"{split}.{target}").exists() else []
    done = subprocess.run([sys.executable, "-c", SCRIPT, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
