"""Mirror runs to Weights & Biases, beside training and for `ln-repro sync`; only this module imports wandb.

The position of an event in ``events.jsonl`` is its step in wandb, so that a run can be resumed and sent again without
lost or duplicate rows.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ln_repro.experiment.settings import Tracker
from ln_repro.records.events import Event
from ln_repro.records.run_dir import SAMPLES, RunFolder
from ln_repro.system.files import Json, read_json, write_atomically
from ln_repro.system.subprocesses import kill_children

FINISH_SECONDS, CLOSE_SECONDS = 45, 10  # that a finished and an interrupted run wait for wandb
SETTINGS = {
    "CONSOLE": "off", "SILENT": "true", "SYMLINK": "false", "DISABLE_GIT": "true", "DISABLE_CODE": "true",
    "SAVE_CODE": "false", "DISABLE_JOB_CREATION": "true", "ERROR_REPORTING": "false", "_DISABLE_META": "true",
    "_DISABLE_STATS": "true", "_DISABLE_MACHINE_INFO": "true", "_SAVE_REQUIREMENTS": "false", "HOST": "", "PROGRAM": "",
    "INIT_TIMEOUT": "15", "FINISH_TIMEOUT_RAISES": "true",
}  # fmt: skip
"""wandb's settings, as environment variables: no output, nothing about the machine or the code, limited waiting."""
OF_AGENT = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_LAUNCH", "WANDB_SERVICE")
"""Variables of an agent of wandb, which would move every run of a command to the agent's page."""
SENT = Path("wandb") / "sent"  # what the server has of a run; locked by the process that sends it


