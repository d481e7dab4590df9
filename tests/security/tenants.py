"""A server with two tenants: one whose tokens the attackers have, and one that has canaries wherever it can."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.processes.processes import await_that, server

APP = """
from mainspring import App, current_attempt

app = App(name="ledger")


@app.job()
def work(text: str = "", **_: object) -> str:
    return text


@app.job()
def keep(event: dict) -> None:
    text = event["data"]["text"]
    print(text, flush=True)
    current_attempt().artifact_sync(f"{text}.txt", text.encode())


@app.job()
def fail(text: str = "", **_: object) -> None:
    raise RuntimeError(text)
"""
OWN, FOREIGN = "shop", "bank"
ROLES = ("viewer", "operator", "editor")
LIVE = ("PENDING", "RUNNING", "RETRYING")


SETTINGS = """
[artifacts]
url = "{}"
"""


@dataclass(frozen=True, slots=True)
class Tenants:
    """The server and what is known of it.

    Attributes:
        admin: the administrator's token.
        tokens: one of each role, for tenant `shop` alone.
        canary: a text that only tenant `bank` has; no request of tenant `shop` holds it.
        own, foreign: ids of what each tenant has, by the name of the path's parameter.
    """

    url: str
    admin: str
    tokens: dict[str, str]
    canary: str
    own: dict[str, str]
    foreign: dict[str, str]

    def ask(self, method: str, path: str, *, tenant: str = FOREIGN, **given: Any) -> Any:
        """Return what an operation answers the administrator; it must be a success."""
        return _ask(self.url, self.admin, method, path, tenant=tenant, **given)

    def read(self, method: str, path: str, *, tenant: str = FOREIGN) -> str:
        """Return the text that an operation answers the administrator; it must be a success."""
        return _request(self.url, self.admin, method, path, tenant=tenant).text

    def rows_of_foreign(self) -> dict[str, Any]:
        """Return all that tenant `bank` has."""
        files = self.ask("GET", f"runs/{self.foreign['kept']}/artifacts")["items"]
        logs = self.read("GET", f"runs/{self.foreign['kept']}/logs")
        lists = (
            "events",
            "jobs",
            "runs",
            "dead-runs",
            "calendars",
            "limits",
            "backfills",
            "redrives",
            "ledger",
        )
        whole = ("channels", "alert-rules", "silences", "monitors")
        shared = {f"blackouts of {FOREIGN}": self.ask("GET", f"tenants/{FOREIGN}/blackouts")}
        shared |= {name: self.ask("GET", name)["items"] for name in whole}
        shared |= {"files": files, "logs": logs}
        return shared | {name: self.ask("GET", name, params={"limit": 1000})["items"] for name in lists}


@contextlib.contextmanager
def two_tenants(folder: Path, *options: object, store: str = "memory://") -> Iterator[Tenants]:
    """Start a server with the two tenants in a folder."""
    (folder / "ledger.py").write_text(APP)
    (folder / "files").mkdir()
    (folder / "mainspring.toml").write_text(SETTINGS.format(folder / "files"))
    with server("ledger:app", "--store", store, *options, cwd=folder) as (_, url):
        made = httpx.post(f"{url}/api/v1/tokens", json={"name": "first", "role": "admin", "account": "root"})
        admin = made.json()["token"]
        canary = f"canary-{secrets.token_hex(8)}"
        own = _furnish(url, admin, OWN, "mine")
        foreign = _furnish(url, admin, FOREIGN, canary)
        tokens = {role: make_token(url, admin, role, OWN) for role in ROLES}
        yield Tenants(url, admin, tokens, canary, own, foreign)


def _ask(url: str, token: str, method: str, path: str, *, tenant: str, **given: Any) -> Any:
    answer = _request(url, token, method, path, tenant=tenant, **given)
    return answer.json() if answer.content else None


def _request(url: str, token: str, method: str, path: str, *, tenant: str, **given: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}", "Mainspring-Tenant": tenant}
    answer = httpx.request(method, f"{url}/api/v1/{path}", headers=headers, timeout=60, **given)
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer


def make_token(url: str, admin: str, role: str, tenant: str) -> str:
    _ask(url, admin, "PUT", f"accounts/{tenant}-{role}", tenant=tenant, json={"grants": {tenant: role}})
    body = {"name": "laptop", "role": role, "account": f"{tenant}-{role}"}
    text: str = _ask(url, admin, "POST", "tokens", tenant=tenant, json=body)["token"]
    return text


def _watch(ask: Callable[..., Any], text: str) -> None:
    """Give a tenant what watches its jobs, and those that run elsewhere."""
    for name in ("ops", text):
        channel = {"kind": "webhook", "config": {"url": f"https://hooks.invalid/{text}"}}
        ask("PUT", f"channels/{name}", json=channel)
        ask("PUT", f"alert-rules/{name}", json={"kind": "dead_letters", "threshold": 1000})
        ask("PUT", f"monitors/{name}", json={"every": "1d"})
    ask("POST", "silences", json={"period": "30d", "reason": text})


def _furnish(url: str, admin: str, tenant: str, text: str) -> dict[str, str]:
    """Give a tenant something of each kind, with a text wherever one may stand that no request needs to hold."""

    def ask(method: str, path: str, **given: Any) -> Any:
        return _ask(url, admin, method, path, tenant=tenant, **given)

    payload = {"text": text}
    ids = {"tenant": tenant, "owner": "files", "calendar": "holidays", "limit": "crm", "class": "normal"}
    ids |= {"channel": "ops", "rule": "ops", "monitor": "ops"}
    ask("PUT", "calendars/holidays", json={"rules": [{"yearly": "12-25"}]})
    ask("PUT", f"calendars/{text}", json={"rules": [{"yearly": "12-24"}]})
    ask("PUT", "limits/crm", json={"max_running": 3})
    ask("PUT", f"limits/{text}", json={"max_running": 3})
    common = {"cron": "0 0 2 11 *", "queue": tenant, "payload": payload, "retry": {"max_retries": 0}}
    job = ask("POST", "jobs", json={"name": "report", "function": "work", **common})
    broken = ask("POST", "jobs", json={"name": text, "function": "fail", **common})
    ids["job_id"] = job["job_id"]
    ids["run_id"] = ask("POST", f"jobs/{job['job_id']}/runs", json={"payload": payload})["run_id"]
    lost = ask("POST", f"jobs/{broken['job_id']}/runs", json={"payload": payload})["run_id"]
    ask("POST", "jobs", json={"name": "keeper", "function": "keep", "on_event": text, "queue": tenant})
    event = {"topic": text, "key": text, "id": text, "data": payload}
    [ids["kept"]] = ask("POST", "events", json=event)["run_ids"]
    ended = ((ids["run_id"], "SUCCEEDED"), (lost, "FAILED"), (ids["kept"], "SUCCEEDED"))
    for run_id, state in ended:
        await_that(f"{run_id} is {state}", lambda: ask("GET", f"runs/{run_id}")["status"] == state)  # noqa: B023
    [file] = ask("GET", f"runs/{ids['kept']}/artifacts")["items"]
    ids["artifact_id"] = file["artifact_id"]
    span = {"from": "2025-11-01T00:00Z", "to": "2025-11-03T00:00Z"}
    made = ask("POST", f"jobs/{job['job_id']}/backfills", json=span)
    ids["backfill_id"] = made["backfill"]["backfill_id"]
    done = ask("POST", "redrives", json={"filter": {"run_ids": [lost]}, "rate": 1000})
    ids["redrive_id"] = done["redrive"]["redrive_id"]
    ids["dead"] = lost
    _watch(ask, text)
    for path in (f"backfills/{ids['backfill_id']}", f"redrives/{ids['redrive_id']}"):
        await_that(f"{path} is over", lambda: ask("GET", path)["closed_at"])  # noqa: B023
    for state in LIVE:
        await_that(f"no run is {state}", lambda: not ask("GET", "runs", params={"state": state})["items"])  # noqa: B023
    ask(
        "PUT",
        f"tenants/{tenant}/blackouts",
        json={"items": [{"calendar": "holidays", "mode": "hold", "note": text}]},
    )
    return ids
