"""What of this machine works, what does not, and what to do about it."""

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ln_repro.engine.compat import INSTALL
from ln_repro.records import provenance
from ln_repro.system import subprocesses
from ln_repro.system.files import free_at
from ln_repro.system.paths import data_folder, runs_folder

ROOM_GB = 5


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``needed`` ones decide the exit code."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for ``--json``."""
        return asdict(self)


def examine() -> list[Check]:
    """Look at Python, the packages, the GPU, the disk and wandb."""
    return [python(), *torch_and_gpu(), fairseq(), disk(), data(), wandb()]


def python() -> Check:
    """3.11 to 3.13."""
    good = (3, 11) <= sys.version_info < (3, 14)
    return Check("python", good, platform.python_version(), "" if good else "use Python 3.11, 3.12 or 3.13")


def torch_and_gpu() -> list[Check]:
    """torch, and whether it sees a GPU; asked in another process, since the answer takes seconds to load."""
    question = (
        "import json, torch; cuda = torch.cuda.is_available(); "
        "print(json.dumps([torch.__version__, torch.cuda.get_device_name() if cuda else None]))"
    )
    asked = subprocess.run([*subprocesses.SELF, "-c", question], capture_output=True, text=True, check=False)
    if asked.returncode:
        return [Check("torch", False, "cannot be imported", "pip install 'torch>=2.6,<2.14'")]
    version, gpu = json.loads(asked.stdout)
    advice = "" if gpu else "toy and multi30k run on the CPU; the paper's own sizes want a GPU"
    return [Check("torch", True, version), Check("gpu", gpu is not None, gpu or "none", advice, needed=False)]


def fairseq() -> Check:
    """Installed, in the version that the engine was written for."""
    version = provenance.version_of("fairseq") if importlib.util.find_spec("fairseq") else None
    return Check("fairseq", version == "0.12.2", version or "not installed", "" if version == "0.12.2" else INSTALL)


def disk() -> Check:
    """Room where runs are written."""
    free = free_at(runs_folder()) / 2**30
    advice = "" if free > ROOM_GB else "set LN_REPRO_RUNS and LN_REPRO_DATA to a larger disk"
    return Check("disk", free > ROOM_GB, f"{free:.0f} GiB free", advice)


def data() -> Check:
    """Which corpora are prepared."""
    from ln_repro.corpus.prepare import listing

    ready = [row["name"] for row in listing(data_folder()) if row["prepared"]]
    advice = "" if ready else "a run prepares what it needs; or: ln-repro data prepare data=toy"
    return Check("data", bool(ready), ", ".join(ready) or "nothing prepared yet", advice, needed=False)


def wandb() -> Check:
    """Installed, and with a key or not."""
    version = provenance.version_of("wandb")
    if version is None:
        return Check("wandb", False, "not installed", "pip install wandb, or tracker=none", needed=False)
    advice = (
        "" if os.environ.get("WANDB_API_KEY") else "without a key runs are mirrored offline; wandb login for online"
    )
    return Check("wandb", True, version, advice, needed=False)


def report(checks: Sequence[Check]) -> str:
    """Return one line a check."""
    lines = []
    for check in checks:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "-   "
        lines.append(f"{mark} {check.name:8} {check.found}{f'  ->  {check.advice}' if check.advice else ''}")
    return "\n".join(lines)
