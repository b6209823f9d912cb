"""A stand-in for the wandb server on this machine: it keeps what a run sends, and answers a resumed run from it.

Rows are stored by offset, as the real server stores them, so a client that sends a row twice is found out.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
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

    def __init__(self, refuse: bool = False) -> None:
        self.runs: dict[str, Run] = {}
        self.files: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self.stopped = False
        self.stop_requested = False
        """Say that somebody has asked for the end of every run."""
        self.refuse = refuse
        """Answer every query with 401, as for a key that is not known."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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

    def answer(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """Answer one GraphQL operation; an unknown one gets an empty answer."""
        self.calls[operation] += 1
        viewer = {"id": "v", "entity": "local", "username": "local", "flags": "{}", "teams": {"edges": []}}
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "Viewer": lambda given: {"viewer": viewer},
            "RunResumeStatus": self._resume_status,
            "UpsertBucket": self._upsert,
            "CreateRunFiles": self._run_files,
            "CreateArtifact": lambda given: {"createArtifact": {"artifact": {"id": "a", "state": "COMMITTED"}}},
            "ArtifactType": lambda given: {"project": {"artifact": {"artifactType": {"name": "run_table"}}}},
        }
        return known[operation](given) if operation in known else {}

    def stream(self, run_id: str, body: dict[str, Any]) -> None:
        """Take one piece of a run's files, each line at its offset."""
        run = self.runs.setdefault(run_id, Run())
        for name, piece in (body.get("files") or {}).items():
            lines = piece["content"]
            if name == "wandb-summary.json":
                run.summary = json.loads(lines[-1], parse_constant=str)
            elif name == "wandb-history.jsonl":
                rows = (json.loads(line, parse_constant=str) for line in lines)
                run.history.update(enumerate(rows, start=piece["offset"]))
        if body.get("complete"):
            run.finished += 1
            run.exit_code = body.get("exitcode")

    def _resume_status(self, given: dict[str, Any]) -> dict[str, Any]:
        """Say where the run stopped: how many rows, and the last of them."""
        model = {"id": "p", "name": given["project"], "entity": {"id": "e", "name": "local"}, "bucket": None}
        if run := self.runs.get(given["name"]):
            offsets = sorted(run.history)
            tail = [json.dumps(run.history[offsets[-1]])] if offsets else []
            model["bucket"] = {
                "id": "r", "name": given["name"], "summaryMetrics": json.dumps(run.summary),
                "config": json.dumps(run.config), "historyLineCount": len(offsets), "eventsLineCount": 0,
                "logLineCount": 0, "historyTail": json.dumps(tail), "eventsTail": "[]", "wandbConfig": '{"t": 1}',
            }  # fmt: skip
        return {"model": model}

    def _upsert(self, given: dict[str, Any]) -> dict[str, Any]:
        """Create a run, or take news of one."""
        inserted = given["name"] not in self.runs
        run = self.runs.setdefault(given["name"], Run())
        run.info.update({key: value for key, value in given.items() if value is not None})
        run.config.update(json.loads(given.get("config") or "{}"))
        project = {"id": "p", "name": given.get("project"), "entity": {"id": "e", "name": "local"}}
        bucket = {"id": "r", "name": given["name"], "config": json.dumps(run.config), "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": inserted}}

    def _run_files(self, given: dict[str, Any]) -> dict[str, Any]:
        """Say where to put the files that the client wants to upload."""
        files = [{"name": name, "uploadUrl": f"{self.url}/storage/{name}"} for name in given.get("files", [])]
        return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    """Return the request handler that speaks for ``server``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Keep the test output clean."""

        def handle(self) -> None:
            """Serve a connection, which a killed client may drop at any time."""
            try:
                super().handle()
            except (ConnectionError, ValueError):
                self.close_connection = True

        def do_POST(self) -> None:
            data = json.loads(self._body() or b"{}")
            if server.stopped:
                raise ConnectionAbortedError
            if self.path.startswith("/graphql"):
                operation = re.findall(r"(?:query|mutation)\s+(\w+)", data["query"])[0]
                if server.refuse:
                    return self._reply({"errors": [{"message": "user is not logged in"}]}, status=401)
                return self._reply({"data": server.answer(operation, data.get("variables") or {})})
            if match := re.search(r"/([^/]+)/file_stream$", self.path):
                server.stream(match[1], data)
            return self._reply({"exitcode": None, "limits": {}, "stopped": server.stop_requested})

        def do_PUT(self) -> None:
            server.files[self.path.removeprefix("/storage/")] = self._body()
            self._reply({})

        def do_GET(self) -> None:
            self._reply({})

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("content-length") or 0))

        def _reply(self, answer: dict[str, Any], status: int = 200) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
