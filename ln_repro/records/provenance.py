"""The versions of software and code used for a run."""

import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ln_repro.system.paths import CHECKOUT
from ln_repro.version import __version__

PACKAGES = ("torch", "fairseq", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "hydra-core", "omegaconf")


def environment(device: str, processes: int = 1, instructions: str | None = None) -> dict[str, Any]:
    """Return the versions of the software and a description of the hardware: the processor or GPU of each process.

    ``instructions`` is the CPU instruction set that torch uses; rounding depends on it.
    """
    versions = {name: version_of(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **versions,
        "device": device,
        "instructions": instructions,
        "processes": processes,
        "system": platform.system(),
    }


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def code(queued: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the version and, in a checkout, the commit and whether files were modified.

    ``queued`` is the result of this function when the run was queued; it is included if it differs.
    """
    commit = _git(CHECKOUT, "rev-parse", "HEAD") if (CHECKOUT / ".git").exists() else None
    dirty = None if commit is None else bool(_git(CHECKOUT, "status", "--porcelain", "ln_repro", "conf"))
    current = {"version": __version__, "git": commit, "dirty": dirty}
    return current if queued in (None, current) else {**current, "queued": queued}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
