"""What Prometheus reads from real servers and workers: at the API, and at a port of its own."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainspring import App
from tests.processes.processes import await_that, run, running, server

_APP = """
from mainspring import App
from prometheus_client import Counter

app = App()
paid = Counter("orders_paid", "Orders paid.")


@app.job(retry={"max_retries": 0}, queue="orders")
def pay(order: int) -> None:
    if order < 0:
        raise ValueError("no such order")
    paid.inc()
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def read(url: str, **headers: str) -> dict[tuple[str, ...], float]:
    """Return every sample, by its name and the values of its labels."""
    answer = httpx.get(url, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def is_loop_looked_at(url: str) -> bool:
    return read(url)["mainspring_loop_lag_seconds_count",] > 0


def test_servers_and_workers_are_measured(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    ports = [free_port(), free_port()]
    arguments = ("--data", "data", "--slots", "0", "--metrics-port", ports[0])
    with server("app:app", *arguments, cwd=tmp_path) as (_, url):
        with running(
            "worker", "app:app", "--server", url, "--metrics-port", ports[1], cwd=tmp_path
        ) as worker:
            worker.wait_for("ready")
            app = App(url)
            handles = app.submit_sync("pay", [{"order": order} for order in (1, 2, -1)])
            assert [handle.wait_sync(30).status for handle in handles].count("FAILED") == 1
            app.close()
            of_worker = f"http://127.0.0.1:{ports[1]}/metrics"
            assert read(of_worker)["orders_paid_total",] == 2
            await_that(
                "reported", lambda: read(of_worker).get(("mainspring_worker_reports_total", "applied")) == 3
            )
            assert "mainspring_worker_slots" in {name for name, *_ in read(of_worker)}
            for place in (of_worker, f"{url}/metrics"):
                await_that("looked at", partial(is_loop_looked_at, place))
        own, of_api = read(f"http://127.0.0.1:{ports[0]}/metrics"), read(f"{url}/metrics")
        assert own["mainspring_runs_submitted_total", "manual", "orders", "default"] == 3
        assert own["mainspring_shards_owned",] == of_api["mainspring_shards_owned",] == 256
        assert [value for (name, *_), value in own.items() if name == "mainspring_build_info"] == [1]
        assert of_api["mainspring_http_request_seconds_count", "submit_runs", "200"] == 1
        # The census is taken each fifteen seconds; what it counts names queues.
        dead = ("mainspring_dead_runs", "orders", "default")
        await_that("counted", lambda: read(f"{url}/metrics").get(dead) == 1)
        assert read(f"{url}/metrics")["mainspring_clocks_overdue",] == 0
        assert all("orders" not in name for name in httpx.get(f"{url}/health").json()["figures"])
        assert "dead letters  1 open; see mainspring dead groups" in run("status", "--server", url).stdout
        assert run("status", "--json", "--server", url).stdout.count('"dead_letters": 1') == 1


def test_a_page_of_another_site_reads_no_figures(tmp_path: Path) -> None:
    port = free_port()
    with server("--data", "data", "--metrics-port", port, cwd=tmp_path):
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/metrics", headers={"Host": "evil.example"}).status_code == 403
        assert httpx.get(f"{url}/metrics", headers={"Origin": "https://evil.example"}).status_code == 403
        assert httpx.get(f"{url}/api/v1/jobs").status_code == 404
        assert httpx.post(f"{url}/metrics").status_code == 405


@pytest.mark.parametrize("command", ["server", "worker"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, command: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        arguments = {
            "server": ("--data", "data", "--port", "0"),
            "worker": ("--server", "http://127.0.0.1:1"),
        }
        done = run(command, *arguments[command], "--metrics-port", port, cwd=tmp_path)
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert "--metrics-port" in done.stderr
    assert "Traceback" not in done.stderr
