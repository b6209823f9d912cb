"""Who is at work in a directory: one process at a time, on whatever machine, and nobody for long once it has died.

A lease is a file of ``sessions/``, taken by exclusive creation: 1.json, 2.json ... and the highest number counts.
None is ever removed, so whoever takes over creates the next number, and only one process can. What says whether a
lease still holds:

* on the machine that took it, the kernel's lock on a file that is that machine's alone: freed at once however the
  holder died, and inherited by its workers, so that a trainer whose command was killed keeps the next command out
  until it has ended;
* from any other machine, the heartbeat: the holder touches its file, and who wants the directory watches that file with
  his own steady clock. Clocks that differ, or are set back, change nothing.
"""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from ln_repro.errors import LnReproError
from ln_repro.system.files import write_atomically

HEARTBEAT_SECONDS = 10.0
EXPIRY_SECONDS = 60.0
"""A holder on another machine that has not been heard of for so long is dead."""
PATIENCE_SECONDS = 15.0
"""How long to wait for a holder that is alive: it may be about to end."""
POLL_SECONDS = 0.2


class InUseError(LnReproError):
    """Another process is at work there."""


@dataclass(frozen=True)
class Holder:
    """Who took a lease. ``boot`` names the running machine; ``job`` is the cluster's, or None."""

    host: str
    boot: str
    pid: int
    job: str | None
    since: str
    released: bool = False

    @property
    def here(self) -> bool:
        """Return whether it runs, or ran, on this machine since its last start."""
        return self.boot == machine()

    def __str__(self) -> str:
        where = "" if self.here else f" on {self.host}"
        return f"process {self.pid}{where}" + (f" (job {self.job})" if self.job else "")


class Lease:
    """A directory that is ours, kept so by a heartbeat. ``descriptor``: the kernel's lock, for workers to inherit."""

    def __init__(self, folder: Path, number: int, holder: Holder, lock: TextIO) -> None:
        self.folder = folder
        self.number = number
        self.holder = holder
        self.descriptor = lock.fileno()
        self.lost = False
        self._lock = lock
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def check(self) -> None:
        """Raise unless the directory is still ours.

        Raises:
            LnReproError: we were silent for so long, suspended perhaps, that another machine took over.
        """
        if self.lost or newest(self.folder)[0] != self.number:
            raise LnReproError(
                f"{self.folder} was taken over by {newest(self.folder)[1]}, while nothing was heard of this process"
            )

    def release(self) -> None:
        """Give the directory back."""
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):  # a full disk, say: then it expires
            write_atomically(_file(self.folder, self.number), _text(self.holder, released=True))
        self._lock.close()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # not reached just now: the next beat tells
                os.utime(_file(self.folder, self.number))
                self.lost = self.lost or newest(self.folder)[0] != self.number


@contextmanager
def taken(folder: Path, patience: float | None = None) -> Iterator[Lease]:
    """Own a directory, which is made if it is not there, after waiting for up to ``patience`` seconds.

    Raises:
        InUseError: another process is at work in it.
        LnReproError: the file system cannot lock files.
    """
    lease = _take(folder, PATIENCE_SECONDS if patience is None else patience)
    try:
        yield lease
    finally:
        lease.release()


def holder(folder: Path) -> Holder | None:
    """Return who is at work in a directory, here or (if lately heard of) on another machine; None when nobody is."""
    number, last = newest(folder)
    if _locked(folder):
        return last or _unknown(folder)
    if last is None or last.here or last.released:
        return None
    try:
        silent = _now(folder) - _file(folder, number).stat().st_mtime
    except OSError:
        return None
    return last if abs(silent) < EXPIRY_SECONDS else None


def newest(folder: Path) -> tuple[int, Holder | None]:
    """Return the number of the last lease and who took it; 0 and None before the first."""
    try:
        numbers = [int(name[:-5]) for name in os.listdir(folder / "sessions") if name[:-5].isdecimal()]  # noqa: PTH208
    except FileNotFoundError:
        return 0, None
    number = max(numbers, default=0)
    return number, _read(folder, number) if number else None


@cache
def machine() -> str:
    """Return a name for this machine since its last start. Its containers share it, as they share its locks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def job(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the Slurm job that this process belongs to, None outside one."""
    task = environment.get("SLURM_ARRAY_TASK_ID")
    return f"{environment['SLURM_ARRAY_JOB_ID']}_{task}" if task else environment.get("SLURM_JOB_ID")


def _now(folder: Path) -> float:
    """Return the time by the clock of the file system, or ours where nothing can be written."""
    probe = folder / "sessions" / f".now-{os.getpid()}-{threading.get_ident()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return now


def _take(folder: Path, patience: float) -> Lease:
    start, watch = time.monotonic(), Watch()
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        number, last = newest(folder)
        if lock := _lock(folder):
            if last is None or last.here or last.released or watch.silent(_file(folder, number)) > EXPIRY_SECONDS:
                if lease := _create(folder, number + 1, lock):
                    return lease
                continue
            lock.close()
        waited = time.monotonic() - start
        if waited > patience and (not lock or watch.heard):
            raise InUseError(f"{folder} is in use by {last or _unknown(folder)}; wait for it or stop it")
        time.sleep(POLL_SECONDS)


class Watch:
    """Watches the heartbeat of a lease with this machine's steady clock."""

    def __init__(self) -> None:
        self.heard = False
        """Whether it has beaten, or changed hands, since we began to watch."""
        self._last: tuple[Path, int] | None = None
        self._since = time.monotonic()

    def silent(self, path: Path) -> float:
        """Return for how many seconds the file has not changed while we watched."""
        try:
            with path.open() as file:  # opening asks a network file system for what is so now
                now = (path, os.fstat(file.fileno()).st_mtime_ns)
        except OSError:
            now = (path, 0)
        if now != self._last:
            self.heard = self._last is not None
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since


def _create(folder: Path, number: int, lock: TextIO) -> Lease | None:
    """Take the next lease, or return None if another process did."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    ours = Holder(socket.gethostname(), machine(), os.getpid(), job(), now)
    path = _file(folder, number)
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x") as file:
            file.write(_text(ours))
    except (FileExistsError, FileNotFoundError):  # the latter: the directory was set aside meanwhile
        lock.close()
        return None
    return Lease(folder, number, ours, lock)


def _lock(folder: Path) -> TextIO | None:
    """Return the lock file, locked, if it is free and still the one of this directory: it may have been set aside."""
    path = _lock_file(folder)
    try:
        lock = path.open("a")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        raise LnReproError(
            f"{folder}: its file system cannot lock files ({error.strerror}); use another disk"
        ) from None
    lock.close()
    return None


def _locked(folder: Path) -> bool:
    """Return whether a process of this machine, a command or one of its workers, holds the lock."""
    try:
        with _lock_file(folder).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # none there, or no locks at all
        return False
    return False


def _lock_file(folder: Path) -> Path:
    """Return the file that this machine locks: a lock of another's, which a network may keep for it, is no concern."""
    return folder / f".lock-{machine()}"


def _file(folder: Path, number: int) -> Path:
    return folder / "sessions" / f"{number}.json"


def _text(holder: Holder, **changed: Any) -> str:
    return json.dumps({**vars(holder), **changed}) + "\n"


def _read(folder: Path, number: int) -> Holder:
    """Return who took a lease; one who died while he wrote it is unknown, and on another machine as far as we know."""
    try:
        return Holder(**json.loads(_file(folder, number).read_text()))
    except (OSError, ValueError, TypeError):
        return _unknown(folder)


def _unknown(folder: Path) -> Holder:
    return Holder("an unknown machine", "", 0, None, "")
