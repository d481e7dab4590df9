"""How far requests of a tenant reached in other schedulers, tried on a real server: addresses, roles, other tenants."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes.processes import await_that
from tests.security.tenants import FOREIGN, OWN, Tenants, two_tenants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with two_tenants(tmp_path_factory.mktemp("server"), "--allow-shell") as tenants:
        yield tenants


def send(tenants: Tenants, role: str, method: str, path: str, body: Any = None) -> httpx.Response:
    """Ask with the token of a role, without expecting anything."""
    headers = {"Authorization": f"Bearer {tenants.tokens[role]}"}
    return httpx.request(method, f"{tenants.url}/api/v1/{path}", json=body, headers=headers, timeout=60)


def status_of(tenants: Tenants, run_id: str) -> str:
    status: str = send(tenants, "viewer", "GET", f"runs/{run_id}").json()["status"]
    return status


@contextmanager
def internal_service() -> Iterator[tuple[int, list[str]]]:
    """A service that only this machine should reach; yield its port, and who came."""
    came: list[str] = []
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:

        def take() -> None:
            while True:
                try:
                    link, address = listener.accept()
                except OSError:
                    return
                came.append(str(address))
                link.close()

        taking = threading.Thread(target=take, daemon=True)
        taking.start()
        yield listener.getsockname()[1], came
        listener.shutdown(socket.SHUT_RDWR)
        taking.join(10)


HOSTS = (
    *("127.0.0.1", "localhost", "0.0.0.0", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::1]", "[::]"),
    *("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]"),
)


def test_no_callback_and_no_channel_reaches_this_machine(tenants: Tenants) -> None:
    """CVE-2020-17513 (Airflow), CVE-2022-43183 (XXL-JOB): SSRF."""
    with internal_service() as (port, came):
        runs = []
        for number, host in enumerate(HOSTS):
            for scheme in ("http", "https"):
                url = f"{scheme}://{host}:{port}/secret"
                body = {"name": f"reach {scheme} {number}", "callback_url": url, "retry": {"max_retries": 0}}
                made = send(tenants, "editor", "POST", "jobs", body)
                if made.status_code == 201:
                    run = send(tenants, "editor", "POST", f"jobs/{made.json()['job_id']}/runs", {})
                    runs.append(run.json()["run_id"])
                else:
                    assert made.status_code == 422, made.text
                channel = {"kind": "webhook", "config": {"url": url}}
                name = f"reach-{scheme}-{number}"
                if send(tenants, "editor", "PUT", f"channels/{name}", channel).is_success:
                    tried = send(tenants, "editor", "POST", f"channels/{name}/test")
                    assert tried.status_code == 429 or tried.json()["delivered"] is False, tried.text
        await_that("all have failed", lambda: all(status_of(tenants, run) == "FAILED" for run in runs))
        assert came == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "jdbc:mysql://127.0.0.1/x?autoDeserialize=true",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "unix:///run/postgresql/.s.PGSQL.5432",
        "postgresql://mainspring@127.0.0.1/mainspring",
        "ftp://127.0.0.1/x",
        "//127.0.0.1/x",
        "http://user@127.0.0.1\\@example.com/",
    ],
)
def test_what_is_no_web_address_is_refused(tenants: Tenants, url: str) -> None:
    """CVE-2020-11974, CVE-2023-49109, CVE-2024-43202, CVE-2023-51770 (DolphinScheduler): data sources of users."""
    job = send(tenants, "editor", "POST", "jobs", {"name": "data source", "callback_url": url})
    channel = {"kind": "webhook", "config": {"url": url}}
    for answer in (job, send(tenants, "editor", "PUT", "channels/source", channel)):
        assert answer.status_code == 422, answer.text
        assert "root:" not in answer.text


@pytest.mark.parametrize(
    "rule",
    [
        {"unique": {"key": "__import__('os').system('touch {trap}')"}},
        {"unique": {"key": "$.x[?(@.constructor.constructor('return process')())]"}},
        {"concurrency": {"key": "$.{{{{1237*1237}}}}", "max_running": 1}},
        {"debounce": {"key": "$.`touch {trap}`", "wait": "1m"}},
        {
            "throttle": {
                "key": "$.${{T(java.lang.Runtime).getRuntime().exec('touch {trap}')}}",
                "rate": "1/1m",
            }
        },
    ],
)
def test_no_rule_of_a_job_is_a_program(tenants: Tenants, tmp_path: Path, rule: dict[str, Any]) -> None:
    """CVE-2023-49299, CVE-2024-23320 (DolphinScheduler): conditions were JavaScript without a sandbox."""
    trap = tmp_path / "trap"
    [(option, settings)] = rule.items()
    filled = {name: text.format(trap=trap) if name == "key" else text for name, text in settings.items()}
    made = send(tenants, "editor", "POST", "jobs", {"name": "rule", "function": "work", option: filled})
    if made.status_code == 201:  # it is a key like any other text
        path = f"jobs/{made.json()['job_id']}/runs"
        run_id = send(tenants, "editor", "POST", path, {"payload": {"x": "y"}}).json()["run_id"]
        await_that("it has run", lambda: status_of(tenants, run_id) == "SUCCEEDED")
    else:
        assert made.status_code == 422, made.text
    assert "1530169" not in made.text
    assert not trap.exists()


def test_who_may_look_may_not_act_and_who_may_act_may_not_define(tenants: Tenants) -> None:
    """CVE-2023-48087 to -48089 (XXL-JOB), GHSA-phmw-jx86-x666 and CVE-2026-92763 (Rundeck): rights were not asked."""
    job, run = tenants.own["job_id"], tenants.own["run_id"]
    command = {"name": "evil", "command": ["id"], "every": "1h"}
    define: list[tuple[str, str, Any]] = [
        ("POST", "jobs", command),
        ("POST", "jobs/bulk", {"jobs": [command]}),
        ("PATCH", f"jobs/{job}", {"payload": {"x": 1}}),
        ("DELETE", f"jobs/{job}", None),
        ("PUT", "owners/files", {"jobs": [command]}),
        ("PUT", "channels/evil", {"kind": "webhook", "config": {"url": "https://evil.example"}}),
        ("PUT", "alert-rules/evil", {"kind": "dead_letters", "threshold": 1}),
        ("PUT", "monitors/evil", {"every": "1d"}),
        ("PUT", "slos/evil", {"kind": "success", "objective": 99}),
        ("PUT", "calendars/holidays", {"rules": []}),
        ("POST", "worker/register", {"protocol": 2, "name": "evil"}),
    ]
    act: list[tuple[str, str, Any]] = [
        ("POST", f"jobs/{job}/runs", {}),
        ("POST", f"jobs/{job}/pause", None),
        ("POST", f"jobs/{job}/backfills", {"from": "2025-01-01T00:00Z", "to": "2025-01-02T00:00Z"}),
        ("POST", f"runs/{run}/redrive", {}),
        ("POST", f"runs/{run}/cancel", None),
        ("POST", "redrives", {"filter": {}}),
        ("POST", "dead-runs/discard", {"filter": {}, "reason": "x"}),
        ("POST", "silences", {"period": "1d", "reason": "x"}),
    ]
    administer: list[tuple[str, str, Any]] = [
        *(("GET", path, None) for path in ("audit", "accounts", "archive/days", "logging")),
        ("PUT", "logging", {"level": "debug", "duration": "1m"}),
        ("PUT", "accounts/evil", {"grants": {"*": "admin"}}),
    ]
    for role, forbidden in (
        ("viewer", [*define, *act, *administer]),
        ("operator", [*define, *administer]),
        ("editor", administer),
    ):
        for method, path, body in forbidden:
            answer = send(tenants, role, method, path, body)
            assert answer.status_code == 403, f"{role} {method} {path}: {answer.status_code} {answer.text}"
    for scoped in ("alerts", "alert-rules", "channels", "silences", "capacity", "usage", "overview"):
        answer = send(tenants, "editor", "GET", f"{scoped}?scope=cluster")
        assert answer.status_code in {403, 422}, f"{scoped}: {answer.text}"


def test_no_alert_tells_of_another_tenant(tenants: Tenants) -> None:
    """CVE-2026-42357, CVE-2026-47340 (DolphinScheduler): workflows and alerts of other projects."""
    rule = {"kind": "dead_letters", "threshold": 0, "hold": "0s"}
    tenants.ask("PUT", f"alert-rules/{tenants.canary}", tenant=FOREIGN, json=rule)
    assert send(tenants, "editor", "PUT", "alert-rules/mine", rule).is_success

    def alerts(tenant: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = tenants.ask("GET", "alerts", tenant=tenant)["items"]
        return found

    await_that("both have an alert", lambda: alerts(FOREIGN) and alerts(OWN))
    for role in tenants.tokens:
        told = send(tenants, role, "GET", "alerts")
        assert tenants.canary not in told.text
        assert {one["tenant"] for one in told.json()["items"]} == {OWN}
    for alert in alerts(FOREIGN):
        path = f"alerts/{alert['alert_id']}/acknowledge"
        assert send(tenants, "editor", "POST", path).status_code == 404
    assert {alert["acknowledged_by"] for alert in alerts(FOREIGN)} == {None}


def test_labels_of_figures_are_bounded(tenants: Tenants) -> None:
    """airflow#29663, hatchet#4576: who names queues could fill the memory of who measures."""
    names = [f"series-{number}" for number in range(260)]
    for path, items in (
        ("jobs/bulk", [{"name": name, "function": "work", "queue": name} for name in names]),
        ("runs/bulk", [{"job": name} for name in names]),
    ):
        made = send(tenants, "editor", "POST", path, items)
        assert made.is_success, made.text
    headers = {"Authorization": f"Bearer {tenants.admin}"}
    told = httpx.get(f"{tenants.url}/metrics", headers=headers, timeout=60).text
    of_queues = [line for line in told.splitlines() if line.startswith("mainspring_runs_submitted_total{")]
    queues = {found for line in of_queues for found in re.findall(r'queue="([^"]*)"', line)}
    assert 1 < len(queues) <= 201, len(queues)
    assert '"_other"' in "".join(of_queues)
