"""A pool on this machine: every cell is an `ln-repro run` of its own, as many at once as there are cores."""

import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ln_repro import child
from ln_repro.errors import Interrupted
from ln_repro.sweep.grid import Cell

Say = Callable[[str], None]


class Pool:
    """Runs cells side by side; a cell that fails does not stop the others."""

    def __init__(self, size: int, logs: Path, say: Say) -> None:
        self.size = size
        self.logs = logs
        self.say = say
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.stopping = False

    def run(self, cells: Sequence[tuple[str, Cell]]) -> list[int]:
        """Run the cells, each under the name of its log, in order; return their exit codes.

        Raises:
            Interrupted: after Ctrl-C; every run has saved its state.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self.size) as threads:
            try:
                waiting = [
                    threads.submit(self._one, f"[{number}/{len(cells)}] {name}", name, cell)
                    for number, (name, cell) in enumerate(cells, 1)
                ]
                return [done.result() for done in waiting]
            except KeyboardInterrupt:
                self._stop()
                raise Interrupted("interrupted; the same sweep goes on") from None

    def _one(self, title: str, name: str, cell: Cell) -> int:
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            with self.lock:
                if self.stopping:
                    return Interrupted.exit_code
                process = subprocess.Popen(
                    [*child.SELF, "-m", "ln_repro.cli", "run", *cell.overrides],
                    env=child.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self.running.add(process)
            status = process.wait()
        with self.lock:
            self.running.discard(process)
        self.say(f"{title}: {'done' if status == 0 else f'exit {status}, see {log}'}")
        return status

    def _stop(self) -> None:
        """Ask every run to save and end."""
        with self.lock:
            self.stopping = True
            for process in self.running:
                process.terminate()
