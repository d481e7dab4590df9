"""Traces of real servers and workers, as a collector receives them."""

from __future__ import annotations

import json
import re
import shlex
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from mainspring import App
from tests.collector import Received, collector
from tests.processes.processes import run, running, server

_APP = """
from mainspring import App, current_attempt
from opentelemetry import trace

app = App()


@app.job(retry={"max_retries": 1, "delay": "10ms"})
async def pay(order: str) -> dict:
    attempt = current_attempt()
    with trace.get_tracer("shop").start_as_current_span("charge"):
        if attempt.attempt == 1:
            raise ValueError(f"secret of {order}")
        child = await receipt.enqueue()
    return {"trace": attempt.trace_id, "headers": attempt.trace_headers(), "child": child.id}


@app.job()
def receipt() -> None:
    pass
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "follow-a-run.md").read_text()
GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def only(spans: list[Received], name: str, **facts: object) -> Received:
    """Return the one span of a name, among those with these attributes."""
    wanted = {f"mainspring.{key}": fact for key, fact in facts.items()}
    found = [span for span in spans if span.name == name and wanted.items() <= span.attributes.items()]
    assert len(found) == 1, (name, facts, [(span.name, span.attributes) for span in spans])
    return found[0]


def test_a_run_is_one_trace_from_its_submission_to_its_last_attempt(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    with collector() as received:
        otlp = ("--otlp", received.url)
        with (
            server("--data", "data", "--slots", "0", *otlp, cwd=tmp_path) as (host, url),
            running("worker", "app:app", "--server", url, *otlp, cwd=tmp_path) as worker,
        ):
            worker.wait_for("ready")
            shown = run(
                *("job", "run", "pay", "--payload", '{"order": "private"}', "--wait", "60", "--json"),
                *("--traceparent", GIVEN, "--server", url),
                cwd=tmp_path,
            )
            found: dict[str, Any] = json.loads(shown.stdout)
            assert found["status"] == "SUCCEEDED", shown.stdout
            assert found["trace_id"] == found["result"]["trace"] == GIVEN.split("-")[1]
            listed = run("run", "show", found["run_id"], "--server", url, cwd=tmp_path).stdout
            assert GIVEN.split("-")[1] in listed
            app = App(url)
            app.wait_for_sync(found["result"]["child"], 60)
            app.close()
            assert (worker.stop(), host.stop()) == (0, 0)
        # Both have stopped, so all has come: what waits is sent at the end.
        spans = received.wait_for("submit", "queue", "attempt pay", "charge", "attempt receipt")
    _check_parents(spans, found)
    assert "private" not in str(spans)
    resources = {str(span.resource["service.name"]): span.resource for span in spans}
    assert set(resources) == {"mainspring", "mainspring-worker"}
    assert all({"service.instance.id", "service.version"} <= set(facts) for facts in resources.values())
    points = received.metrics["mainspring_spans_total"]
    assert {str(facts["outcome"]) for facts, _ in points} == {"sent", "dropped", "failed"}
    lags = {facts["queue"]: lag for facts, lag in received.metrics["mainspring_run_start_lag_seconds"]}
    assert lags["default"].count == 2  # each run started once
    assert len(lags["default"].bucket_counts) == len(lags["default"].explicit_bounds) + 1


def _check_parents(spans: list[Received], run: dict[str, Any]) -> None:
    ours = {"run_id": run["run_id"]}
    assert {span.trace_id for span in spans} == {GIVEN.split("-")[1]}
    submitted = only(spans, "submit", job="pay", status="submitted", **ours)
    assert submitted.parent_id == GIVEN.split("-")[2]
    queued = only(spans, "queue", **ours)
    first, second = (only(spans, "attempt pay", attempt=number, **ours) for number in (1, 2))
    assert {queued.parent_id, first.parent_id, second.parent_id} == {submitted.span_id}
    assert (first.is_error, first.attributes["mainspring.outcome"]) == (True, "failed")
    assert first.attributes["error.type"] == "builtins.ValueError"
    assert (second.is_error, second.attributes["mainspring.outcome"]) == (False, "succeeded")
    charges = {span.parent_id: span for span in spans if span.name == "charge"}
    assert set(charges) == {first.span_id, second.span_id}
    assert charges[second.span_id].scope == "shop"
    assert run["result"]["headers"]["traceparent"].split("-")[2] == second.span_id
    child = only(spans, "submit", job="receipt")
    assert child.parent_id == charges[second.span_id].span_id
    assert only(spans, "attempt receipt").parent_id == child.span_id
    assert submitted.began <= first.began <= first.ended <= second.began <= second.ended


def test_a_callback_carries_the_trace_on(tmp_path: Path) -> None:
    heads: list[str | None] = []

    class Target(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heads.append(self.headers["traceparent"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Write nothing."""

    target = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    Thread(target=target.serve_forever, daemon=True).start()
    port = target.server_address[1]
    try:
        with collector() as received:
            options = ("--otlp", received.url, "--callback-allow", f"127.0.0.1:{port}")
            with server("--data", "data", *options, cwd=tmp_path) as (_, url):
                job = {"name": "call", "callback_url": f"http://127.0.0.1:{port}/hook?token=private"}
                made = httpx.post(f"{url}/api/v1/jobs", json=job).json()
                answer = httpx.post(
                    f"{url}/api/v1/jobs/{made['job_id']}/runs", headers={"traceparent": GIVEN}
                )
                assert answer.status_code == 201, answer.text
                spans = received.wait_for("attempt call", "callback")
    finally:
        target.shutdown()
        target.server_close()
    called, attempt = only(spans, "callback"), only(spans, "attempt call")
    assert called.parent_id == attempt.span_id
    assert heads == [f"00-{called.trace_id}-{called.span_id}-01"]
    assert called.attributes["http.response.status_code"] == 204
    assert called.attributes["server.port"] == port
    assert "private" not in str(spans)


