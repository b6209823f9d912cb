"""The checks of `ln-repro doctor`: Python, packages, GPU, disk, corpora and wandb."""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ln_repro.corpus.prepare import prepared_folders
from ln_repro.corpus.registry import CORPORA
from ln_repro.engine.compat import INSTALL
from ln_repro.records import provenance
from ln_repro.system import gpu, subprocesses
from ln_repro.system.files import existing
from ln_repro.system.paths import data_folder, runs_folder

FREE_GIB = 5  # minimum free disk space in GiB


@dataclass(frozen=True)
class Check:
    """The result of one check. Only checks that are ``needed`` affect the exit code."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def doctor_command(options: argparse.Namespace) -> int:
    checks = list(run_checks())
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            mark = "ok  " if check.ok else "FAIL" if check.needed else "-   "
            print(f"{mark} {check.name:8} {check.found}{f'  ->  {check.advice}' if check.advice else ''}")
    return 0 if all(check.ok for check in checks if check.needed) else 1


def checked(name: str, ok: bool, found: str, advice: str, needed: bool = True) -> Check:
    """Return a check with advice only if it failed."""
    return Check(name, ok, found, "" if ok else advice, needed)


def run_checks() -> Iterator[Check]:
    """Yield the checks; packages are imported in a subprocess, so that a broken one is only a failed check."""
    good = (3, 11) <= sys.version_info < (3, 14)
    yield checked("python", good, platform.python_version(), "use Python 3.11, 3.12 or 3.13")
    result = _run_python("import torch; print(torch.__version__)")
    if result.returncode:
        yield Check("torch", False, "cannot be imported", "pip install 'torch>=2.6,<2.14'")
    else:
        yield Check("torch", True, result.stdout.strip())
        here = gpu.default()
        advice = gpu.REMEDY if here.problem else "toy and multi30k run on the CPU; the paper's own models need a GPU"
        name = here.name or here.problem or "none"
        yield checked("gpu", here.name is not None, name, advice, needed=bool(here.problem))
    version = provenance.version_of("fairseq") if importlib.util.find_spec("fairseq") else None
    yield checked("fairseq", version == "0.12.2", version or "not installed", INSTALL)
    folders = runs_folder(), data_folder()
    free = min(shutil.disk_usage(existing(folder)).free for folder in folders) / 2**30
    advice = "set LN_REPRO_RUNS and LN_REPRO_DATA to folders on a larger disk"
    yield checked("disk", free > FREE_GIB, f"{free:.0f} GiB free", advice)
    if closed := [str(folder) for folder in folders if not os.access(existing(folder), os.W_OK)]:
        yield Check("folders", False, f"{', '.join(closed)}: not writable", "set LN_REPRO_RUNS and LN_REPRO_DATA")
    ready = [name for name in CORPORA if prepared_folders(data_folder(), name)]
    advice = "a run prepares what it needs; or: ln-repro data prepare data=toy"
    yield checked("data", bool(ready), ", ".join(ready) or "nothing prepared yet", advice, needed=False)
    version = provenance.version_of("wandb")
    if version is None:
        yield Check("wandb", False, "not installed", "pip install wandb, or tracker=none", needed=False)
    else:
        advice = "without an API key, runs are mirrored offline; `wandb login` to mirror them online"
        key = _run_python("from ln_repro.tracking import key_configured; print(key_configured())").stdout
        yield Check("wandb", True, version, "" if key == "True\n" else advice, needed=False)


def _run_python(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a new Python process, without wandb's own messages."""
    command = [*subprocesses.SELF, "-c", code]
    settings = subprocesses.environment(WANDB_SILENT="true", WANDB_MODE="online")
    return subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
