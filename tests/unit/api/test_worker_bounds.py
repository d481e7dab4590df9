"""What a worker's token is bound to: one tenant or all, and some queues or all. Its session reaches no further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient, Response

from mainspring.core.rights import AccessRole
from mainspring.engine.usecases.identities import Identities
from mainspring.testing.clock import ManualWaiter
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of

TOKENS = "/api/v1/tokens"
WORKING = {AccessRole.WORKER, AccessRole.EDITOR, AccessRole.ADMIN}


class Shop:
    """A server with accounts, and what workers and administrators ask of it."""

    def __init__(self, http: AsyncClient, runtime: ManualRuntime) -> None:
        self.http = http
        self.runtime = runtime
        self.admin = ""
        self.numbers: dict[str, int] = {}

    async def call(
        self, text: str, path: str, body: dict[str, Any] | None = None, *, tenant: str | None = None
    ) -> Response:
        """Post with a token."""
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        if tenant is not None:
            headers["Mainspring-Tenant"] = tenant
        return await self.http.post(f"/api/v1/{path}", json=body or {}, headers=headers)

    async def grant(self, account: str, **fields: Any) -> None:
        """Give an account roles."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        answer = await self.http.put(f"/api/v1/accounts/{account}", json=fields, headers=headers)
        assert answer.status_code in {200, 201}, answer.text

    async def token(self, account: str, role: str = "worker", **fields: Any) -> str:
        """Make a token of an account."""
        answer = await self.call(
            self.admin, "tokens", {"name": "t", "role": role, "account": account, **fields}
        )
        assert answer.status_code == 201, answer.text
        text: str = answer.json()["token"]
        return text

    async def register(self, text: str, **offer: Any) -> Response:
        """Ask for a session."""
        body = {
            "protocol": 2,
            "name": "w",
            "host": "h",
            "pid": 1,
            "slots": 50,
            "functions": ["work"],
            **offer,
        }
        return await self.call(text, "worker/register", body)

    async def session(self, text: str, **offer: Any) -> str:
        """Open a session."""
        answer = await self.register(text, **offer)
        assert answer.status_code == 201, answer.text
        session_id: str = answer.json()["session_id"]
        return session_id

    async def claim(self, text: str, session_id: str, **fields: Any) -> Any:
        """Claim, with the matcher at work meanwhile."""
        self.numbers[session_id] = self.numbers.get(session_id, 0) + 1
        body = {
            "session_id": session_id,
            "number": self.numbers[session_id],
            "limit": 50,
            "is_idle": True,
            "wait_seconds": 0,
            **fields,
        }
        asking = asyncio.ensure_future(self.call(text, "worker/claim", body))
        while not asking.done():
            await asyncio.sleep(0)
            await self.runtime.tick("claims")
        answer = await asking
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def submit(self, tenant: str, queue: str = "default") -> str:
        """Make a job, if there is none, and submit a run of it."""
        headers = {"Authorization": f"Bearer {self.admin}", "Mainspring-Tenant": tenant}
        body = {"name": queue, "function": "work", "queue": queue}
        job = await self.http.put("/api/v1/jobs", json=body, headers=headers)
        assert job.status_code in {200, 201}, job.text
        job_id = job.json()["job_id"]
        run = await self.call(self.admin, f"jobs/{job_id}/runs", tenant=tenant)
        assert run.status_code == 201, run.text
        run_id: str = run.json()["run_id"]
        return run_id


