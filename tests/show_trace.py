"""Sends a run's trace through a real OpenTelemetry collector, shows it as a tree, and checks its parents.

    make show-trace

The server and the worker send to the collector, and the collector sends on to a receiver of this program, which decodes
what comes. The run of a function fails once, makes a span of its own, and submits two more: one calls a URL, the other
is a command. Each must hang on what caused it, and the target and the command must be told the span that they are in.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import httpx

from mainspring import App
from tests.collector import Received, collector
from tests.processes.processes import run, running, server

_APP = """
from mainspring import App, current_attempt
from opentelemetry import trace

app = App()


@app.job(retry={"max_retries": 1, "delay": "10ms"})
async def pay(order: int) -> str:
    if current_attempt().attempt == 1:
        raise ConnectionError("the bank does not answer")
    with trace.get_tracer("shop").start_as_current_span("charge"):
        runs = [*await app.submit("notify", [{"order": order}]), *await app.submit("export", [{"order": order}])]
    return " ".join(run.id for run in runs)
"""
_COMMAND = 'echo "$TRACEPARENT"'
_SHOP = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  otlphttp:
    endpoint: {url}
    compression: none
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [otlphttp]
    metrics:
      receivers: [otlp]
      exporters: [otlphttp]
"""
EXPECTED = {
    "submit": "shop",
    "queue": "submit",
    "attempt pay": "submit",
    "charge": "attempt pay",
    "submit notify": "charge",
    "queue notify": "submit notify",
    "attempt notify": "submit notify",
    "callback": "attempt notify",
    "submit export": "charge",
    "queue export": "submit export",
    "attempt export": "submit export",
}
"""Each step, and on which it must hang."""
_NAMED = {"submit", "queue"}
"""Steps that do not name their job."""


class _Target(BaseHTTPRequestHandler):
    heads: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.heads.append(str(self.headers["traceparent"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Write nothing."""


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def _real_collector(binary: str, folder: Path, onward: str) -> Iterator[str]:
    """Run a collector that sends on what it takes; yield its address."""
    port = _free_port()
    config = folder / "collector.yaml"
    config.write_text(_CONFIG.format(port=port, url=onward))
    with (folder / "collector.log").open("w") as log:
        process = subprocess.Popen([binary, "--config", str(config)], stdout=log, stderr=log)
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None:
                    break
                time.sleep(0.1)
            if process.poll() is not None:
                raise SystemExit(f"the collector does not start:\n{(folder / 'collector.log').read_text()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def _target() -> Iterator[int]:
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), _Target)
    Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        yield receiver.server_address[1]
    finally:
        receiver.shutdown()
        receiver.server_close()


def _carry_out(folder: Path, otlp: str, port: int) -> str:
    """Have the runs carried out; return what the command was told of its span."""
    (folder / "app.py").write_text(_APP)
    options = ("--otlp", otlp, "--callback-allow", f"127.0.0.1:{port}", "--allow-shell")
    with (
        server("--data", "data", "--slots", 0, *options, cwd=folder) as (host, url),
        running("worker", "app:app", "--server", url, *options, cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        for job in (
            {"name": "notify", "callback_url": f"http://127.0.0.1:{port}/hook"},
            {"name": "export", "command": _COMMAND, "shell": True},
        ):
            httpx.post(f"{url}/api/v1/jobs", json=job).raise_for_status()
        done = run(
            *("job", "run", "pay", "--payload", '{"order": 7}', "--traceparent", _SHOP),
            *("--wait", 120, "--json", "--server", url),
            cwd=folder,
        )
        assert done.returncode == 0, done
        app = App(url)
        children = [app.wait_for_sync(child, 120) for child in json.loads(done.stdout)["result"].split()]
        app.close()
        assert [child.status for child in children] == ["SUCCEEDED"] * 2, children
        assert (worker.stop(), host.stop()) == (0, 0)
        return str(children[1].output).strip()


def _label(span: Received) -> str:
    job = span.attributes.get("mainspring.job")
    return f"{span.name} {job}" if span.name in _NAMED and job != "pay" else span.name


def check(spans: list[Received], heads: list[str], told: str) -> list[str]:
    """Return what is wrong with a trace; nothing if all is right.

    Args:
        heads: what the target was told of the spans that it was called in.
        told: the same of the command.
    """
    found = {span.span_id: span for span in spans}
    wrong = [f"{span.name} is in another trace" for span in spans if span.trace_id != _SHOP.split("-")[1]]
    labels = [_label(span) for span in spans]
    wrong += [f"there is no {step}" for step in EXPECTED if step not in labels]
    if labels.count("attempt pay") != 2:
        wrong.append(f"there are {labels.count('attempt pay')} spans of attempts of pay, not 2")
    for span in spans:
        above = found.get(span.parent_id)
        name = (
            "shop" if span.parent_id == _SHOP.split("-")[2] else "nothing" if above is None else _label(above)
        )
        if EXPECTED.get(_label(span), name) != name:
            wrong.append(f"{_label(span)} hangs on {name}, not on {EXPECTED[_label(span)]}")
    for name, given in {"callback": heads, "attempt export": [told]}.items():
        own = [f"00-{span.trace_id}-{span.span_id}-01" for span in spans if span.name == name]
        if own != given:
            wrong.append(f"the trace context that {name} passed on was {given}, not {own}")
    return wrong


def show(spans: list[Received], parent: str, depth: int = 0) -> None:
    """Print the spans below a parent as a tree, with how long each took."""
    for span in sorted(spans, key=lambda one: one.began):
        if span.parent_id == parent:
            took = (span.ended - span.began) / 10**6
            error = f"  ERROR {span.attributes.get('error.type')}" if span.is_error else ""
            sys.stdout.write(f"{'   ' * depth}{span.name:<{30 - 3 * depth}}{took:10.1f} ms{error}\n")
            show(spans, span.span_id, depth + 1)


def main() -> int:
    """Carry it out. Exit 1 if something about the trace is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collector", required=True, help="the program of a collector")
    binary = parser.parse_args().collector
    with tempfile.TemporaryDirectory() as name, collector() as received:
        folder = Path(name)
        with _target() as port, _real_collector(binary, folder, received.url) as otlp:
            told = _carry_out(folder, otlp, port)
            received.wait_for(
                "submit", "queue", *(step for step in EXPECTED if step.split()[0] not in _NAMED)
            )
            received.wait_for_metrics("mainspring_spans_total")
    show(received.spans, _SHOP.split("-")[2])
    wrong = check(received.spans, _Target.heads, told)
    sys.stdout.write("\n".join(["", *(wrong or ["every span hangs where it should; figures came, too"]), ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
