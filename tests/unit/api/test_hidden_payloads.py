"""From some accounts payloads, results, outputs, errors and keys are hidden, wherever the API shows them."""

from __future__ import annotations

import types
import typing
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import AsyncClient, Response

from mainspring import App, DurableContext, current_attempt
from mainspring.api.hiding import HIDDEN_FIELDS, NOT_HIDDEN
from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.ids import format_run_id
from mainspring.core.notifications import Message
from mainspring.engine.usecases.identities import Identities
from mainspring.objects import ObjectPlace, open_streams
from mainspring.registry import FunctionRegistry
from mainspring.testing.clock import ManualWaiter
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import ManualRuntime
from mainspring.wire import operations
from tests.unit.api.asgi import api_of, client_of

CANARY = "canary-4711"


class Nowhere:
    """A sender that takes messages, so that the server judges alerts."""

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        """Take everything."""

    async def send(self, config: ChannelConfig, message: Message) -> None:
        """Lose it."""


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    """Functions whose results and errors have the canary in them."""
    registry = FunctionRegistry()

    def fail(**_: object) -> None:
        raise ValueError(f"no: {CANARY}")

    registry.add("work", lambda **_: {"told": CANARY})
    registry.add("fail", fail)
    async with ManualRuntime(registry, sender=Nowhere()) as runtime:
        yield runtime


class Office:
    """A server with accounts, of which some do not see payloads."""

    def __init__(self, http: AsyncClient) -> None:
        self.http = http
        self.admin = ""

    async def ask(
        self, text: str, method: str, path: str, body: Any = None, *, tenant: str = "shop", **query: Any
    ) -> Response:
        """Ask with a token."""
        headers = {"Mainspring-Tenant": tenant} | ({"Authorization": f"Bearer {text}"} if text else {})
        return await self.http.request(
            method, f"/api/v1/{path}", json=body, headers=headers, params=query or None
        )

    async def grant(self, account: str, **fields: Any) -> Response:
        """Set an account."""
        return await self.ask(self.admin, "PUT", f"accounts/{account}", fields)

    async def token(self, account: str, role: str, **fields: Any) -> str:
        """Make a token of an account, which gets the role in the tenant shop."""
        answer = await self.grant(account, **{"grants": {"shop": role}, **fields})
        assert answer.status_code in {200, 201}, answer.text
        made = await self.ask(self.admin, "POST", "tokens", {"name": "t", "role": role, "account": account})
        text: str = made.json()["token"]
        return text


@pytest.fixture
async def office(runtime: ManualRuntime) -> AsyncIterator[Office]:
    identities = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())
    async with client_of(api_of(runtime, identities=identities)) as http:
        made = Office(http)
        first = await made.ask("", "POST", "tokens", {"name": "first", "role": "admin"})
        made.admin = first.json()["token"]
        yield made


async def fill(office: Office, runtime: ManualRuntime) -> tuple[list[str], list[str]]:
    """Make two jobs and let each run once. Return the ids of both, and of their runs."""
    jobs, runs = [], []
    for name in ("work", "fail"):
        body = {
            "name": name,
            "function": name,
            "payload": {"card": CANARY},
            "retry": {"max_retries": 0},
        }
        job = (await office.ask(office.admin, "POST", "jobs", body)).json()
        jobs.append(job["job_id"])
        await office.ask(office.admin, "PATCH", f"jobs/{jobs[-1]}", {"payload": {"card": f"{CANARY}-new"}})
        submitted = await office.ask(
            office.admin, "POST", f"jobs/{jobs[-1]}/runs", {"payload": {"key": CANARY}}
        )
        runs.append(submitted.json()["run_id"])
    worker = await runtime.worker(tenant="shop")
    assert await worker.work() == 2
    return jobs, runs