@pytest.fixture
async def shop(runtime: ManualRuntime) -> AsyncIterator[Shop]:
    identities = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())
    async with client_of(api_of(runtime, identities=identities)) as http:
        made = Shop(http, runtime)
        made.admin = (await made.call("", "tokens", {"name": "first", "role": "admin"})).json()["token"]
        yield made


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_names_its_queues_each_once(shop: Shop) -> None:
    await shop.grant("workers", grants={"shop": "worker"})
    body = {"name": "t", "role": "worker", "account": "workers", "queues": ["mail", "cpu", "mail"]}
    made = (await shop.call(shop.admin, "tokens", body)).json()
    assert (made["tenant"], made["queues"]) == ("shop", ["cpu", "mail"])
    rotated = (await shop.call(shop.admin, f"tokens/{made['prefix']}/rotate")).json()
    assert rotated["queues"] == ["cpu", "mail"]
    listed = await shop.http.get(TOKENS, headers={"Authorization": f"Bearer {shop.admin}"})
    shown = {one["prefix"]: one["queues"] for one in listed.json()["items"]}
    assert shown[made["prefix"]] == ["cpu", "mail"]
    assert [] in shown.values()
    page = await shop.http.get("/api/v1/audit", headers={"Authorization": f"Bearer {shop.admin}"})
    told = [one["after"].get("queues") for one in page.json()["items"] if one["subject_kind"] == "token"]
    assert told.count(["cpu", "mail"]) == 2


@pytest.mark.parametrize("role", [role for role in AccessRole if role is not AccessRole.WORKER])
async def test_queues_go_with_the_role_of_a_worker_alone(shop: Shop, role: AccessRole) -> None:
    refused = await shop.call(shop.admin, "tokens", {"name": "t", "role": role.value, "queues": ["mail"]})
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["field"]) == (422, "queues")
    assert "only tokens with the role 'worker' are bound to queues" in error["message"]
    assert repr(role.value) in error["message"]


@pytest.mark.parametrize(
    ("queues", "field"), [(["a b"], "queues[0]"), (["mail", ""], "queues[1]"), (["q"] * 1001, "queues")]
)
async def test_a_wrong_queue_is_named(shop: Shop, queues: list[str], field: str) -> None:
    refused = await shop.call(shop.admin, "tokens", {"name": "t", "role": "worker", "queues": queues})
    assert refused.status_code == 422
    assert [error["field"] for error in refused.json()["errors"]] == [field]


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(AccessRole))
@pytest.mark.parametrize(
    ("grants", "tenant", "bound"),
    [
        ({"*": True}, None, None),
        ({"*": True}, "shop", "shop"),
        ({"shop": True}, None, "shop"),
        ({"shop": True, "bank": True}, "bank", "bank"),
    ],
)
async def test_a_session_is_bound_to_the_tenant_that_its_token_stands_for(
    shop: Shop, role: AccessRole, grants: dict[str, bool], tenant: str | None, bound: str | None
) -> None:
    await shop.grant("w", grants=dict.fromkeys(grants, role.value))
    fields = {} if tenant is None else {"tenant": tenant}
    text = await shop.token("w", role.value, **fields)
    answer = await shop.register(text)
    if role not in WORKING:
        assert answer.status_code == 403
        assert "the right 'work'" in answer.json()["detail"]
        return
    assert answer.status_code == 201
    [session] = await shop.runtime.store.list_sessions()
    assert session.tenant == bound


async def test_a_token_of_several_tenants_that_are_not_all_opens_no_session(shop: Shop) -> None:
    await shop.grant("w", grants={"shop": "worker", "bank": "worker"})
    answer = await shop.register(await shop.token("w"))
    assert answer.status_code == 403
    assert "--tenant" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("bounds", "offered", "served"),
    [
        ([], [], ()),
        ([], ["mail"], ("mail",)),
        (["cpu", "mail"], [], ("cpu", "mail")),
        (["cpu", "mail"], ["mail", "x"], ("mail",)),
        (["cpu"], ["mail", "x"], None),
    ],
)
async def test_a_session_is_cut_to_the_queues_of_its_token(
    shop: Shop, bounds: list[str], offered: list[str], served: tuple[str, ...] | None
) -> None:
    await shop.grant("w", grants={"shop": "worker"})
    answer = await shop.register(await shop.token("w", queues=bounds), queues=offered)
    sessions = await shop.runtime.store.list_sessions()
    if served is None:
        assert answer.status_code == 403
        assert "only for the queue 'cpu'" in answer.json()["detail"]
        assert not sessions
    else:
        assert [session.queues for session in sessions] == [served]
        told = answer.json()
        assert (told["tenant"], told["queues"]) == ("shop", list(served))


