"""Exclusive locks on directories, across all machines that share them; a lock is released if its holder dies.

A lock is a file in ``sessions/``, acquired by exclusive creation: 1.json, 2.json and so on; the highest number is the
current one. No file is removed: a process that takes over creates the next number, which only one process can.

* On the machine of its holder, a lock is held as long as the kernel's lock on a file that only this machine uses. The
  kernel releases it when the holder dies. Workers inherit it, so that the lock is held until the trainer of a killed
  command has ended.
* On another machine, it is held as long as the holder updates the modification time of its file. A waiting process
  measures this with its own monotonic clock, so that clocks may differ or be set back.
"""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TextIO

from ln_repro.errors import LnReproError
from ln_repro.system.files import write_atomically

HEARTBEAT_SECONDS = 10.0
EXPIRY_SECONDS = 60.0  # time without a heartbeat after which a holder on another machine counts as dead
PATIENCE_SECONDS = 15.0  # time to wait for a running holder, which may be about to stop
POLL_SECONDS = 0.2


class InUseError(LnReproError):
    """Another process holds the lock."""


@dataclass(frozen=True)
class Holder:
    """The process that acquired a lock."""

    host: str  # name of its machine
    boot: str  # identifies the machine and its last start
    pid: int
    job: str | None  # its Slurm job
    since: str  # when it acquired the lock, in ISO format
    created: float  # when it started, in seconds since the epoch
    released: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the process runs or ran on this machine since its last start."""
        return self.boot == machine()

    def __str__(self) -> str:
        where = "" if self.is_local else f" on {self.host}"
        return f"process {self.pid}{where}" + (f" (job {self.job})" if self.job else "")


UNKNOWN = Holder("an unknown machine", "", 0, None, "", 0.0)
"""Stands for a holder whose lock file is damaged or not written yet."""


class DirectoryLock(AbstractContextManager["DirectoryLock"]):
    """A lock held by this process, with a heartbeat, until the end of a ``with`` block.

    Workers inherit the file ``descriptor`` of the kernel's lock.
    """

    def __init__(self, folder: Path, number: int, holder: Holder, lock: TextIO) -> None:
        self.folder = folder
        self.number = number
        self.holder = holder
        self.descriptor = lock.fileno()
        self._lock = lock
        self._lost = False
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    @property
    def taken_over(self) -> bool:
        """Whether the lock is lost: to another process, or because the directory was deleted, perhaps created again."""
        self._lost = self._lost or lost(self.folder, (self.number, self.holder))
        return self._lost

    def check(self) -> None:
        """Raise `LnReproError` if the lock is lost, because this process was suspended or the directory deleted."""
        if self.taken_over:
            by = newest(self.folder)[1]
            how = f"taken over by {by} while this process was not responding" if by else "deleted or renamed"
            raise LnReproError(f"{self.folder} was {how}")

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        self._ended.set()
        self._heart.join()
        with contextlib.suppress(OSError):  # for example a full disk: then the lock expires
            if not self.taken_over:  # otherwise the file may be the new holder's
                write_atomically(_file(self.folder, self.number), _text(replace(self.holder, released=True)))
        self._lock.close()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # unreachable for now; the next heartbeat tries again
                if not self.taken_over:
                    os.utime(_file(self.folder, self.number))


def acquire(folder: Path, patience: float | None = None) -> DirectoryLock:
    """Lock a directory; the directory is created if it does not exist.

    ``patience`` is the time to wait for a running holder, `PATIENCE_SECONDS` if it is not given.

    Raises:
        InUseError: another process holds the lock.
        LnReproError: the file system does not support locks.
    """
    start, watch = time.monotonic(), Watch()
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        number, last = newest(folder)
        if lock := _lock(folder):
            if last is None or last.is_local or last.released or watch.silent(_file(folder, number)) > EXPIRY_SECONDS:
                if created := _create(folder, number + 1, lock):
                    return created
                continue
            lock.close()
        waited = time.monotonic() - start
        if waited > (PATIENCE_SECONDS if patience is None else patience) and (not lock or watch.heard):
            raise InUseError(f"{folder} is in use by {last or UNKNOWN}; wait for it or stop it")
        time.sleep(POLL_SECONDS)


def holder(folder: Path) -> Holder | None:
    """Return the process that holds the lock, here or (by its heartbeat) on another machine; None if it is free."""
    number, last = newest(folder)
    if is_locked(_lock_file(folder)):  # by a command or one of its workers
        return last or UNKNOWN
    if last is None or last.is_local or last.released:
        return None
    try:
        silent = _now(folder) - _file(folder, number).stat().st_mtime
    except OSError:
        return None
    return last if abs(silent) < EXPIRY_SECONDS else None


def newest(folder: Path) -> tuple[int, Holder | None]:
    """Return the number of the last lock and its holder; 0 and None if there was none."""
    try:
        numbers = [int(name[:-5]) for name in os.listdir(folder / "sessions") if name[:-5].isdecimal()]  # noqa: PTH208
    except FileNotFoundError:
        return 0, None
    number = max(numbers, default=0)
    return number, _read(folder, number) if number else None


def lost(folder: Path, session: tuple[int, Holder | None]) -> bool:
    """Return whether ``session``, which was the `newest` lock, no longer is; also true if the directory was deleted.

    A lock that was only released is not lost: the process that trains a stack of runs outlives their commands.
    """
    number, last = newest(folder)
    last, ours = (by and replace(by, released=False) for by in (last, session[1]))
    return number != session[0] or (last != ours and UNKNOWN not in (last, ours))


@cache
def machine() -> str:
    """Return an identifier of this machine and its last start, which is the same in all containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def job() -> str | None:
    """Return the Slurm job of this process, or None."""
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{task}" if task else os.environ.get("SLURM_JOB_ID")


