"""A stand-in for the wandb server on this machine: it keeps what a run sends, and answers a resumed run from it.

Rows are stored by offset, as the real server stores them, so a client that sends a row twice is found out.
"""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Run:
    """What the server knows of one run."""

    info: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Row by offset."""
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    finished: int = 0
    """How often the run was declared complete."""

    def column(self, name: str) -> list[Any]:
        """Return the values of one metric, in order, where it was logged."""
        return [row[name] for _, row in sorted(self.history.items()) if name in row]


class Server:
    """The stand-in, listening on a free port of this machine while the ``with`` block lasts."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.requests = 0
        self.stopped = False
        self.stop_requested = False
        """Say that somebody has asked for the end of every run."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> "Server":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop answering, on open connections too; new ones are refused."""
        self.stopped = True
        self._http.shutdown()
        self._http.server_close()

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Answer one GraphQL operation; an unknown one gets an empty answer."""
        viewer = {"id": "v", "entity": "local", "username": "local", "flags": "{}", "teams": {"edges": []}}
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "Viewer": lambda _: {"viewer": viewer},
            "RunResumeStatus": self._resume_status,
            "UpsertBucket": self._upsert,
            "CreateRunFiles": lambda _: {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}},
            "CreateArtifact": lambda _: {"createArtifact": {"artifact": {"id": "a", "state": "COMMITTED"}}},
            "ArtifactType": lambda _: {"project": {"artifact": {"artifactType": {"name": "run_table"}}}},
        }
        return known[operation](variables) if operation in known else {}

    def stream(self, run_id: str, body: dict[str, Any]) -> None:
        """Take one piece of a run's files, each line at its offset."""
        run = self.runs.setdefault(run_id, Run())
        for name, piece in (body.get("files") or {}).items():
            rows = [json.loads(line, parse_constant=str) for line in piece["content"] if name.startswith("wandb-")]
            if name == "wandb-summary.json":
                run.summary = rows[-1]
            elif name == "wandb-history.jsonl":
                run.history.update(enumerate(rows, start=piece["offset"]))
        if body.get("complete"):
            run.finished += 1
            run.exit_code = body.get("exitcode")

    def _resume_status(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Say where the run stopped: how many rows, and the last of them."""
        model = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "local"}, "bucket": None}
        if run := self.runs.get(variables["name"]):
            offsets = sorted(run.history)
            tail = [json.dumps(run.history[offsets[-1]])] if offsets else []
            model["bucket"] = {
                "id": "r", "name": variables["name"], "summaryMetrics": json.dumps(run.summary),
                "config": json.dumps(run.config), "historyLineCount": len(offsets), "eventsLineCount": 0,
                "logLineCount": 0, "historyTail": json.dumps(tail), "eventsTail": "[]", "wandbConfig": '{"t": 1}',
            }  # fmt: skip
        return {"model": model}

    def _upsert(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Create a run, or take news of one."""
        inserted = variables["name"] not in self.runs
        run = self.runs.setdefault(variables["name"], Run())
        run.info.update({key: value for key, value in variables.items() if value is not None})
        run.config.update(json.loads(variables.get("config") or "{}"))
        project = {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": "local"}}
        bucket = {"id": "r", "name": variables["name"], "config": json.dumps(run.config), "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}


class Handler(BaseHTTPRequestHandler):
    """Speaks for the server."""

    protocol_version = "HTTP/1.1"

    def __init__(self, server: Server, *arguments: Any) -> None:
        self.wandb = server
        super().__init__(*arguments)

    def log_message(self, *_: object) -> None:
        """Keep the test output clean."""

    def handle(self) -> None:
        """Serve a connection, which a killed client may drop at any time."""
        try:
            super().handle()
        except (ConnectionError, ValueError):
            self.close_connection = True

    def do_POST(self) -> None:
        """Answer a GraphQL operation or a piece of a run's files."""
        self.wandb.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if self.wandb.stopped:
            raise ConnectionAbortedError
        if self.path.startswith("/graphql"):
            operation = re.findall(r"(?:query|mutation)\s+(\w+)", body["query"])[0]
            return self._reply({"data": self.wandb.answer(operation, body.get("variables") or {})})
        if match := re.search(r"/([^/]+)/file_stream$", self.path):
            self.wandb.stream(match[1], body)
        return self._reply({"exitcode": None, "limits": {}, "stopped": self.wandb.stop_requested})

    def _reply(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