class Mirror:
    """Sends a run to wandb for the duration of a ``with`` block, from a thread, and never raises an exception.

    ``warn`` is called once with the reason if sending fails, or takes longer than ``seconds`` after the block.
    """

    def __init__(self, folder: RunFolder, tracker: Tracker, warn: Callable[[str], None], seconds: float) -> None:
        self._folder, self._place, self._warn, self._seconds = folder, folder.path / "wandb", warn, seconds
        self._mode = tracker.mode if tracker.mode != "auto" else os.environ.get("WANDB_MODE") or "auto"
        self._wanted = tracker.name != "none" and self._mode != "disabled"
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure, self._ending = "", threading.Event()

    def __enter__(self) -> "Mirror":
        if not self._wanted:
            return self
        folders = {f"{name}_DIR": str(self._place / "scratch" / name) for name in ("CACHE", "DATA", "ARTIFACT")}
        settings = {**SETTINGS, **folders, "FINISH_TIMEOUT": str(self._seconds * 2 / 3)}
        self._environment = os.environ.copy()
        os.environ.update({f"WANDB_{name}": value for name, value in settings.items()})
        for name in OF_AGENT:
            os.environ.pop(name, None)
        self._thread.start()
        return self

    def __exit__(self, error: object, *rest: object) -> None:
        if not self._wanted:
            return
        limit = CLOSE_SECONDS if error else self._seconds
        self._ending.set()
        try:
            self._thread.join(limit)
            if self._thread.is_alive():
                self._failure = self._failure or f"not everything was sent within {limit:g} s"
        finally:  # also after a second Ctrl-C
            for _ in range(50):  # for 5 s, because the thread may be about to start the service
                if self._thread.is_alive():
                    kill_children("wandb")
                    self._thread.join(0.1)
            os.environ.clear()
            os.environ.update(self._environment)
            shutil.rmtree(self._place / "scratch", ignore_errors=True)
        self.check()

    def check(self) -> None:
        """Warn if sending has failed."""
        if self._failure:
            self._warn(self._failure)
            self._warn = lambda reason: None

    def _work(self) -> None:
        with contextlib.ExitStack() as lock:  # held until the service has ended
            try:
                import wandb

                self._place.mkdir(exist_ok=True)
                sent = self._folder.path / SENT
                fcntl.flock(lock.enter_context(sent.open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                sent.write_text("" if self._failure else self._send(wandb))
            except BlockingIOError:
                self._failure = "another process is sending it"
            except BaseException as error:
                self._failure = self._failure or " ".join([type(error).__name__, *str(error).split()])[:300]
                kill_children("wandb")  # its service would keep trying
            for end in ("finish", "teardown"):
                with contextlib.suppress(BaseException):  # also if it could not be imported
                    getattr(wandb, end)()

    def _send(self, wandb: Any) -> str:
        """Send the events as they are written, and at the end the record; return what the server then has."""
        old = [*self._place.glob("*run-*")]  # copies of earlier sessions; the new one will have all events
        run, seen = self._open(wandb), set()
        for step, event in enumerate(self._folder.events.until(self._ending)):
            identity = tuple(map(event.get, ("kind", "update", "epoch", "name", "split", "flavour")))
            if step >= run.starting_step and identity not in seen and (values := flat_event(event)):
                run.log(values, step=step, commit=True)
            seen.add(identity)  # a resumed trainer writes some events again
        record, content = self._folder.record, "" if run.offline else contents(self._folder)
        run.summary.update(flat_record(record.plain() if record else {}))
        if record and (samples := read_json(self._folder.path / SAMPLES, list)):
            run.summary["samples"] = wandb.Table(columns=["source", "reference", "hypothesis"], data=samples)
        run.finish(exit_code=0 if record else 1)
        for copy in old:
            shutil.rmtree(copy)
        return content

    def _open(self, wandb: Any) -> Any:
        """Open the page of the run directory: a new one for each, because wandb keeps the rows that a page has."""
        run_id, experiment = self._folder.read_experiment()
        page = self._place / "id"
        if not page.exists():
            write_atomically(page, f"{run_id}-{secrets.token_hex(3)}")
        mode = self._mode if self._mode != "auto" else "online" if key_configured() else "offline"
        axes = {**experiment.axes, "warm": "warm" if experiment.axes["warmup_updates"] else "nowarm"}
        tags = [axes[axis] for axis in ("data", "model", "norm", "init", "optimizer", "decay", "precision", "warm")]
        no_stop = {"stop_fn": lambda: None} if "stop_fn" in wandb.Settings.model_fields else {}  # by a click there
        run = wandb.init(
            project=experiment.tracker.project, id=page.read_text(), name=f"{experiment.exp}-s{experiment.seed}",
            group=experiment.exp, job_type="train", tags=list(dict.fromkeys(tags)), config=experiment.settings(),
            mode=mode, resume="allow", dir=str(self._folder.path), settings=wandb.Settings(**no_stop),
        )  # fmt: skip
        run.define_metric("update")
        run.define_metric("*", step_metric="update")
        return run


def contents(folder: RunFolder) -> str:
    """Describe what there is to send of a run, and the server."""
    server = [os.environ.get(name) for name in ("WANDB_BASE_URL", "WANDB_ENTITY")]
    return f"{sum(1 for _ in folder.events.new())} events, record: {bool(folder.record)}, server: {server}"


def key_configured() -> bool:
    """Return whether wandb finds a key for its server, without asking the server."""
    import wandb

    with contextlib.suppress(TypeError):  # older releases have no `prompt`
        return bool(wandb.login(prompt=False, verify=False))
    return bool(wandb.api.api_key)


def flat_event(event: Event) -> Json:
    """Return the numbers of an event: `train/loss`, `bleu/test`, `probe/NAME/...`; a status has none."""
    match event["kind"]:
        case "status":  # not a measurement; the record contains its information
            return {}
        case "bleu":
            name = f"bleu/{event['split']}_{event['flavour']}"
            values = {name: event["score"], f"{name}_signature": event["signature"]}
        case "probe":
            values = dict(_numbers(f"probe/{event['name']}", event["values"]))
        case kind:
            values = dict(_numbers(kind, {key: event[key] for key in event if key not in ("update", "epoch")}))
    time = datetime.fromisoformat(event["time"]).timestamp()
    return {**values, "update": event["update"], "epoch": event["epoch"], "_timestamp": time}


def flat_record(record: Json) -> Json:
    """Return the results in a record: `parameters`, `bleu/test`, `divergence/update`."""
    values = {key: value for key, value in record.items() if isinstance(value, str | int | float)}
    for name, result in (record.get("bleu") or {}).items():
        if result:
            values |= {f"bleu/{name}": result["score"], f"bleu/{name}_signature": result["signature"]}
    return values | dict(_numbers("divergence", record.get("divergence")))


def _numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a nested value, with their paths as names."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _numbers(f"{name}/{key}", item)