def _now(folder: Path) -> float:
    """Return the time of the file system's clock, or of this machine's if the directory is not writable."""
    probe = folder / "sessions" / f".now-{os.getpid()}-{threading.get_ident()}"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink()
    except OSError:
        return time.time()
    return now


class Watch:
    """Measures the time since a lock's last heartbeat with this machine's monotonic clock."""

    def __init__(self) -> None:
        self.heard = False  # whether the file has changed since the first observation
        self._last: tuple[Path, int] | None = None
        self._since = time.monotonic()

    def silent(self, path: Path) -> float:
        """Return the number of seconds since the file changed or was first observed."""
        try:
            with path.open() as file:  # refreshes the cache of a network file system
                now = (path, os.fstat(file.fileno()).st_mtime_ns)
        except OSError:
            now = (path, 0)
        if now != self._last:
            self.heard = self._last is not None
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since


def _create(folder: Path, number: int, lock: TextIO) -> DirectoryLock | None:
    """Create the next lock; return None if another process did so first."""
    import psutil

    now, created = datetime.now(UTC).isoformat(timespec="seconds"), psutil.Process().create_time()
    ours = Holder(socket.gethostname(), machine(), os.getpid(), job(), now, created)
    path = _file(folder, number)
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x") as file:
            try:
                file.write(_text(ours))
                file.flush()
            except OSError:  # the disk is full; an empty file would be that of an unknown holder
                path.unlink()
                raise
    except (FileExistsError, FileNotFoundError):  # the latter if the directory was renamed
        lock.close()
        return None
    except OSError:
        lock.close()
        raise
    return DirectoryLock(folder, number, ours, lock)


def _lock(folder: Path) -> TextIO | None:
    """Lock the lock file and return it; None if it is already locked, or the directory was renamed in the meantime."""
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
            f"{folder}: its file system does not support file locks ({error.strerror}); use another one"
        ) from None
    lock.close()
    return None


def is_locked(path: Path) -> bool:
    """Return whether a process of this machine holds the kernel's lock on a file."""
    try:
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or no support for locks
        return False
    return False


def _lock_file(folder: Path) -> Path:
    """Return the file for the kernel's lock; each machine has its own, so that no network lock is needed."""
    return folder / f".lock-{machine()}"


def _file(folder: Path, number: int) -> Path:
    return folder / "sessions" / f"{number}.json"


def _text(holder: Holder) -> str:
    return json.dumps(vars(holder)) + "\n"


def _read(folder: Path, number: int) -> Holder:
    """Return the holder of a lock; `UNKNOWN`, which is not on this machine, if the file is damaged."""
    try:
        return Holder(**json.loads(_file(folder, number).read_text()))
    except (OSError, ValueError, TypeError):
        return UNKNOWN