async def test_a_worker_gets_the_runs_of_its_tenant_and_queues_alone(shop: Shop) -> None:
    runs = {
        (tenant, queue): await shop.submit(tenant, queue)
        for tenant in ("shop", "bank")
        for queue in ("mail", "cpu")
    }
    await shop.grant("shops", grants={"shop": "worker"})
    await shop.grant("all", grants={"*": "worker"})
    text = await shop.token("shops", queues=["mail"])
    claimed = await shop.claim(text, await shop.session(text))
    assert [lease["run_id"] for lease in claimed["leases"]] == [runs["shop", "mail"]]
    text = await shop.token("all")
    claimed = await shop.claim(text, await shop.session(text))
    assert {lease["run_id"] for lease in claimed["leases"]} == set(runs.values()) - {runs["shop", "mail"]}


async def test_an_id_of_a_session_is_of_no_use_beyond_ones_own_token(shop: Shop) -> None:
    """One account, four tokens: none lets its worker use what another one's worker has opened for more."""
    await shop.grant("w", grants={"*": "worker"})
    texts = {
        "all": await shop.token("w"),
        "shop": await shop.token("w", tenant="shop"),
        "mail": await shop.token("w", tenant="shop", queues=["mail"]),
        "bank": await shop.token("w", tenant="bank"),
    }
    sessions = {name: await shop.session(text) for name, text in texts.items()}
    reach = {
        "all": {"all", "shop", "mail", "bank"},
        "shop": {"shop", "mail"},
        "mail": {"mail"},
        "bank": {"bank"},
    }
    for name, text in texts.items():
        for other, session_id in sessions.items():
            may = other in reach[name]
            beat = await shop.call(text, "worker/beat", {"session_id": session_id})
            assert beat.json()["is_session_live"] is may, (name, other)
            claim = await shop.claim(text, session_id)
            assert claim["is_session_live"] is may, (name, other)
            if not may:
                await shop.call(text, "worker/leave", {"session_id": session_id})
    assert len(await shop.runtime.store.list_sessions()) == len(sessions), "nobody else has ended one"


async def test_a_stolen_session_neither_takes_nor_ends_runs_of_its_tenant(shop: Shop) -> None:
    for tenant in ("shop", "bank"):
        await shop.grant(tenant, grants={tenant: "worker"})
    mine, theirs = await shop.token("shop"), await shop.token("bank")
    stolen = await shop.session(theirs)
    run_id = await shop.submit("bank")
    assert (await shop.claim(mine, stolen))["leases"] == []
    [lease] = (await shop.claim(theirs, stolen))["leases"]
    report = {"run_id": run_id, "token": lease["token"], "outcome": "success"}
    for session_id, result in ((stolen, "stale"), (await shop.session(mine), "missing")):
        body = {"session_id": session_id, "reports": [report]}
        answer = await shop.call(mine, "worker/report", body)
        assert answer.json()["results"] == [result]
    body = {"session_id": stolen, "reports": [report]}
    assert (await shop.call(theirs, "worker/report", body)).json()["results"] == ["applied"]
    body = {"session_id": await shop.session(mine), "reports": [report]}
    assert (await shop.call(mine, "worker/report", body)).json()["results"] == ["missing"], "as before"


async def test_a_worker_whose_account_has_lost_other_tenants_opens_another_session(shop: Shop) -> None:
    await shop.grant("w", grants={"*": "worker"})
    text = await shop.token("w", tenant="*")
    session_id = await shop.session(text)
    await shop.grant("w", grants={"shop": "worker"})
    assert (await shop.claim(text, session_id))["is_session_live"] is False
    await shop.submit("bank")
    run_id = await shop.submit("shop")
    claimed = await shop.claim(text, await shop.session(text))
    assert [lease["run_id"] for lease in claimed["leases"]] == [run_id]


# -- what is told of it ------------------------------------------------------------------------------------------------


