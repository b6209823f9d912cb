"""The versions of software and code used for a run."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata

from ln_repro.system.files import Json
from ln_repro.system.paths import CHECKOUT
from ln_repro.version import __version__

PACKAGES = ("torch", "fairseq", "numpy")  # that training depends on; of others, see scores' signatures and uv.lock
HARDWARE = ("device", "instructions", "processes", "stacked", "tf32")


def environment(*sessions: Mapping[str, object]) -> Json:
    """Return the versions of the software and the hardware of a run, whose ``sessions`` may be on different machines.

    The hardware is that of the first session; all of them are in ``sessions`` if they differ. ``instructions`` is the
    CPU instruction set that torch uses, because rounding depends on it; ``tf32`` says whether training on a GPU uses
    TF32 (decoding always does). ``stacked`` is the number of runs that were trained as one, if there were several.
    """
    hardware = [{"instructions": None, "processes": 1} | {k: s[k] for k in HARDWARE if k in s} for s in sessions]
    return {
        "python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
        **hardware[0],
        **({"sessions": hardware} if any(session != hardware[0] for session in hardware) else {}),
    }


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def code() -> Json:
    """Return the version and, in a checkout, the commit and whether files were modified; None where git fails."""
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "ln_repro", "conf")
    return {"version": __version__, "git": commit, "dirty": None if changes is None else bool(changes)}


def code_of(sessions: Sequence[Mapping[str, object]]) -> Json:
    """Return the version of the code of a run: that of its last session, with those of all ``sessions`` if they differ.

    ``dirty`` is true if any session had modified files, and None if that is unknown of one.
    """
    dirty = {session["dirty"] for session in sessions}
    distinct = [session for number, session in enumerate(sessions) if session not in sessions[:number]]
    return {
        **sessions[-1],
        "dirty": True if True in dirty else None if None in dirty else False,
        **({"sessions": distinct} if len(distinct) > 1 else {}),
    }


def _git(*arguments: str) -> str | None:
    if not (CHECKOUT / ".git").exists():
        return None
    command = ["git", "-C", str(CHECKOUT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
