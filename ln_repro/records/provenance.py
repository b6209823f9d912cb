"""The versions of the software and the code of a run."""

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
    """Return the versions of the software, and the hardware.

    ``device`` is the processor or GPU of each process. ``instructions`` is the processor's instruction set that torch
    uses: with another one, rounding differs, which an unstable training amplifies.
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
    """Return the version and, in a checkout, the commit and whether files differ from it.

    ``queued`` is what this function returned when the run was queued; it is included if it differs.
    """
    commit = _git(CHECKOUT, "rev-parse", "HEAD") if (CHECKOUT / ".git").exists() else None
    dirty = None if commit is None else bool(_git(CHECKOUT, "status", "--porcelain", "ln_repro", "conf"))
    found = {"version": __version__, "git": commit, "dirty": dirty}
    return found if queued in (None, found) else {**found, "queued": queued}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
