"""Alerts on a real server, told to a real receiver: what is wrong is told once, and so is its end."""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mainspring import App
from tests.processes.processes import await_that, run_here, server

_APP = """
from mainspring import App

app = App()


@app.job(retry={"max_retries": 0})
def charge(order: int) -> None:
    raise ValueError(f"order {order} has no customer")
"""
_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "be-told-when-something-fails.md"


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


@pytest.mark.timeout(180)  # several periods of the watchdog
def test_dead_letters_are_told_and_so_is_their_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    with receiving() as receiver:
        place = f"http://127.0.0.1:{receiver.port}"
        allow = ("--channel-allow", f"*=127.0.0.1:{receiver.port}")
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


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    secrets = {"MAINSPRING_CONFIG": str(tmp_path / "mainspring.toml"), "SLACK": "https://hooks.example.com/x"}
    (tmp_path / "mainspring.toml").write_text('[secrets.slack-url]\nfrom = "env:SLACK"\ntenants = ["*"]\n')
    lines = re.findall(r"^\$ mainspring (.*)$", _PAGE.read_text(), re.MULTILINE)
    with server("app:app", "--data", "data", cwd=tmp_path, **secrets) as (_, url):
        for line in lines:
            arguments = shlex.split(line.replace("send-mails", "charge"))
            if arguments[:2] in (["channel", "test"], ["alert", "acknowledge"]):
                continue  # there is no such place, and no such alert
            answer = run_here(*arguments, "--server", url)
            assert answer.returncode == (2 if line == "silence end 3" else 0), f"{line}: {answer.stderr}"
        assert ask(url, "job", "show", "charge")["notify"]["to"] == ["ops"]
        rules = {rule["name"]: rule for rule in ask(url, "alert", "rules", "--cluster")["items"]}
        assert (rules["dead_letters"]["threshold"], rules["dead_letters"]["channels"]) == (20, ["ops"])
        cells = re.findall(r"^\| ([^|]*) \| when", _PAGE.read_text(), re.MULTILINE)
        table = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
        assert sorted(table) == sorted(rules)
        [silence] = ask(url, "silence", "list")["items"]
        assert (silence["rule"], silence["made_by"]) == ("dead_letters", "local")
        ask(url, "silence", "end", silence["silence_id"])
        assert "no silences" in run_here("silence", "list", "--server", url).stderr
        mine = ("alert", "set", "mail-failed", "--cluster", "--kind", "dead_letters", "--queue", "mail")
        assert ask(url, *mine, "--threshold", 0)["queue"] == "mail"
        ask(url, "alert", "delete", "mail-failed", "--cluster")
        refused = run_here("alert", "delete", "dead_letters", "--cluster", "--server", url)
        assert "every store has the rule 'dead_letters'" in refused.stderr
        assert ask(url, "channel", "show", "ops", "--cluster")["config"] == {"url": "${secret:slack-url}"}
        assert "ops" in run_here("channel", "list", "--cluster", "--server", url).stdout
        ask(url, "channel", "delete", "ops", "--cluster")
        assert "no channels" in run_here("channel", "list", "--cluster", "--server", url).stderr


def test_a_failure_is_told_though_the_server_is_killed_right_after(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP.replace("@app.job(", '@app.job(notify={"to": ["ops"]}, '))
    with receiving() as receiver:
        options = ("app:app", "--data", "data", "--channel-allow", f"*=127.0.0.1:{receiver.port}")
        with server(*options, cwd=tmp_path) as (process, url):
            place = ("--webhook", f"http://127.0.0.1:{receiver.port}")
            ask(url, "channel", "set", "ops", "--cluster", "--group-wait", "0s", *place)
            app = App(url)
            app.submit_sync("charge", [{"order": 1}])[0].wait_sync(30)
            app.close()
            process.process.kill()
            process.process.wait()
        known = len(receiver.messages)
        with server(*options, "--slots", 0, cwd=tmp_path) as (_, url):
            await_that("the failure is told", lambda: receiver.told("firing"))
            [told] = receiver.told("firing")
            assert told["rule"] == "job_failed"
            assert told["alerts"][0]["summary"].startswith("job charge failed: ValueError: order 1")
            assert len(receiver.messages) - known <= 1


@pytest.mark.postgres
def test_another_server_tells_of_what_happened_to_one_that_was_killed(
    tmp_path: Path, postgres_database: str
) -> None:
    (tmp_path / "app.py").write_text(_APP.replace("@app.job(", '@app.job(notify={"to": ["ops"]}, '))
    with receiving() as receiver:
        options = ("--store", postgres_database, "--channel-allow", f"127.0.0.1:{receiver.port}")
        with (
            server("app:app", *options, cwd=tmp_path) as (first, url),
            server(*options, "--slots", 0, cwd=tmp_path) as (_, other),
        ):
            place = ("--webhook", f"http://127.0.0.1:{receiver.port}")
            ask(url, "channel", "set", "ops", "--cluster", "--group-wait", "0s", *place)
            app = App(url)
            app.submit_sync("charge", [{"order": 1}])[0].wait_sync(30)
            app.close()
            first.process.kill()
            await_that("the failure is told", lambda: receiver.told("firing"))
            await_that("it is known", lambda: ask(other, "alert", "list")["items"][-1]["told_to"] == ["ops"])
            told = {
                (alert["alert_id"], name)
                for name, body in receiver.messages
                for alert in body["data"]["alerts"]
            }
            assert len({alert for alert, _ in told}) == len(told) == 1
