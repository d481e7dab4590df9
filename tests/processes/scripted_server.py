"""A server that answers workers as a test tells it, and keeps what they said."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 90.0
GONE = 0
"""The status of an answer that is never given: the connection closes."""

Answer = tuple[int, Any]


@dataclass
class Call:
    """One call of a worker, and when it came."""

    verb: str
    body: dict[str, Any]
    at: float


@dataclass
class ScriptedServer:
    """Grants sessions, leases nothing, takes every report; `scripts` says what is answered otherwise.

    Attributes:
        scripts: by verb, answers that go out before the usual ones; a function makes its own of the call.
    """

    period: float = 0.5
    address: str = ""
    scripts: dict[str, queue.Queue[Answer | Callable[[Call], Answer]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)
    granted: int = 0

    def __post_init__(self) -> None:
        self.scripts = {verb: queue.Queue() for verb in ("register", "claim", "beat", "report", "leave")}

    def will(self, verb: str, *answers: Answer | Callable[[Call], Answer]) -> None:
        """Answer the next calls so."""
        for answer in answers:
            self.scripts[verb].put(answer)

    def of(self, verb: str) -> list[Call]:
        """Return the calls that have come."""
        return [call for call in self.calls if call.verb == verb]

    def wait_for(self, verb: str, number: int = 1, *, since: int = 0) -> Call:
        """Return the call of this number, from 1, once it has come; `since` leaves out earlier calls of all verbs."""

        def found() -> list[Call]:
            return [call for call in self.calls[since:] if call.verb == verb]

        with self.news:
            assert self.news.wait_for(lambda: len(found()) >= number, PATIENCE), (verb, self.calls)
            return found()[number - 1]

    def answer(self, call: Call) -> Answer:
        """Keep the call and answer it."""
        with self.news:
            self.calls.append(call)
            self.news.notify_all()
        try:
            scripted = self.scripts[call.verb].get_nowait()
        except queue.Empty:
            return self._usual(call)
        return scripted(call) if callable(scripted) else scripted

    def _usual(self, call: Call) -> Answer:
        if call.verb == "register":
            self.granted += 1
            return 201, {"session_id": f"ses_{self.granted}", "beat_period_seconds": self.period}
        if call.verb == "claim":
            time.sleep(0.05)  # a long poll, cut short
            return 200, leases()
        if call.verb == "beat":
            return 200, heard()
        if call.verb == "report":
            return 200, {"results": ["applied" for _ in call.body["reports"]]}
        return 204, None


def lease(function: str = "nap", payload: object = None, *, token: int = 1, **more: object) -> dict[str, Any]:
    """Make the answer to a claim with one lease."""
    held = {
        "run_id": "run_00000000001yf",
        "token": token,
        "job_id": "job_01m7yv7wr6e6nrt8p6jmm2gz6f",
        "version": 1,
        "payload": {"seconds": 3600} if payload is None else payload,
        "is_quarantined": False,
        "is_cancel_requested": False,
        **more,
    }
    definition = {"target": {"type": "function", "function": function}, "timeout_seconds": 86400}
    kept = {"job_id": held["job_id"], "version": 1, "definition": definition}
    return leases([held], [kept])


def leases(given: object = (), definitions: object = (), *, is_session_live: bool = True) -> dict[str, Any]:
    """Make an answer to a claim."""
    return {
        "leases": given,
        "definitions": definitions,
        "is_session_live": is_session_live,
        "is_quarantined_waiting": False,
    }


def heard(*, lost: object = (), cancel: object = (), is_session_live: bool = True) -> dict[str, Any]:
    """Make an answer to a heartbeat."""
    return {"is_session_live": is_session_live, "lost": lost, "cancel": cancel}


@contextmanager
def scripted_server(period: float) -> Iterator[ScriptedServer]:
    """Serve on a free port of loopback."""
    server = ScriptedServer(period)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(size))
            call = Call(self.path.removeprefix("/api/v1/worker/"), body, time.monotonic())
            status, told = server.answer(call)
            if status == GONE:
                return
            text = b"" if told is None else json.dumps(told).encode()
            with contextlib.suppress(ConnectionError):  # the test is over, and the worker gone
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=[0.05])
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
