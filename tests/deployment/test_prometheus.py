"""A real Prometheus reads a real server and worker: every rule and panel has its data."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest

from mainspring import App
from mainspring.sdk.submit_options import SubmitOptions
from tests.deployment.prometheus import (
    DASHBOARDS,
    Prometheus,
    filled_in,
    free_port,
    panels_of,
    prometheus,
    promtool,
    queries_of,
    read_dashboard,
    read_rules,
)
from tests.processes.processes import await_that, running, server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # processes start, on a host that may be busy
    pytest.mark.xdist_group("prometheus"),  # they share the processes
]
_APP = """
from mainspring import App
from mainspring.sdk.submit_options import SubmitOptions

app = App()


@app.job(queue="orders", retry={"max_retries": 0})
def pay(order: int) -> None:
    if order < 0:
        raise ValueError("no such order")


@app.job(every="1s", metrics=True)
def tick() -> None:
    pass
"""
_SIGNALS = (
    "mainspring_dead_runs > 0",
    'sum(rate(mainspring_runs_ended_total{state="FAILED"}[5m])) > 0',
    'sum(rate(mainspring_worker_reports_total{outcome="applied"}[5m])) > 0',
    "sum(rate(mainspring_fire_lag_seconds_count[5m])) > 0",
    "mainspring:run_start_lag_seconds:p99_5m >= 0",
    "mainspring:attempt_duration_seconds:p99_5m >= 0",
    "mainspring:runs_failed:ratio15m > 0",
    "mainspring:loop_lag_seconds:p99_5m >= 0",
    "mainspring:http_request_seconds:p99_5m >= 0",
    "mainspring:queue_oldest_seconds:max >= 0",
    "mainspring:store_call_seconds:p99_5m >= 0",
    "mainspring_ledger_missing == 0",
    'rate(mainspring_job_runs_total{job_name="tick", state="SUCCEEDED"}[5m]) > 0',
    'time() - mainspring_job_last_success_timestamp_seconds{job_name="tick"} < 60',
)
"""What is there when everything has been read at least twice, and the census was taken."""

_QUIET = {
    ("mainspring-overview", "Alerts"),
    ("mainspring-scheduler", "Alerts that fire"),
    ("mainspring-scheduler", "Events that were sent"),  # as none was
    ("mainspring-scheduler", "Hints between processes"),  # not on SQLite
    ("mainspring-scheduler", "Monitors that are down"),
    ("mainspring-workers", "Output kept of runs under way"),  # no run takes long enough
    ("mainspring-scheduler", "Pings of the outer monitor"),  # without one
    ("mainspring-scheduler", "Requests denied"),
    ("mainspring-scheduler", "Requests with errors"),
    ("mainspring-scheduler", "Spans of traced runs"),  # without a collector
    ("mainspring-scheduler", "Rows archived"),  # without an archive
    ("mainspring-scheduler", "Oldest day that is not archived"),
    ("mainspring-scheduler", "Failures of the archive"),
    ("mainspring-scheduler", "Secrets in Vault that were not read"),  # without a secret there
}
"""Panels that may be empty while nothing is wrong."""


class Measured:
    """A Prometheus that has read a server and a worker, and their ports."""

    def __init__(self, found: Prometheus, ports: list[int]) -> None:
        self.prometheus = found
        self.ports = ports


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("measured")
    (folder / "shop.py").write_text(_APP)
    ports = [free_port(), free_port()]
    with (
        prometheus(folder, ports) as found,
        server("shop:app", "--data", "data", "--slots", 0, "--metrics-port", ports[0], cwd=folder) as (
            _,
            url,
        ),
        running("worker", "shop:app", "--server", url, "--metrics-port", ports[1], cwd=folder) as worker,
    ):
        worker.wait_for("ready")
        await_that("both are read", lambda: found.has("sum(up) == 2"))
        with contextlib.closing(App(url)) as app:
            for handle in app.submit_sync("pay", [{"order": order} for order in (1, 2, -1, -2)]):
                handle.wait_sync(60)
            await_that("failures are read", lambda: found.has('mainspring_runs_ended_total{state="FAILED"}'))
            # One that fails, and one in a week, so that the census finds something that waits.
            app.submit_sync("pay", [{"order": -3}])[0].wait_sync(60)
            app.submit_sync("pay", [{"order": 4}], SubmitOptions(delay=timedelta(days=7)))
            for signal in _SIGNALS:
                await_that(signal, partial(found.has, signal))
            yield Measured(found, ports)


def test_prometheus_has_nothing_to_say_against_the_figures(measured: Measured) -> None:
    for port in measured.ports:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        assert "mainspring_build_info" in text
        done = promtool("check", "metrics", text=text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_rule_is_evaluated(measured: Measured) -> None:
    groups = httpx.get(f"{measured.prometheus.url}/api/v1/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert sorted(rule["name"] for rule in rules) == sorted(rule.name for rule in read_rules())
    assert [rule["name"] for rule in rules if rule["health"] != "ok" or rule.get("lastError")] == []
    empty = [
        rule.name for rule in read_rules() if not rule.is_alert and not measured.prometheus.query(rule.expr)
    ]
    assert empty == []


def test_no_alert_is_on_its_way_but_that_runs_fail(measured: Measured) -> None:
    assert measured.prometheus.firing() <= {"MainspringRunsFail"}


@pytest.mark.parametrize("path", DASHBOARDS, ids=[path.stem for path in DASHBOARDS])
def test_every_panel_has_its_data(measured: Measured, path: Path) -> None:
    empty = {
        (path.stem, panel["title"])
        for panel in panels_of(read_dashboard(path))
        for expr in queries_of(panel)
        if not measured.prometheus.query(filled_in(expr))
    }
    assert empty - _QUIET == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=[path.stem for path in DASHBOARDS])
def test_every_variable_has_choices(measured: Measured, path: Path) -> None:
    for variable in read_dashboard(path)["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable.get("definition", ""))
        assert (found is None) == (variable["type"] == "datasource")
        if found is not None:
            series = measured.prometheus.query(filled_in(found[1]))
            assert {one["metric"].get(found[2]) for one in series} - {None, ""}, variable["name"]