def paths_of(jobs: list[str], runs: list[str]) -> list[str]:
    return [
        *("jobs", "runs", "runs?fields=brief", "dead-runs", "dead-runs/groups", "overview"),
        *(f"jobs/{job}" for job in jobs),
        *(f"jobs/{job}/{part}" for job in jobs for part in ("versions", "status", "runs")),
        *(f"runs/{run}{part}" for run in runs for part in ("", "/why")),
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_what_is_hidden_is_in_no_answer_and_nothing_else_is_missing(
    office: Office, runtime: ManualRuntime, role: str
) -> None:
    jobs, runs = await fill(office, runtime)
    seeing = await office.token("ann", role)
    blind = await office.token("bob", role, hides_payloads=["shop"])
    told = 0
    for path in paths_of(jobs, runs):
        shown, hidden = [await office.ask(text, "GET", path) for text in (seeing, blind)]
        assert (shown.status_code, hidden.status_code) == (200, 200), path
        told += CANARY in shown.text
        assert CANARY not in hidden.text, path
        assert blank(shown.json()) == blank(hidden.json()), path
    assert told >= 8, "else there was nothing to hide"
    run = (await office.ask(blind, "GET", f"runs/{runs[1]}")).json()
    assert {run[field] for field in ("payload", "result", "output", "error")} == {None}
    assert [(attempt["outcome"], attempt["error"]) for attempt in run["attempts"]] == [("failed", None)]


async def test_payloads_of_steps_are_hidden(office: Office) -> None:
    steps: list[dict[str, Any]] = [
        {"name": "a", "function": "work", "payload": {"card": CANARY}},
        {"name": "c", "job": "clean", "payload": [CANARY], "map": {"over": [CANARY]}},
    ]
    body = {"name": "etl", "workflow": {"steps": steps}}
    job = (await office.ask(office.admin, "POST", "jobs", body)).json()["job_id"]
    other = {**steps[1], "payload": None, "map": {"over": [CANARY, 1]}}
    made = {"name": "d", "function": "work", "with": {"card": CANARY, "other": {"cel": "steps.a.result"}}}
    handed = {"name": "e", "job": "clean", "with": {"card": CANARY}}
    listed = {"name": "f", "job": "clean", "map": {"over": f"['{CANARY}']"}}
    first = {**steps[0], "payload": [CANARY]}
    changed = {"workflow": {"steps": [first, {**steps[0], "name": "b"}, other, made, handed, listed]}}
    await office.ask(office.admin, "PATCH", f"jobs/{job}", changed)
    await office.ask(office.admin, "PATCH", f"jobs/{job}", {"function": "work"})
    await office.ask(office.admin, "PATCH", f"jobs/{job}", changed)
    seeing = await office.token("ann", "viewer")
    blind = await office.token("bob", "viewer", hides_payloads=["shop"])
    for path in ("jobs", f"jobs/{job}", f"jobs/{job}/versions", f"jobs/{job}/graph"):
        shown, hidden = [await office.ask(text, "GET", path) for text in (seeing, blind)]
        assert CANARY in shown.text, path
        assert CANARY not in hidden.text, path
        assert shown.text.count('"a"') == hidden.text.count('"a"'), path


def blank(plain: Any) -> Any:
    """Return an answer without what may be hidden."""
    if isinstance(plain, list):
        return [blank(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    hidden = {*HIDDEN_FIELDS, "age_ms"}
    if str(plain.get("field", "")).startswith("payload"):
        hidden |= {"before", "after"}
    return {key: None if key in hidden else blank(item) for key, item in plain.items()}


async def test_files_of_runs_are_hidden(tmp_path: Path) -> None:
    registry = FunctionRegistry()

    async def work(**_: object) -> str:
        return await current_attempt().artifact(f"{CANARY}.txt", CANARY.encode())

    registry.add("work", work)
    files = open_streams(ObjectPlace("folder", str(tmp_path)), feature="", extra="")
    async with ManualRuntime(registry, files=files) as runtime:
        identities = Identities(
            runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter()
        )
        async with client_of(api_of(runtime, identities=identities)) as http:
            office = Office(http)
            first = await office.ask("", "POST", "tokens", {"name": "first", "role": "admin"})
            office.admin = first.json()["token"]
            job = (await office.ask(office.admin, "POST", "jobs", {"name": "a", "function": "work"})).json()
            made = await office.ask(office.admin, "POST", f"jobs/{job['job_id']}/runs", {})
            await (await runtime.worker(tenant="shop")).work()
            run = made.json()["run_id"]
            text = await office.token("eve", "viewer", hides_payloads=["shop"])
            for caller, is_hidden in ((office.admin, False), (text, True)):
                listed = await office.ask(caller, "GET", f"runs/{run}/artifacts")
                [item] = listed.json()["items"]
                path = f"artifacts/{item['artifact_id']}"
                shown = [listed.text, (await office.ask(caller, "GET", path)).text]
                content = await office.ask(caller, "GET", f"{path}/content")
                assert [CANARY in one for one in shown] == [not is_hidden] * 2
                assert item["sha256"] is None if is_hidden else item["size"] == len(CANARY)
                assert content.status_code == (403 if is_hidden else 200)
                assert (CANARY in content.text) is not is_hidden


async def test_steps_of_durable_functions_are_hidden() -> None:
    app = App()

    async def charge() -> str:
        return CANARY

    @app.durable("order")
    async def order(ctx: DurableContext) -> None:
        await ctx.step("charge", charge)

    async with ManualRuntime(app.registry) as runtime:
        identities = Identities(
            runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter()
        )
        async with client_of(api_of(runtime, identities=identities)) as http:
            office = Office(http)
            first = await office.ask("", "POST", "tokens", {"name": "first", "role": "admin"})
            office.admin = first.json()["token"]
            job = (await office.ask(office.admin, "POST", "jobs", {"name": "a", "function": "order"})).json()
            made = await office.ask(office.admin, "POST", f"jobs/{job['job_id']}/runs", {})
            await (await runtime.worker(tenant="shop")).work()
            path = f"runs/{made.json()['run_id']}/checkpoints"
            shown = await office.ask(office.admin, "GET", path)
            [step] = shown.json()["items"]
            assert (step["name"], step["number"], step["value"]) == ("charge", 0, CANARY)
            text = await office.token("eve", "viewer", hides_payloads=["shop"])
            refused = await office.ask(text, "GET", path)
            assert refused.status_code == 403
            assert CANARY not in refused.text


async def test_what_is_hidden_cannot_be_asked_by(office: Office, runtime: ManualRuntime) -> None:
    """The number of answers to a guess would tell what an error says."""
    await fill(office, runtime)
    blind = await office.token("bob", "operator", hides_payloads=["shop"])
    for field in ("error", "error_group"):
        for path in ("dead-runs", "dead-runs/groups"):
            refused = await office.ask(blind, "GET", path, **{field: "no"})
            assert refused.status_code == 403, (path, field)
            assert field in refused.json()["detail"]
        for path, body in (
            ("redrives", {"dry_run": True}),
            ("dead-runs/discard", {"dry_run": True, "reason": "gone"}),
        ):
            refused = await office.ask(blind, "POST", path, body | {"filter": {field: "no"}})
            assert refused.status_code == 403, (path, field)
    assert (await office.ask(blind, "GET", "runs", state="FAILED", error="no")).status_code == 403
    for path, body in (
        ("redrives", {"dry_run": True}),
        ("dead-runs/discard", {"dry_run": True, "reason": "x"}),
    ):
        allowed = await office.ask(blind, "POST", path, body | {"filter": {"queue": "default"}})
        assert allowed.status_code == 200, allowed.text


async def line_up(
    office: Office, runtime: ManualRuntime, *customers: str, **limit: Any
) -> tuple[list[str], list[str]]:
    """Submit a run for each customer under the limit `crm`, by customer. Return their ids, and those that started."""
    await office.ask(office.admin, "PUT", "limits/crm", {"max_running": 1, **limit})
    body = {"name": "call", "function": "work", "concurrency": [{"use": "crm", "key": "$.customer"}]}
    job = (await office.ask(office.admin, "POST", "jobs", body)).json()["job_id"]
    runs = []
    for customer in customers:
        answer = await office.ask(
            office.admin, "POST", f"jobs/{job}/runs", {"payload": {"customer": customer}}
        )
        runs.append(answer.json()["run_id"])
    worker = await runtime.worker(tenant="shop")
    leases = [*await worker.claim(), *await worker.claim()]
    return runs, [format_run_id(lease.run_id) for lease in leases]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_keys_of_limits_are_hidden_because_they_come_out_of_payloads(
    office: Office, runtime: ManualRuntime, role: str
) -> None:
    runs, started = await line_up(office, runtime, f"z-{CANARY}", f"z-{CANARY}", f"a-{CANARY}")
    assert len(started) == 2
    [waiting] = set(runs) - set(started)
    seeing = await office.token("ann", role)
    blind = await office.token("bob", role, hides_payloads=["shop"])
    shown, hidden = [(await office.ask(one, "GET", "limits/crm/keys")).json() for one in (seeing, blind)]
    assert [one["key"] for one in shown["items"]] == [f"a-{CANARY}", f"z-{CANARY}"]
    assert [one["key"] for one in hidden["items"]] == [None, None]
    assert [one["run_ids"] for one in hidden["items"]] == [
        one["run_ids"] for one in reversed(shown["items"])
    ], "the oldest first, which tells nothing of what they are"
    [holder] = hidden["items"][0]["run_ids"]
    told, untold = [(await office.ask(one, "GET", f"runs/{waiting}/why")).json() for one in (seeing, blind)]
    assert f"1 of 1 places under limit crm for 'z-{CANARY}' are taken by {holder}" in told["sentence"]
    assert f"1 of 1 places under limit crm for its key are taken by {holder}" in untold["sentence"]
    assert (untold["code"], untold["run_ids"]) == ("key_full", [holder])


async def test_the_rate_of_a_hidden_key_is_told_without_the_key(
    office: Office, runtime: ManualRuntime
) -> None:
    runs, started = await line_up(office, runtime, CANARY, CANARY, max_running=None, rate="1/h")
    [waiting] = set(runs) - set(started)
    blind = await office.token("bob", "viewer", hides_payloads=["shop"])
    answer = await office.ask(blind, "GET", f"runs/{waiting}/why")
    assert answer.json()["code"] == "rate"
    assert "The rate 1/h of limit crm for its key allows the next start at" in answer.json()["sentence"]
    assert CANARY not in answer.text


async def test_pages_of_hidden_keys_tell_nothing_of_them(office: Office, runtime: ManualRuntime) -> None:
    runs, _ = await line_up(office, runtime, "m", "z", "a", "q")
    blind = await office.token("bob", "operator", hides_payloads=["shop"])
    found: list[Any] = []
    after: dict[str, str] = {}
    for _ in runs:
        page = (await office.ask(blind, "GET", "limits/crm/keys", limit=1, **after)).json()
        found += page["items"]
        after = {"after": page["next"]}
    assert [one["run_ids"] for one in found] == [[run] for run in runs]
    last = (await office.ask(blind, "GET", "limits/crm/keys", limit=1, **after)).json()
    assert last == {"items": [], "next": None}
    for guess in ("m", "-1", "", "9" * 19, "\u0663"):
        refused = await office.ask(blind, "GET", "limits/crm/keys", after=guess)
        [error] = refused.json()["errors"]
        assert (refused.status_code, error["field"]) == (422, "after"), guess
        assert "keys are hidden from this account" in error["message"]
    assert (await office.ask(blind, "GET", "limits/other/keys")).status_code == 404


async def test_the_one_line_of_a_limit_without_keys_is_shown_as_such(
    office: Office, runtime: ManualRuntime
) -> None:
    await office.ask(office.admin, "PUT", "limits/crm", {"max_running": 1})
    body = {"name": "call", "function": "work", "concurrency": [{"use": "crm"}]}
    job = (await office.ask(office.admin, "POST", "jobs", body)).json()["job_id"]
    runs = [
        (await office.ask(office.admin, "POST", f"jobs/{job}/runs", {})).json()["run_id"] for _ in range(2)
    ]
    worker = await runtime.worker(tenant="shop")
    [lease] = await worker.claim()
    [waiting] = set(runs) - {format_run_id(lease.run_id)}
    blind = await office.token("bob", "viewer", hides_payloads=["shop"])
    page = (await office.ask(blind, "GET", "limits/crm/keys")).json()
    assert [one["key"] for one in page["items"]] == [""]
    why = (await office.ask(blind, "GET", f"runs/{waiting}/why")).json()
    assert "1 of 1 places under limit crm are taken" in why["sentence"]


async def test_the_grant_of_the_tenant_tells_or_else_that_of_all(
    office: Office, runtime: ManualRuntime
) -> None:
    _, runs = await fill(office, runtime)
    for grants, hides, is_hidden in (
        ({"*": "viewer"}, ["*"], True),
        ({"*": "viewer", "shop": "viewer"}, ["*"], False),
        ({"*": "viewer", "shop": "viewer"}, ["shop"], True),
        ({"*": "viewer", "bank": "viewer"}, ["bank"], False),
        ({"shop": "operator"}, [], False),
    ):
        role = next(iter(grants.values()))
        text = await office.token("bob", role, grants=grants, hides_payloads=hides)
        run = (await office.ask(text, "GET", f"runs/{runs[0]}")).json()
        assert (run["payload"] is None) is is_hidden, (grants, hides)
    me = (await office.ask(await office.token("eve", "viewer", hides_payloads=["shop"]), "GET", "me")).json()
    assert me["hides_payloads"] is True


@pytest.mark.parametrize("role", ["editor", "admin", "worker"])
@pytest.mark.parametrize("where", ["shop", "*"])
async def test_nothing_is_hidden_from_who_decides_what_becomes_of_it(
    office: Office, role: str, where: str
) -> None:
    grants = {"shop": "viewer", where: role}
    refused = await office.grant("bob", grants=grants, hides_payloads=["shop"])
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["field"]) == (422, "hides_payloads")
    assert repr(role) in error["message"]
    assert (await office.ask(office.admin, "GET", "accounts/bob")).status_code == 404


async def test_what_is_hidden_stays_hidden_until_it_is_said(office: Office) -> None:
    await office.grant("bob", grants={"shop": "viewer", "bank": "viewer"}, hides_payloads=["shop", "bank"])
    account = (await office.grant("bob", grants={"shop": "operator"})).json()
    assert account["hides_payloads"] == ["shop"]
    assert (await office.grant("bob", grants={"shop": "editor"})).status_code == 422
    account = (await office.grant("bob", grants={"shop": "editor"}, hides_payloads=[])).json()
    assert (account["grants"], account["hides_payloads"]) == ({"shop": "editor"}, [])
    refused = await office.grant("bob", grants={"shop": "viewer"}, hides_payloads=["bank"])
    assert "no role in 'bank'" in refused.json()["errors"][0]["message"]
    page = (await office.ask(office.admin, "GET", "audit", kind="account")).json()["items"]
    told = [
        one["after"].get("hides_payloads")
        for one in page
        if one["subject_name"] == "bob" or one["subject_id"] == "bob"
    ]
    assert told[-1] == ["bank", "shop"]


async def tell_of_a_failure(office: Office, runtime: ManualRuntime) -> None:
    """Have a job of the tenant shop fail that notifies, so that an alert quotes its error."""
    body = {
        "name": "x: failed",
        "function": "fail",
        "notify": {"on": ["failed"], "to": ["ops"]},
        "retry": {"max_retries": 0},
    }
    channel = {"kind": "webhook", "config": {"url": "https://hooks.example.org/x"}}
    made = await office.ask(office.admin, "PUT", "channels/ops", channel)
    assert made.status_code == 201, made.text
    job = await office.ask(office.admin, "POST", "jobs", body)
    assert job.status_code == 201, job.text
    await office.ask(office.admin, "POST", f"jobs/{job.json()['job_id']}/runs", {})
    worker = await runtime.worker(tenant="shop")
    await worker.work()
    await runtime.tick("watchdog")


async def test_an_alert_about_a_failed_job_says_that_it_failed_and_not_how(
    office: Office, runtime: ManualRuntime
) -> None:
    await tell_of_a_failure(office, runtime)
    seeing = await office.token("ann", "viewer")
    blind = await office.token("bob", "viewer", hides_payloads=["shop"])
    shown = [(await office.ask(text, "GET", "alerts")).json()["items"][0] for text in (seeing, blind)]
    assert [one["summary"] for one in shown] == ["job x: failed failed"] * 2
    assert CANARY in shown[0]["error"]
    assert shown[1]["error"] is None


@pytest.mark.parametrize("asked_for", ["shop", "bank"])
@pytest.mark.parametrize(
    ("grants", "hides"),
    [({"*": "viewer", "shop": "viewer"}, ["shop"]), ({"*": "viewer", "bank": "editor"}, ["*"])],
)
async def test_what_is_hidden_in_a_tenant_is_hidden_in_the_alerts_of_all_of_them(
    office: Office, runtime: ManualRuntime, grants: dict[str, str], hides: list[str], asked_for: str
) -> None:
    await tell_of_a_failure(office, runtime)
    text = await office.token("eve", "viewer", grants=grants, hides_payloads=hides)
    answer = await office.ask(text, "GET", "alerts", tenant=asked_for, scope="cluster")
    (alert,) = answer.json()["items"]
    assert (alert["tenant"], alert["error"]) == ("shop", None)


def structs_in(shape: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Yield the types of which an answer is made."""
    for part in (
        typing.get_args(shape) if isinstance(shape, types.UnionType) or typing.get_origin(shape) else (shape,)
    ):
        if typing.get_origin(part) or isinstance(part, types.UnionType):
            yield from structs_in(part, seen)
        elif isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
            seen.add(part)
            yield part
            for hint in typing.get_type_hints(part).values():
                yield from structs_in(hint, seen)


def test_every_field_of_an_answer_with_a_hidden_name_may_be_null_or_is_listed() -> None:
    """A field of that name that comes later is hidden, too, or somebody has decided that it is not."""
    seen: set[type] = set()
    found: dict[str, set[str]] = {}
    for operation in operations.OPERATIONS:
        for shape in (operation.answer, *operation.other_answers):
            for one in structs_in(shape, seen):
                fields = set(one.__struct_fields__).intersection(HIDDEN_FIELDS)
                if fields and not issubclass(one, NOT_HIDDEN):
                    found[one.__name__] = fields
    assert set(found) == {
        "AlertView",
        *("JobView", "JobWritten", "RunView", "RunDetail", "AttemptView", "BriefView", "DeadRunView"),
        *("DeadGroupView", "RedriveFilterView", "LeaseView", "StepView", "ItemView"),
    }