def test_a_sampled_fire_begins_a_trace_and_a_collector_that_is_away_stops_nothing(tmp_path: Path) -> None:
    settings = "[telemetry]\nsample = 1.0\n"
    (tmp_path / "mainspring.toml").write_text(settings)
    (tmp_path / "app.py").write_text(_APP.replace("@app.job()", '@app.job(every="1s")'))
    with collector() as received:
        received.status = 503
        with server("app:app", "--data", "data", "--otlp", received.url, cwd=tmp_path) as (_, url):
            with received.came:
                assert received.came.wait_for(lambda: received.asked > 0, timeout=60)
            runs = httpx.get(f"{url}/api/v1/runs?state=SUCCEEDED").json()["items"]
            assert runs
            assert all(run["trace_id"] for run in runs)
            received.status = 200
            spans = received.wait_for("fire", "queue", "attempt receipt")
        fired = next(span for span in spans if span.name == "fire")
        attempt = next(
            span for span in spans if span.parent_id == fired.span_id and span.name.startswith("attempt")
        )
        assert (fired.parent_id, attempt.trace_id) == ("", fired.trace_id)
        assert fired.attributes["mainspring.job"] == "receipt"


def test_nothing_is_traced_by_itself_without_a_collector(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text("[telemetry]\nsample = 1.0\n")
    (tmp_path / "app.py").write_text(_APP)
    with server("app:app", "--data", "data", cwd=tmp_path) as (_, url):
        for options, is_traced in (((), False), (("--traceparent", GIVEN), True)):
            shown = run(
                *("job", "run", "receipt", "--wait", "60", "--json", *options, "--server", url), cwd=tmp_path
            )
            assert (json.loads(shown.stdout)["trace_id"] is not None) is is_traced
        wrong = run("job", "run", "receipt", "--traceparent", "00-zz", "--server", url, cwd=tmp_path)
        assert (wrong.returncode, "traceparent" in wrong.stderr) == (2, True), wrong
        unread = httpx.post(f"{url}/api/v1/jobs/{_job_id(url)}/runs", headers={"traceparent": "nonsense"})
        assert unread.status_code == 201


def _job_id(url: str) -> str:
    found: str = httpx.get(f"{url}/api/v1/jobs?name=receipt").json()["items"][0]["job_id"]
    return found


def test_the_page_says_what_its_commands_take(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from mainspring import App\n\napp = App()\n\n\n@app.job()\ndef pay(order: int) -> None:\n    pass\n"
    )
    words = [shlex.split(line) for line in re.findall(r"^ *\$ mainspring (.*)$", PAGE, re.MULTILINE)]
    of_server, of_worker, submit, show = words
    with collector() as received:
        given = [received.url if word == "http://127.0.0.1:4318" else word for word in of_server[1:]]
        with (
            server("--data", "data", "--slots", "0", *given, cwd=tmp_path) as (_, url),
            running(*of_worker[:3], received.url, "--server", url, cwd=tmp_path) as worker,
        ):
            worker.wait_for("ready")
            done = run(*submit, "--wait", "60", "--json", "--server", url, cwd=tmp_path)
            found = json.loads(done.stdout)
            assert found["status"] == "SUCCEEDED", done
            shown = run(*show[:2], found["run_id"], "--server", url, cwd=tmp_path).stdout
            assert re.search(r"^trace +4bf92f3577b34da6a3ce929d0e0e4736$", shown, re.MULTILINE), shown
            received.wait_for("submit", "queue", "attempt pay")
