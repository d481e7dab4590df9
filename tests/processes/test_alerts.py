"""Alerts on a real server, told to a real receiver: what is wrong is told once, and so is its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mainspring import App
from tests.processes.processes import await_that, run_here, server

_APP = """
from mainspring import App

app = App()


@app.job(retry={"max_retries": 0})
def charge(order: int) -> None:
    raise ValueError(f"order {order} has no customer")
"""


class Receiver:
    """Takes messages over HTTP.

    Attributes:
        port: where it listens.
        messages: each with its id, in the order of arrival.
        refuses: whether it answers 503.
    """

    def __init__(self) -> None:
        self.port = 0
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [body["data"] for _, body in self.messages if body["type"] == f"mainspring.alert.{kind}"]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            receiver.messages.append((self.headers["webhook-id"], body))
            self.send_response(503 if receiver.refuses else 204)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        receiver.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, args=[0.05])
        thread.start()
        try:
            yield receiver
        finally:
            http.shutdown()
            thread.join()


def ask(url: str, *arguments: object) -> Any:
    answer = run_here(*arguments, "--json", "--server", url)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_dead_letters_are_told_and_so_is_their_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    with receiving() as receiver:
        place = f"http://127.0.0.1:{receiver.port}"
        allow = ("--channel-allow", f"127.0.0.1:{receiver.port}")
        with server("app:app", "--data", "data", *allow, cwd=tmp_path) as (_, url):
            channel = ("channel", "set", "ops", "--cluster", "--group-wait", "0s")
            shown = ask(url, *channel, "--webhook", f"{place}/secret-path", "--header", "X-Key: secret")
            assert "secret" not in json.dumps(shown)
            assert ask(url, "channel", "test", "ops", "--cluster") == {"delivered": True, "error": None}
            assert [data["rule"] for data in receiver.told("test")] == ["test"]
            rule = ("alert", "set", "dead_letters", "--cluster", "--threshold", 0, "--hold", "0s")
            assert ask(url, *rule, "--channel", "ops")["channels"] == ["ops"]
            app = App(url)
            app.submit_sync("charge", [{"order": 1}])[0].wait_sync(30)
            await_that("the alert is told", lambda: receiver.told("firing"))
            [told] = receiver.told("firing")
            assert (told["rule"], told["tenant"], told["count"]) == ("dead_letters", "default", 1)
            [alert] = ask(url, "alert", "list")["items"]
            assert told["alerts"][0]["alert_id"] == alert["alert_id"]
            assert (alert["state"], alert["told_to"]) == ("FIRING", ["ops"])
            assert alert["summary"] == "1 open dead letter in queue default"
            row = run_here("alert", "list", "--server", url).stdout.splitlines()[1]
            assert "1 open dead letter in queue default" in row
            ask(url, "alert", "acknowledge", alert["alert_id"])
            run_here("dead", "discard", "--until", "0s", "--because", "test", "--yes", "--server", url)
            await_that("the end is told", lambda: receiver.told("resolved"))
            [shown] = ask(url, "alert", "list", "--state", "resolved")["items"]
            assert shown["acknowledged_by"] == "local"
            assert len(receiver.told("firing")) == len(receiver.told("resolved")) == 1
            assert len({name for name, _ in receiver.messages}) == 3
            app.close()
