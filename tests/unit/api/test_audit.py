"""The audit over HTTP: each operation that changes something says who did it, and no other does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.core.alerting import Verdict
from mainspring.core.alerts import Alert
from mainspring.core.notifications import AlertState, Severity
from mainspring.core.rights import Right
from mainspring.engine.usecases.logins import Logins
from mainspring.login.passwords import Argon2Hasher
from mainspring.ports.store.alerts import AlertsSaved
from mainspring.registry import FunctionRegistry
from mainspring.testing.conformance.alerts import save_verdict
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.operations import OPERATIONS
from tests.unit.api.asgi import api_of, client_of

AUDIT = "/api/v1/audit"
NOT_AUDITED = {
    *("submit_run", "submit_runs", "run_job_now"),  # submissions: a run says itself what it is of
    *("send_event", "send_events"),  # an event says itself what has happened
    *("diff_jobs", "preview_trigger", "check_workflow", "test_channel"),  # they change nothing
    "set_logging",  # of one process, for a while; its log says who asked for it
}
"""Operations that are no reads by their methods, and write nothing into the audit."""


@pytest.fixture
async def runtime() -> Any:
    def work(error: str = "boom") -> None:
        raise ValueError(error)

    registry = FunctionRegistry()
    registry.add("work", work)
    async with ManualRuntime(registry) as runtime:
        yield runtime


@pytest.fixture
async def http(runtime: ManualRuntime) -> Any:
    identities = runtime._engine.identities
    await identities.refresh()
    hasher = Argon2Hasher()
    sign_in = Logins(
        runtime.store, clock=runtime.clock, ids=IdSequence(2000), hasher=hasher, lasts=timedelta(hours=12)
    )
    async with client_of(api_of(runtime, identities=identities, sign_in=sign_in)) as client:
        yield client
    hasher.close()


async def entries(http: AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await http.get(AUDIT, params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


class Caller:
    """Makes requests, and notes which operation each is of."""

    def __init__(self, http: AsyncClient, runtime: ManualRuntime) -> None:
        self.http, self.runtime = http, runtime
        self.called: list[str] = []

    async def __call__(self, operation: str, key: str | None = None, body: Any = None) -> Any:
        """Call an operation, which has to write one entry, and return its answer."""
        [one] = [each for each in OPERATIONS if each.id == operation]
        before = await entries(self.http)
        content = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
        headers = {"content-type": "text/calendar"} if isinstance(body, bytes) else {}
        url = one.url(key) if one.variable is not None else one.url()
        answer = await self.http.request(one.method, url, headers=headers, **content)
        assert answer.is_success, f"{operation}: {answer.text}"
        if operation == "make_token":  # from now on, nobody is answered without one
            self.http.headers["Authorization"] = f"Bearer {answer.json()['token']}"
        after = await entries(self.http)
        new = after[: len(after) - len(before)]
        assert {entry["action"] for entry in new} == {operation}, operation
        assert {entry["request_id"] for entry in new} == {answer.headers["x-request-id"]}
        self.called.append(operation)
        return answer.json() if answer.content else None

    async def bury(self, job: str) -> str:
        """Have a run of a job fail for good."""
        answer = await self.http.post("/api/v1/runs/bulk", json=[{"job": job}])
        worker = await self.runtime.worker()
        while await worker.work():
            pass
        run_id: str = answer.json()[0]["run_id"]
        return run_id

    async def change_jobs(self) -> None:
        made = await self("create_job", body={"name": "one", "function": "work", "cron": "0 9 * * *"})
        await self(
            "create_jobs", body=[{"name": "two", "function": "work"}, {"name": "three", "function": "work"}]
        )
        await self("upsert_job", body={"name": "two", "function": "work", "queue": "mail"})
        await self("apply_jobs", body=[{"name": "four", "function": "work"}])
        await self("apply_definitions", body={"jobs": [{"name": "five", "function": "work"}]})
        await self("upsert_owner", "shop", {"jobs": ["five"]})
        job_id = made["job_id"]
        await self("edit_job", job_id, {"queue": "mail"})
        await self("replace_job", job_id, {"name": "one", "function": "work", "cron": "0 8 * * *"})
        await self("pause_job", job_id)
        await self("resume_job", job_id)
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-04T00:00:00Z"}
        backfill = (await self("create_backfill", job_id, body))["backfill"]["backfill_id"]
        for change in ("pause", "resume", "cancel"):
            await self(f"{change}_backfill", backfill)
        await self("delete_job", job_id)

    async def change_runs(self) -> None:
        job = {"name": "fails", "function": "work", "retry": {"max_retries": 0}}
        await self.http.put("/api/v1/jobs", json=job)
        await self("redrive_run", await self.bury("fails"), {})
        await self.bury("fails")
        body = {"filter": {"job": "fails"}, "rate": 1}
        redrive = (await self("start_redrive", body=body))["redrive"]["redrive_id"]
        for change in ("pause", "resume", "cancel"):
            await self(f"{change}_redrive", redrive)
        await self("discard_dead_runs", body={"filter": {"job": "fails"}, "reason": "gone"})
        answer = await self.http.post("/api/v1/runs/bulk", json=[{"job": "fails"}])
        await self("cancel_run", answer.json()[0]["run_id"])
        steps = [{"name": "one", "function": "work"}, {"name": "two", "function": "work", "after": ["one"]}]
        await self.http.put("/api/v1/jobs", json={"name": "flow", "workflow": {"steps": steps}})
        answer = await self.http.post("/api/v1/runs/bulk", json=[{"job": "flow"}])
        run_id = answer.json()[0]["run_id"]
        await self.runtime.tick("flow_starts")
        await self("pause_run", run_id)
        await self.runtime.tick("flows")
        await self("resume_run", run_id)
        await self("skip_run_steps", run_id, {"steps": ["two"]})
        await self.answer_steps()

    async def answer_steps(self) -> None:
        steps: list[dict[str, Any]] = [
            {"name": name, "wait": {"approval": {}}} for name in ("yes", "no", "done")
        ]
        steps.append({"name": "go", "wait": {"signal": "go"}})
        await self.http.put("/api/v1/jobs", json={"name": "waits", "workflow": {"steps": steps}})
        answer = await self.http.post("/api/v1/runs/bulk", json=[{"job": "waits"}])
        run_id = answer.json()[0]["run_id"]
        await self.runtime.tick("flow_starts")
        await self("approve_run_step", run_id, {"step": "yes", "comment": "fine"})
        await self("reject_run_step", run_id, {"step": "no"})
        await self("complete_run_step", run_id, {"step": "done"})
        await self("send_signal", run_id, {"name": "go"})

    async def change_settings(self) -> None:
        rules = {"tz": "UTC", "rules": [{"date": "2026-12-25"}]}
        await self("upsert_calendar", "holidays", rules)
        ics = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
        await self("import_calendar", "imported", ics)
        for scope, key in (("queue", "mail"), ("tenant", "default"), ("all", None)):
            kind = "" if scope == "all" else f"{scope}_"
            await self(f"upsert_{kind}blackouts", key, {"items": [{"calendar": "holidays"}]})
            await self(f"upsert_{kind}blackouts", key, {"items": []})
            await self(f"pause_{scope}", key, {"note": "moving"})
            await self(f"resume_{scope}", key)
        await self("delete_calendar", "imported")
        await self("upsert_limit", "api", {"max_running": 3})
        await self("delete_limit", "api")
        await self("upsert_priority_class", "batch", {"tier": "LOW"})
        await self("delete_priority_class", "batch")
        await self("upsert_tenant", "acme", {"weight": 2, "max_running": 5})
        await self("upsert_queue", "mail", {"max_queued": 9})
        await self("upsert_label", "gpu", {"max_running": 1})
        await self("delete_label", "gpu")

    async def change_alerts(self) -> None:
        await self(
            "upsert_channel", "ops", {"kind": "webhook", "config": {"url": "https://a.example/secret"}}
        )
        await self("upsert_alert_rule", "many", {"kind": "dead_letters", "channels": ["ops"]})
        silence = await self("add_silence", body={"period": "1h", "reason": "moving"})
        await self("end_silence", str(silence["silence_id"]))
        now = self.runtime.clock.now()
        alert = Alert(
            id=0,
            tenant="default",
            rule_tenant="default",
            rule="many",
            subject="queue:mail",
            state=AlertState.FIRING,
            severity=Severity.WARNING,
            since=now,
            summary="many",
        )
        epochs = self.runtime.ownership.epochs
        assert (
            await save_verdict(self.runtime.store, Verdict(added=(alert,)), epochs=epochs, now=now)
            is AlertsSaved.DONE
        )
        [stored] = await self.runtime.store.list_open_alerts()
        await self("acknowledge_alert", str(stored.id))
        await self("delete_alert_rule", "many")
        made = await self("upsert_monitor", "dump", {"every": "1h"})
        await self("upsert_monitor", "dump", {"every": "2h"})
        await self("upsert_slo", "good", {"kind": "success", "objective": 0.99})
        await self("upsert_slo", "good", {"kind": "success", "objective": 0.9})
        await self("delete_slo", "good")
        found = await entries(self.http, kind="slo", subject="good")
        assert [(one["before"] or {}).get("objective") for one in found] == [0.9, 0.99, None]
        await self("delete_monitor", "dump")
        found = await entries(self.http, kind="monitor", subject="dump")
        assert [one["before"] is None for one in found] == [False, False, True]
        assert made["ping_path"].rpartition("/")[2] not in str(found)
        await self("delete_channel", "ops")
        found = await entries(self.http, kind="channel", subject="ops")
        assert "secret" not in str(found)

    async def sign_ann_in_and_out(self) -> None:
        """Set a password, and begin and end a session with it: none of the entries shows it."""
        body = {"account": "ann", "password": "correct horse battery staple", "cookie": False}
        await self("set_password", "ann", {"password": body["password"]})
        mine = self.http.headers["Authorization"]
        session = (await self("login", body=body))["token"]
        self.http.headers["Authorization"] = f"Bearer {session}"
        assert (await self.http.post("/logout")).status_code == 204
        self.called.append("logout")
        self.http.headers["Authorization"] = mine
        told = await entries(self.http, kind="account", subject="ann")
        assert [entry["action"] for entry in told[:3]] == ["logout", "login", "set_password"]
        assert {entry["actor"] for entry in told[:2]} == {"ann"}
        assert not any(secret in str(told) for secret in (session, "staple", "argon2"))

    async def change_access(self) -> None:
        made = await self("make_token", body={"name": "mine", "role": "admin"})
        [entry, *_] = await entries(self.http, kind="token")
        assert (entry["actor"], entry["actor_kind"]) == ("anybody", "anybody")
        assert made["token"] not in str(entry)
        await self("upsert_account", "ann", {"grants": {"shop": "editor"}})
        await self("upsert_account", "ann", {"grants": {"shop": "viewer"}})
        [entry, *_] = await entries(self.http, kind="account", subject="ann")
        assert (entry["actor_kind"], entry["token"]) == ("account", made["prefix"])
        assert entry["before"] == {"grants": {"shop": "editor"}, "is_disabled": False}
        assert entry["after"] == {"grants": {"shop": "viewer"}, "is_disabled": False}
        await self.sign_ann_in_and_out()
        rotated = await self("rotate_token", made["prefix"])
        [entry] = await entries(self.http, kind="token", subject=rotated["prefix"])
        assert entry["after"]["replaces"] == made["prefix"]
        await self("revoke_token", rotated["prefix"])
        again = await self.http.post(f"/api/v1/tokens/{rotated['prefix']}/revoke")
        assert again.is_success
        assert [entry["action"] for entry in await entries(self.http, kind="token")] == [
            "revoke_token",
            "rotate_token",
            "make_token",
        ]


async def test_every_operation_that_changes_something_writes_an_entry(
    http: AsyncClient, runtime: ManualRuntime
) -> None:
    caller = Caller(http, runtime)
    await caller.change_jobs()
    await caller.change_runs()
    await caller.change_settings()
    await caller.change_alerts()
    await caller.change_access()
    changing = {
        operation.id
        for operation in OPERATIONS
        if operation.method != "GET" and operation.right not in {Right.WORK, Right.PUBLIC}
    }
    assert set(caller.called) - {"login"} == changing - NOT_AUDITED


async def test_an_entry_says_who_changed_what(http: AsyncClient, job: dict[str, Any]) -> None:
    headers = {"x-request-id": "deploy-17"}
    body = {"queue": "mail", "payload": {"password": "hunter2"}}
    await http.patch(f"/api/v1/jobs/{job['job_id']}", json=body, headers=headers)
    [edit, create] = await entries(http, job="report")
    assert {key: edit[key] for key in edit if key not in {"id", "at"}} == {
        "tenant": "default",
        "actor": "anybody",
        "actor_kind": "anybody",
        "token": None,
        "address": "127.0.0.1",
        "request_id": "deploy-17",
        "action": "edit_job",
        "subject_kind": "job",
        "subject_id": job["job_id"],
        "subject_name": "report",
        "outcome": "done",
        "before": {"version": 1, "queue": "default", "payload": None},
        "after": {"version": 2, "queue": "mail", "payload": "***"},
    }
    assert (create["action"], create["before"], create["after"]) == ("create_job", None, {"version": 1})
    assert create["id"] < edit["id"]


@pytest.fixture
async def job(http: AsyncClient) -> dict[str, Any]:
    answer = await http.post("/api/v1/jobs", json={"name": "report", "cron": "0 9 * * *", "function": "work"})
    body: dict[str, Any] = answer.json()
    return body


async def test_what_a_target_is_called_with_is_hidden(http: AsyncClient) -> None:
    made = await http.post(
        "/api/v1/jobs", json={"name": "hook", "callback_url": "https://example.com/a?key=s"}
    )
    job_id = made.json()["job_id"]
    target = {"type": "http", "url": "https://example.com/b", "headers": {"Authorization": "Bearer s"}}
    await http.patch(f"/api/v1/jobs/{job_id}", json={"target": target})
    await http.patch(f"/api/v1/jobs/{job_id}", json={"target": {"type": "function", "function": "work"}})
    [typed, called, _] = await entries(http, job="hook")
    assert typed["before"] == {"version": 2, "target": "http"}
    assert typed["after"] == {"version": 3, "target": "function"}
    assert called["after"]["target.url"] == "***"
    assert "Bearer" not in str(called)


async def test_what_is_refused_or_changes_nothing_has_no_entry(
    http: AsyncClient, job: dict[str, Any]
) -> None:
    path = f"/api/v1/jobs/{job['job_id']}"
    before = await entries(http)
    same = {"name": "report", "cron": "0 9 * * *", "function": "work"}
    assert (await http.post("/api/v1/jobs", json=same)).status_code == 409
    assert (await http.patch(path, json={"queue": 7})).status_code == 422
    assert (await http.patch(f"{path}?version=9", json={"queue": "mail"})).status_code == 409
    assert (await http.put("/api/v1/jobs", json=same)).status_code == 200
    assert (await http.post(f"{path}/resume")).status_code == 200
    assert (await http.delete("/api/v1/limits/none")).status_code == 404
    assert (await http.post("/api/v1/jobs/apply", json=[same])).status_code == 200
    assert await entries(http) == before


async def test_a_deleted_job_is_found_by_its_name_and_one_of_many_too(http: AsyncClient) -> None:
    names = [f"job-{number}" for number in range(3)]
    await http.post("/api/v1/jobs/bulk", json=[{"name": name, "function": "work"} for name in names])
    [found] = (await http.get("/api/v1/jobs", params={"name": "job-1"})).json()["items"]
    [many] = await entries(http, job="job-1")
    assert (many["subject_id"], many["after"]["count"]) == (None, 3)
    await http.delete(f"/api/v1/jobs/{found['job_id']}")
    assert [entry["action"] for entry in await entries(http, job="job-1")] == ["delete_job"]
    by_id = await entries(http, job=found["job_id"])
    assert [entry["action"] for entry in by_id] == ["delete_job", "create_jobs"]


async def test_pages_follow_each_other(http: AsyncClient) -> None:
    for weight in range(1, 6):
        await http.put("/api/v1/tenants/acme", json={"weight": weight})
    found, before = [], None
    while True:
        answer = await http.get(AUDIT, params={"limit": 2, **({} if before is None else {"before": before})})
        page = answer.json()
        found += [item["after"]["weight"] for item in page["items"]]
        before = page["next"]
        if before is None:
            break
    assert found == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ({"kind": "jobs"}, "kind", "must be one of job, run"),
        ({"subject": "mail"}, "kind", "say what 'mail' is"),
        ({"job": "a", "kind": "queue"}, "job", "leave these out"),
        ({"action": "edit"}, "action", "is no operation's id"),
        ({"before": "x"}, "before", "is not an entry's id"),
        ({"since": "soon"}, "since", ""),
    ],
)
async def test_wrong_filters_are_named(
    http: AsyncClient, query: dict[str, str], field: str, words: str
) -> None:
    answer = await http.get(AUDIT, params=query)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]