async def test_a_viewer_of_a_tenant_sees_the_workers_that_are_bound_to_it(shop: Shop) -> None:
    for account, grants in (
        ("shops", {"shop": "worker"}),
        ("banks", {"bank": "worker"}),
        ("all", {"*": "worker"}),
    ):
        await shop.grant(account, grants=grants)
        await shop.session(await shop.token(account), name=account)
    await shop.grant("ann", grants={"shop": "viewer"})
    await shop.grant("root", grants={"*": "viewer"})

    async def seen(text: str, tenant: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {text}", "Mainspring-Tenant": tenant}
        page = (await shop.http.get("/api/v1/workers", headers=headers)).json()
        overview = (await shop.http.get("/api/v1/overview", headers=headers)).json()
        return {one["name"]: one["tenant"] for one in page["items"]} | {"": overview["slots"]["workers"]}

    assert await seen(await shop.token("ann", "viewer"), "shop") == {"shops": "shop", "": 2}
    everyone = {"shops": "shop", "banks": "bank", "all": None, "": 3}
    assert await seen(await shop.token("root", "viewer"), "shop") == everyone
    assert await seen(shop.admin, "bank") == everyone


async def test_a_run_says_that_no_worker_works_for_its_tenant(shop: Shop) -> None:
    await shop.grant("bank", grants={"bank": "worker"})
    await shop.session(await shop.token("bank"))
    run_id = await shop.submit("shop")
    headers = {"Authorization": f"Bearer {shop.admin}", "Mainspring-Tenant": "shop"}
    why = (await shop.http.get(f"/api/v1/runs/{run_id}/why", headers=headers)).json()
    assert why["code"] == "no_worker"
    assert "No live worker works for tenant 'shop'" in why["sentence"]
    [job] = (await shop.http.get("/api/v1/jobs", headers=headers)).json()["items"]
    assert [warning["code"] for warning in job["warnings"]] == ["tenant_unserved"]


async def test_what_workers_of_others_do_is_no_part_of_the_answers(shop: Shop) -> None:
    """Of what waits for another tenant's workers, nothing stands before a run; and they serve no queue of its own."""
    for tenant in ("shop", "bank"):
        await shop.grant(tenant, grants={tenant: "worker"})
    await shop.session(await shop.token("bank"))
    run_id = await shop.submit("shop", "mail")
    headers = {"Authorization": f"Bearer {shop.admin}", "Mainspring-Tenant": "shop"}
    shop.runtime.clock.advance(120)
    await shop.runtime.tick("census")
    overview = (await shop.http.get("/api/v1/overview", headers=headers)).json()
    assert any("no worker serves queue mail" in one["sentence"] for one in overview["attention"])

    await shop.session(await shop.token("shop"))
    for _ in range(2):
        await shop.submit("bank", "mail")
    why = (await shop.http.get(f"/api/v1/runs/{run_id}/why", headers=headers)).json()
    assert (why["code"], why["ahead"]) == ("ready", 0)
    assert why["sentence"] == "It is the next one, and starts as soon as a worker has a free slot."
    await shop.grant("all", grants={"*": "worker"})
    await shop.session(await shop.token("all"))
    why = (await shop.http.get(f"/api/v1/runs/{run_id}/why", headers=headers)).json()
    assert "Other tenants wait, too" in why["sentence"]


async def test_a_job_names_functions_of_workers_that_work_for_its_tenant(shop: Shop) -> None:
    await shop.grant("bank", grants={"bank": "worker"})
    await shop.session(await shop.token("bank"), functions=["secret"])
    body = {"name": "j", "function": "secret"}
    assert (await shop.call(shop.admin, "jobs", body, tenant="bank")).status_code == 201
    refused = await shop.call(shop.admin, "jobs", body, tenant="shop")
    assert refused.status_code == 422
    assert [error["field"] for error in refused.json()["errors"]] == ["function"]
    await shop.grant("all", grants={"*": "worker"})
    await shop.session(await shop.token("all"), functions=["secret"])
    assert (await shop.call(shop.admin, "jobs", body, tenant="shop")).status_code == 201
