"""Who is let in: everyone that the address admits until there is an account, callers with a token from then on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient, Response

from mainspring.api.request_times import RequestTimes
from mainspring.core.access import write_token
from mainspring.core.alerting import Verdict
from mainspring.core.alerts import Alert
from mainspring.core.notifications import AlertState, Severity
from mainspring.core.rights import RIGHTS_OF, AccessRole, Right
from mainspring.engine.usecases.identities import (
    BLIND_SECONDS,
    LONGEST_KNOWN,
    UNKNOWN_SECONDS,
    Identities,
    TokenUses,
)
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.alerts import AlertsSaved
from mainspring.testing.clock import ManualWaiter
from mainspring.testing.conformance.alerts import save_verdict
from mainspring.testing.factories import IdSequence
from mainspring.testing.factories import claim as claim_in
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.operation import Operation
from mainspring.wire.operations import OPERATIONS
from tests.unit.api.asgi import api_of, client_of

FIRST = {"name": "first", "role": "admin"}
TOKENS, ACCOUNTS = "/api/v1/tokens", "/api/v1/accounts"
UNKNOWN = write_token(b"\0" * 37)


@pytest.fixture
async def identities(runtime: ManualRuntime) -> Identities:
    return Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())


@pytest.fixture
async def http(runtime: ManualRuntime, identities: Identities) -> AsyncIterator[AsyncClient]:
    async with client_of(api_of(runtime, identities=identities)) as client:
        yield client


@pytest.fixture
async def admin(http: AsyncClient) -> str:
    """The token of the first account, whose making closes the server."""
    return await made(await http.post(TOKENS, json=FIRST))


async def made(answer: Response) -> str:
    assert answer.status_code == 201, answer.text
    text: str = answer.json()["token"]
    return text


def bearer(text: str, **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}", **headers}


async def add_account(http: AsyncClient, admin: str, name: str, **fields: Any) -> Response:
    return await http.put(f"{ACCOUNTS}/{name}", json=fields, headers=bearer(admin))


async def make_token(
    http: AsyncClient, admin: str, account: str, grants: dict[str, str], role: str, **fields: Any
) -> str:
    """Make an account with a token."""
    assert (await add_account(http, admin, account, grants=grants)).status_code in {200, 201}
    body = {"name": "t", "role": role, "account": account, **fields}
    return await made(await http.post(TOKENS, json=body, headers=bearer(admin)))


# -- open, and closed --------------------------------------------------------------------------------------------------


async def test_until_there_is_an_account_the_address_decides(http: AsyncClient) -> None:
    assert (await http.get("/api/v1/jobs")).status_code == 200
    me = (await http.get("/api/v1/me")).json()
    assert (me["account"], me["grants"], me["token"]) == ("anybody", None, None)
    assert (await http.get("/health")).json()["access"] == "loopback"


async def test_the_first_token_closes_the_server(http: AsyncClient, admin: str) -> None:
    refused = await http.get("/api/v1/jobs")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "MAINSPRING_TOKEN" in refused.json()["detail"]
    assert (await http.get("/api/v1/jobs", headers=bearer(admin))).status_code == 200
    assert (await http.get("/nothing/here")).status_code == 401
    assert (await http.get("/health", headers=bearer(admin))).json()["access"] == "tokens"


@pytest.mark.parametrize("wrong", [{"role": "editor"}, {"tenant": "shop"}])
async def test_the_first_token_must_be_of_an_administrator(http: AsyncClient, wrong: dict[str, str]) -> None:
    refused = await http.post(TOKENS, json=FIRST | wrong)
    assert refused.status_code == 422
    assert "'admin' for all tenants" in refused.json()["errors"][0]["message"]
    assert (await http.get("/api/v1/jobs")).status_code == 200


async def test_no_account_comes_before_the_first_token(http: AsyncClient) -> None:
    refused = await http.put(f"{ACCOUNTS}/ann", json={"grants": {"*": "admin"}})
    assert refused.status_code == 409
    assert "token create --role admin" in refused.json()["detail"]


async def test_another_server_closes_when_it_looks_next(
    runtime: ManualRuntime, identities: Identities, admin: str
) -> None:
    other = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(), waiter=ManualWaiter())
    assert other.is_open
    await other.tick(runtime.clock.now())
    assert not other.is_open


async def test_the_operators_token_works_alone_until_there_is_an_account(
    runtime: ManualRuntime, identities: Identities
) -> None:
    operators = write_token(b"\1" * 37)
    api = api_of(runtime, identities=identities, admin_token=operators)
    async with client_of(api) as http:
        assert (await http.get("/api/v1/jobs")).status_code == 401
        assert (await http.get("/api/v1/jobs", headers=bearer(operators))).status_code == 200
        admin = await made(await http.post(TOKENS, json=FIRST, headers=bearer(operators)))
        assert (await http.get("/api/v1/jobs", headers=bearer(operators))).status_code == 401
        assert (await http.get("/api/v1/jobs", headers=bearer(admin))).status_code == 200


async def test_a_process_calls_itself_by_a_token_of_its_own(
    http: AsyncClient, identities: Identities, admin: str
) -> None:
    own = bearer(identities.own_token, **{"Mainspring-Tenant": "shop"})
    assert (await http.get("/api/v1/jobs", headers=own)).status_code == 200
    listed = (await http.get(TOKENS, headers=bearer(admin))).json()["items"]
    assert len(listed) == 1


async def test_the_audit_tells_the_process_from_the_operator(
    runtime: ManualRuntime, identities: Identities
) -> None:
    operators = write_token(b"\1" * 37)
    async with client_of(api_of(runtime, identities=identities, admin_token=operators)) as http:
        for number, token in enumerate((operators, identities.own_token)):
            body = {"max_running": number + 1}
            answer = await http.put("/api/v1/labels/gpu", json=body, headers=bearer(token))
            assert answer.is_success
        found = (await http.get("/api/v1/audit", headers=bearer(operators))).json()["items"]
    assert [entry["actor_kind"] for entry in found] == ["process", "operator"]
    assert {entry["token"] for entry in found} == {None}


# -- strangers ---------------------------------------------------------------------------------------------------------


async def test_a_stranger_learns_that_the_server_lives_and_nothing_else(
    http: AsyncClient, admin: str
) -> None:
    health = (await http.get("/health")).json()
    assert health == {
        "status": "ok",
        "store": None,
        "version": None,
        "access": None,
        "failovers": [],
        "figures": {},
        "scheduler": None,
        "jobs": None,
    }
    assert (await http.get("/openapi.json")).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer  ", "Basic YTpi", "ms_abc", f"bearer {UNKNOWN}", "Bearer ms_x", f"Bearer {UNKNOWN}x"],
)
async def test_what_is_no_known_token_is_refused_everywhere(
    http: AsyncClient, admin: str, header: str
) -> None:
    for path in ("/api/v1/jobs", "/health", "/api/v1/nothing"):
        refused = await http.get(path, headers={"Authorization": header})
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"


async def test_a_token_with_a_known_prefix_and_another_secret_is_refused(
    http: AsyncClient, admin: str
) -> None:
    forged = admin[:12] + UNKNOWN[12:]
    assert forged.split("_")[1] == admin.split("_")[1]
    assert (await http.get("/api/v1/jobs", headers=bearer(forged))).status_code == 401


async def test_a_token_given_twice_is_refused(http: AsyncClient, admin: str) -> None:
    headers = [("Authorization", f"Bearer {admin}"), ("authorization", f"Bearer {UNKNOWN}")]
    refused = await http.get("/api/v1/jobs", headers=headers)
    assert refused.status_code == 400
    assert "given twice" in refused.json()["detail"]


async def test_guessing_is_slowed_down_and_does_not_keep_the_store_busy(
    http: AsyncClient, admin: str, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await http.get("/api/v1/jobs", headers=bearer(admin))).status_code == 200
    asked: list[str] = []
    find = runtime.store.find_token

    async def count(prefix: str) -> Any:
        asked.append(prefix)
        return await find(prefix)

    monkeypatch.setattr(runtime.store, "find_token", count)
    statuses = []
    for number in range(22):
        guess = bearer(write_token(bytes([number + 1]) * 37))
        statuses.append((await http.get("/api/v1/jobs", headers=guess)).status_code)
    assert statuses == [401] * 20 + [429] * 2
    assert len(asked) == 20
    assert (await http.get("/api/v1/jobs", headers=bearer(admin))).status_code == 200
    runtime.clock.advance(4)
    assert (await http.get("/api/v1/jobs", headers=bearer(UNKNOWN))).status_code == 401


async def test_denied_requests_are_counted_by_why(
    runtime: ManualRuntime, identities: Identities, http: AsyncClient, admin: str
) -> None:
    text = await make_token(http, admin, "ann", {"shop": "viewer"}, "viewer", rate=5)
    times = RequestTimes()
    api = api_of(runtime, identities=identities, deny=times.deny)

    def denied() -> dict[str, float]:
        return {measure.labels[0]: measure.value for measure in times.measures() if not measure.labels[1:]}  # type: ignore[misc]

    async with client_of(api) as counting:
        jobs = "/api/v1/jobs"
        assert (await counting.get(jobs, headers=bearer(admin))).status_code == 200
        assert (await counting.get("/nothing", headers=bearer(admin))).status_code == 404
        assert denied() == {"address": 0, "token": 0, "rate": 0, "right": 0}
        assert (await counting.get(jobs)).status_code == 401
        assert (await counting.get(jobs, headers=bearer(UNKNOWN))).status_code == 401
        assert (await counting.get(jobs, headers={"Host": "evil.example"})).status_code == 403
        assert (await counting.get(TOKENS, headers=bearer(text))).status_code == 200
        assert (await counting.post(jobs, json={}, headers=bearer(text))).status_code == 403
        statuses = [(await counting.get(jobs, headers=bearer(text))).status_code for _ in range(9)]
        assert denied() == {"address": 1, "token": 2, "rate": statuses.count(429), "right": 1}
        assert statuses.count(429) > 0


async def test_rules_and_channels_of_all_tenants_need_the_right_in_all_of_them(
    http: AsyncClient, admin: str
) -> None:
    text = await make_token(http, admin, "ann", {"shop": "editor"}, "editor")
    channel = {"kind": "webhook", "config": {"url": "https://hooks.example.com/x"}}
    for path, body in (
        ("/api/v1/channels/ops", channel),
        ("/api/v1/alert-rules/many", {"kind": "dead_letters"}),
    ):
        assert (await http.put(path, json=body, headers=bearer(text))).status_code == 201
        for method in ("PUT", "GET", "DELETE"):
            shared = f"{path}?scope=cluster"
            refused = await http.request(
                method, shared, json=body if method == "PUT" else None, headers=bearer(text)
            )
            assert refused.status_code == 403, refused.text
        everywhere = await http.put(f"{path}?scope=cluster", json=body, headers=bearer(admin))
        assert everywhere.status_code == 201
    for token, status in ((text, 403), (admin, 200)):
        listed = await http.get("/api/v1/alerts?scope=cluster", headers=bearer(token))
        assert listed.status_code == status
    silence = {"period": "1h", "reason": "x"}
    refused = await http.post("/api/v1/silences?scope=cluster", json=silence, headers=bearer(text))
    assert refused.status_code == 403
    assert (await http.post("/api/v1/silences", json=silence, headers=bearer(text))).status_code == 201


async def test_who_reads_everywhere_looks_after_no_alert_of_the_cluster(
    http: AsyncClient, admin: str, runtime: ManualRuntime
) -> None:
    now = runtime.clock.now()
    alerts = tuple(
        Alert(
            id=0,
            tenant=tenant,
            rule_tenant="*",
            rule="scheduler",
            subject="shards",
            state=AlertState.FIRING,
            severity=Severity.WARNING,
            since=now,
            summary="many",
        )
        for tenant in ("*", "shop")
    )
    epochs = runtime.ownership.epochs
    assert (
        await save_verdict(runtime.store, Verdict(added=alerts), epochs=epochs, now=now) is AlertsSaved.DONE
    )
    shared, own = await runtime.store.list_open_alerts()
    text = await make_token(http, admin, "ann", {"shop": "editor", "*": "viewer"}, "editor")
    headers = {**bearer(text), "mainspring-tenant": "shop"}
    listed = await http.get("/api/v1/alerts", headers=headers)
    assert [one["alert_id"] for one in listed.json()["items"]] == [own.id, shared.id]
    path = "/api/v1/alerts/{}/acknowledge"
    assert (await http.post(path.format(shared.id), headers=headers)).status_code == 404
    assert (await http.post(path.format(own.id), headers=headers)).status_code == 200
    assert (await http.post(path.format(shared.id), headers=bearer(admin))).status_code == 200


# -- the end of a token ------------------------------------------------------------------------------------------------


async def test_a_revoked_token_is_refused_at_once_here_and_soon_elsewhere(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities
) -> None:
    text = await make_token(http, admin, "ann", {"*": "viewer"}, "viewer")
    other = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(), waiter=ManualWaiter())
    await other.refresh()
    assert await other.look_up(text) is not None
    prefix = text.split("_")[1]
    revoked = await http.post(f"{TOKENS}/{prefix}/revoke", headers=bearer(admin))
    assert revoked.json()["state"] == "revoked"
    refused = await http.get("/api/v1/jobs", headers=bearer(text))
    assert (refused.status_code, refused.json()["detail"]) == (
        401,
        f"the access token ms_{prefix}_… was revoked",
    )
    assert other.recall(text) is not None
    await other.tick(runtime.clock.now())
    assert other.recall(text) is None


async def test_an_account_that_is_disabled_or_loses_a_role_takes_its_tokens_along(
    http: AsyncClient, admin: str
) -> None:
    text = await make_token(http, admin, "ann", {"*": "operator"}, "operator")
    assert (await http.post("/api/v1/redrives", json={}, headers=bearer(text))).status_code == 422
    await add_account(http, admin, "ann", grants={"*": "viewer"})
    assert (await http.post("/api/v1/redrives", json={}, headers=bearer(text))).status_code == 403
    assert (await http.get("/api/v1/jobs", headers=bearer(text))).status_code == 200
    await add_account(http, admin, "ann", grants={"*": "viewer"}, disabled=True)
    refused = await http.get("/api/v1/jobs", headers=bearer(text))
    assert (refused.status_code, refused.json()["detail"]) == (401, "the account 'ann' is disabled")


async def test_an_expired_token_is_refused_and_says_when(
    http: AsyncClient, admin: str, runtime: ManualRuntime
) -> None:
    text = await make_token(http, admin, "ann", {"*": "viewer"}, "viewer", expires_in="90s")
    runtime.clock.advance(89)
    assert (await http.get("/api/v1/jobs", headers=bearer(text))).status_code == 200
    runtime.clock.advance(1)
    refused = await http.get("/api/v1/jobs", headers=bearer(text))
    assert refused.status_code == 401
    assert "expired at 2026-01-05T12:01:30Z" in refused.json()["detail"]


async def test_a_worker_whose_token_has_expired_ends_what_it_began(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities
) -> None:
    worker = await make_token(http, admin, "workers", {"*": "worker"}, "worker", expires_in="1h")

    async def status(call: str) -> int:
        await identities.tick(runtime.clock.now())
        answer = await http.post(f"/api/v1/worker/{call}", json={}, headers=bearer(worker))
        return answer.status_code

    calls = ("register", "claim", "beat", "report", "leave")
    assert [await status(call) for call in calls] == [422] * 5
    runtime.clock.advance(3600)
    assert [await status(call) for call in calls] == [401, 401, 422, 422, 422]
    runtime.clock.advance(24 * 3600)
    assert [await status(call) for call in calls] == [401] * 5


async def test_a_replaced_token_works_for_a_day(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities
) -> None:
    old = await make_token(http, admin, "ann", {"*": "viewer"}, "viewer", expires_in="30d", rate=50)
    runtime.clock.advance(3600)
    answer = await http.post(f"{TOKENS}/{old.split('_')[1]}/rotate", headers=bearer(old))
    ends = answer.json()["expires_at"]
    assert ends.startswith("2026-02-04T12:00:00"), "it ends when the one before would have ended"
    assert (await http.post(f"{TOKENS}/{old.split('_')[1]}/rotate", headers=bearer(old))).status_code == 409
    new = await made(answer)
    shown = answer.json()
    assert (shown["replaces"], shown["rate"], shown["role"]) == (old.split("_")[1], 50, "viewer")
    runtime.clock.advance(24 * 3600 - 1)
    await identities.tick(runtime.clock.now())
    for text in (old, new):
        assert (await http.get("/api/v1/jobs", headers=bearer(text))).status_code == 200
    runtime.clock.advance(1)
    assert (await http.get("/api/v1/jobs", headers=bearer(old))).status_code == 401
    assert (await http.get("/api/v1/jobs", headers=bearer(new))).status_code == 200


async def test_known_tokens_outlast_a_short_outage_of_the_store(
    http: AsyncClient, admin: str, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 200

    async def fail(*_: object) -> None:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(runtime.store, "find_token", fail)
    monkeypatch.setattr(runtime.store, "read_access_revision", fail)
    assert (await http.get("/api/v1/me", headers=bearer(UNKNOWN))).status_code == 503
    runtime.clock.advance(BLIND_SECONDS)
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 200
    runtime.clock.advance(1)
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 503


async def test_many_first_requests_at_once_are_not_taken_for_guesses(
    http: AsyncClient, admin: str, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart: of one token, and of many, from one address, while the store takes its time."""
    texts = [admin] * 64
    for number in range(64):
        texts.append(await make_token(http, admin, f"a-{number}", {"*": "viewer"}, "viewer"))
    find, asked = runtime.store.find_token, list[str]()

    async def find_slowly(prefix: str) -> Any:
        asked.append(prefix)
        for _ in range(20):
            await asyncio.sleep(0)
        return await find(prefix)

    monkeypatch.setattr(runtime.store, "find_token", find_slowly)
    identities = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(2000), waiter=ManualWaiter())
    await identities.refresh()
    async with client_of(api_of(runtime, identities=identities)) as restarted:
        answers = await asyncio.gather(*(restarted.get("/api/v1/me", headers=bearer(text)) for text in texts))
        assert {answer.status_code for answer in answers} == {200}
        assert len(asked) <= 64 + 10
        guesses = [bearer(write_token(bytes([number]) * 37)) for number in range(64)]
        refused = await asyncio.gather(*(restarted.get("/api/v1/me", headers=one) for one in guesses))
    assert Counter(answer.status_code for answer in refused) == {401: 20, 429: 44}


async def test_an_outage_of_the_store_counts_nobody_as_a_guesser(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def fail(*_: object) -> None:
        raise StoreUnavailable("it is away")

    with monkeypatch.context() as away:
        away.setattr(runtime.store, "find_token", fail)
        for _ in range(30):
            assert (await http.get("/api/v1/me", headers=bearer(UNKNOWN))).status_code == 503
    assert (await http.get("/api/v1/me", headers=bearer(UNKNOWN))).status_code == 401


async def test_an_unknown_token_is_asked_for_once_in_a_while(
    admin: str, runtime: ManualRuntime, identities: Identities, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = runtime.store.find_token

    async def count(prefix: str) -> Any:
        asked.append(prefix)
        return await find(prefix)

    monkeypatch.setattr(runtime.store, "find_token", count)
    for _ in range(3):
        assert await identities.look_up(UNKNOWN) is None
    assert len(asked) == 1
    runtime.clock.advance(UNKNOWN_SECONDS)
    assert await identities.look_up(UNKNOWN) is None
    assert len(asked) == 2


async def test_what_was_read_before_a_change_is_not_recalled_after_it(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The answer about a token is late: meanwhile the token was revoked, and this server knows."""
    text = await make_token(http, admin, "ann", {"*": "viewer"}, "viewer")
    find = runtime.store.find_token

    async def find_late(prefix: str) -> Any:
        found = await find(prefix)
        await runtime.store.revoke_token(prefix, now=runtime.clock.now())
        await identities.refresh()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "find_token", find_late)
        await http.get("/api/v1/jobs", headers=bearer(text))
    assert (await http.get("/api/v1/jobs", headers=bearer(text))).status_code == 401


async def test_when_a_token_was_used_is_kept_now_and_then(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities
) -> None:
    uses = TokenUses(runtime.store, identities, waiter=ManualWaiter())
    runtime.clock.advance(30)
    await http.get("/api/v1/jobs", headers=bearer(admin))
    [shown] = (await http.get(TOKENS, headers=bearer(admin))).json()["items"]
    assert shown["last_used_at"] is None
    await uses.tick(runtime.clock.now())
    [shown] = (await http.get(TOKENS, headers=bearer(admin))).json()["items"]
    assert shown["last_used_at"].startswith("2026-01-05T12:00:30")


async def test_uses_that_the_store_did_not_take_are_kept_later(
    http: AsyncClient,
    admin: str,
    runtime: ManualRuntime,
    identities: Identities,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_uses: object) -> None:
        raise StoreUnavailable("gone")

    uses = TokenUses(runtime.store, identities, waiter=ManualWaiter())
    await http.get("/api/v1/jobs", headers=bearer(admin))
    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "note_token_uses", fail)
        with pytest.raises(StoreUnavailable):
            await uses.tick(runtime.clock.now())
    await uses.tick(runtime.clock.now())
    [shown] = (await http.get(TOKENS, headers=bearer(admin))).json()["items"]
    assert shown["last_used_at"] is not None


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(AccessRole))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
async def test_a_role_may_do_what_its_rights_say_and_only_where_it_has_it(
    runtime: ManualRuntime, operation: Operation[Any], role: AccessRole
) -> None:
    identities = Identities(runtime.store, clock=runtime.clock, ids=IdSequence(1000), waiter=ManualWaiter())
    url = operation.url("x" if operation.variable else None)
    async with client_of(api_of(runtime, identities=identities)) as http:
        admin = await made(await http.post(TOKENS, json=FIRST))
        everywhere = await make_token(http, admin, "a", {"*": role.value}, role.value)
        in_shop = await make_token(http, admin, "s", {"shop": role.value}, role.value)

        async def status(text: str, tenant: str | None = None) -> int:
            headers = bearer(text) if tenant is None else bearer(text, **{"Mainspring-Tenant": tenant})
            answer = await http.request(operation.method, url, content=b"[", headers=headers)
            return answer.status_code

        may = operation.right in RIGHTS_OF[role]
        for text, tenant, expected in (
            (everywhere, None, may),
            (everywhere, "shop", may),
            (in_shop, None, may and not operation.needs_all_tenants),
            (in_shop, "shop", may and not operation.needs_all_tenants),
        ):
            assert (await status(text, tenant) != 403) is expected, (tenant, expected)
        if operation.is_of_tenant:
            assert await status(in_shop, "mail") == 403


@pytest.mark.parametrize(
    ("grants", "role", "tenant", "rights"),
    [
        ({"*": "admin"}, "viewer", None, RIGHTS_OF[AccessRole.VIEWER]),
        ({"*": "admin"}, "editor", "shop", RIGHTS_OF[AccessRole.EDITOR]),
        ({"shop": "editor", "*": "viewer"}, "editor", "shop", RIGHTS_OF[AccessRole.EDITOR]),
    ],
)
async def test_a_token_may_do_the_least_of_what_it_and_its_account_may(
    http: AsyncClient,
    admin: str,
    grants: dict[str, str],
    role: str,
    tenant: str | None,
    rights: frozenset[Right],
) -> None:
    given = {} if tenant is None else {"tenant": tenant}
    text = await make_token(http, admin, "ann", grants, role, **given)
    me = (await http.get("/api/v1/me", headers=bearer(text))).json()
    assert me["rights"] == sorted(right.value for right in rights - {Right.PUBLIC})


async def test_a_request_is_for_the_only_tenant_or_names_one(http: AsyncClient, admin: str) -> None:
    one = await make_token(http, admin, "one", {"shop": "editor"}, "editor")
    two = await make_token(http, admin, "two", {"shop": "editor", "mail": "viewer"}, "viewer")
    body = {"name": "report", "every": "1h", "function": "work"}
    assert (await http.post("/api/v1/jobs", json=body, headers=bearer(one))).status_code == 201

    async def names(text: str, tenant: str | None = None) -> tuple[int, list[str]]:
        headers = bearer(text) if tenant is None else bearer(text, **{"Mainspring-Tenant": tenant})
        answer = await http.get("/api/v1/jobs", headers=headers)
        return answer.status_code, [job["name"] for job in answer.json().get("items", [])]

    assert await names(one) == (200, ["report"])
    assert await names(two) == (400, [])
    assert await names(two, "shop") == (200, ["report"])
    assert await names(two, "mail") == (200, [])
    assert await names(one, "mail") == (403, [])
    assert await names(admin) == (200, [])
    assert await names(admin, "shop") == (200, ["report"])


async def test_another_tenants_job_does_not_exist(http: AsyncClient, admin: str) -> None:
    shop = await make_token(http, admin, "one", {"shop": "editor"}, "editor")
    mail = await make_token(http, admin, "two", {"mail": "editor"}, "editor")
    body = {"name": "report", "every": "1h", "function": "work"}
    job = (await http.post("/api/v1/jobs", json=body, headers=bearer(shop))).json()
    path = f"/api/v1/jobs/{job['job_id']}"
    assert (await http.get(path, headers=bearer(mail))).status_code == 404
    assert (await http.delete(path, headers=bearer(mail))).status_code == 404
    assert (await http.get(path, headers=bearer(shop))).status_code == 200


async def test_limits_of_the_cluster_are_for_administrators_of_all(http: AsyncClient, admin: str) -> None:
    shop = await make_token(http, admin, "one", {"shop": "admin"}, "admin")
    path, body = "/api/v1/limits/mail?scope=cluster", {"max_running": 1}
    assert (await http.put(path, json=body, headers=bearer(shop))).status_code == 403
    assert (await http.put(path, json=body, headers=bearer(admin))).status_code == 201


async def test_a_tenant_sees_its_own_series(runtime: ManualRuntime, identities: Identities) -> None:
    seen: list[str | None] = []

    def expose(tenant: str | None) -> str:
        seen.append(tenant)
        return ""

    async with client_of(api_of(runtime, identities=identities, expose=expose)) as http:
        admin = await made(await http.post(TOKENS, json=FIRST))
        shop = await make_token(http, admin, "one", {"shop": "viewer"}, "viewer")
        for text in (admin, shop):
            assert (await http.get("/metrics", headers=bearer(text))).status_code == 200
    assert seen == [None, "shop"]


async def test_a_session_is_used_by_its_account_alone(
    http: AsyncClient, admin: str, runtime: ManualRuntime
) -> None:
    """Whoever may work and guesses ids could otherwise end the runs of others: the token of a lease is mostly 1."""
    one, other = [await make_token(http, admin, name, {"*": "worker"}, "worker") for name in ("one", "other")]

    async def ask(text: str, call: str, **body: Any) -> Any:
        answer = await http.post(f"/api/v1/worker/{call}", json=body, headers=bearer(text))
        assert answer.status_code in {200, 201, 204}, answer.text
        return answer.json() if answer.content else None

    offer = {"protocol": 2, "name": "w", "host": "h", "pid": 1, "slots": 5, "functions": ["work"]}
    mine = (await ask(one, "register", **offer))["session_id"]
    job = await http.post("/api/v1/jobs", json={"name": "j", "function": "work"}, headers=bearer(admin))
    path = f"/api/v1/jobs/{job.json()['job_id']}/runs"
    run_id = (await http.post(path, headers=bearer(admin))).json()["run_id"]
    claim = {"session_id": mine, "number": 1, "limit": 5, "is_idle": True, "wait_seconds": 0}
    assert (await ask(other, "claim", **claim))["is_session_live"] is False
    assert (await ask(other, "beat", session_id=mine))["is_session_live"] is False
    assert (await ask(other, "beat", session_id="ses_99"))["is_session_live"] is False
    assert (await ask(one, "beat", session_id=mine))["is_session_live"] is True
    [session] = await runtime.store.list_sessions()
    [lease] = await claim_in(runtime.store, session.id, now=runtime.clock.now())
    report = {"run_id": run_id, "token": lease.token, "outcome": "success"}
    assert (await ask(other, "report", session_id=mine, reports=[report]))["results"] == ["stale"]
    await ask(other, "leave", session_id=mine)
    assert (await ask(one, "report", session_id=mine, reports=[report]))["results"] == ["applied"]
    shown = (await http.get(f"/api/v1/runs/{run_id}", headers=bearer(admin))).json()
    assert shown["status"] == "SUCCEEDED"


async def test_a_failover_that_loses_changes_leaves_no_right_behind(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The revision is the same again in the end, but what it stands for is not."""
    ann = await make_token(http, admin, "ann", {"*": "editor"}, "editor")
    assert "edit" in (await http.get("/api/v1/me", headers=bearer(ann))).json()["rights"]
    for lost in (await runtime.store.read_access_revision() - 1, 0):

        async def read_less(revision: int = lost) -> int:
            return revision

        with monkeypatch.context() as patch:
            patch.setattr(runtime.store, "read_access_revision", read_less)
            await identities.refresh()
        assert identities.recall(ann) is None
        assert not identities.is_open, "it does not open again"
        await identities.refresh()


async def test_a_token_is_asked_for_again_after_a_while(
    http: AsyncClient, admin: str, runtime: ManualRuntime, identities: Identities
) -> None:
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 200
    runtime.clock.advance(LONGEST_KNOWN)
    await identities.refresh()
    assert identities.recall(admin) is not None
    runtime.clock.advance(1)
    await identities.refresh()
    assert identities.recall(admin) is None


async def test_an_outage_just_after_a_token_was_made_does_not_lose_its_text(
    http: AsyncClient, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> int:
        raise StoreUnavailable("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "read_access_revision", fail)
        text = await made(await http.post(TOKENS, json=FIRST))
    assert (await http.get("/api/v1/me", headers=bearer(text))).status_code == 200


async def test_claims_that_wait_are_answered_when_a_token_is_revoked(
    http: AsyncClient, admin: str, identities: Identities
) -> None:
    """Or a worker could get runs for as long as its last claim may wait."""
    told: list[str] = []
    text = await make_token(http, admin, "w", {"*": "worker"}, "worker")
    identities.on_change = lambda: told.append("changed")
    await http.post(f"{TOKENS}/{text.split('_')[1]}/revoke", headers=bearer(admin))
    assert told == ["changed"]


# -- tokens of one's own, and of others --------------------------------------------------------------------------------


async def test_everyone_manages_the_tokens_of_the_own_account(http: AsyncClient, admin: str) -> None:
    ann = await make_token(http, admin, "ann", {"shop": "operator"}, "operator")
    bob = await make_token(http, admin, "bob", {"shop": "operator"}, "viewer")
    body = {"name": "script", "role": "viewer"}
    second = await made(await http.post(TOKENS, json=body, headers=bearer(ann)))
    listed = (await http.get(TOKENS, headers=bearer(second))).json()["items"]
    assert {token["account"] for token in listed} == {"ann"}
    assert len(listed) == 2
    for text in (second, bob):  # neither does more than the token with which it is asked for
        refused = await http.post(TOKENS, json=body | {"role": "operator"}, headers=bearer(text))
        assert refused.status_code == 403, refused.text
    for call in ("rotate", "revoke"):
        answer = await http.post(f"{TOKENS}/{bob.split('_')[1]}/{call}", headers=bearer(ann))
        assert answer.status_code == 404
    assert (await http.get(f"{TOKENS}?account=bob", headers=bearer(ann))).status_code == 403
    refused = await http.post(TOKENS, json=body | {"account": "bob"}, headers=bearer(ann))
    assert refused.status_code == 403
    assert len((await http.get(TOKENS, headers=bearer(admin))).json()["items"]) == 4
    assert (
        await http.post(f"{TOKENS}/{second.split('_')[1]}/revoke", headers=bearer(ann))
    ).status_code == 200
    assert (await http.get("/api/v1/me", headers=bearer(second))).status_code == 401


async def test_a_token_makes_none_that_outlasts_it_or_may_do_more(http: AsyncClient, admin: str) -> None:
    short = await make_token(http, admin, "ann", {"*": "operator"}, "operator", expires_in="1h", rate=5)
    body = {"name": "x", "role": "operator"}
    for more, field in (({"expires_in": "2h"}, "expires_in"), ({"rate": 6}, "rate")):
        refused = await http.post(TOKENS, json=body | more, headers=bearer(short))
        assert refused.status_code == 403
        assert refused.json()["errors"][0]["field"] == field
    child = (await http.post(TOKENS, json=body, headers=bearer(short))).json()
    assert (child["expires_at"][:19], child["rate"]) == ("2026-01-05T13:00:00", 5)
    again = await http.post(f"{TOKENS}/{child['prefix']}/rotate", headers=bearer(short))
    assert again.json()["expires_at"][:19] == "2026-01-05T13:00:00"
    whole = await http.post(f"{TOKENS}/{again.json()['prefix']}/rotate", headers=bearer(admin))
    assert whole.status_code == 201


async def test_a_lesser_token_revokes_none_that_may_do_more(http: AsyncClient, admin: str) -> None:
    body = {"name": "dashboard", "role": "viewer"}
    viewer = await made(await http.post(TOKENS, json=body, headers=bearer(admin)))
    refused = await http.post(f"{TOKENS}/{admin.split('_')[1]}/revoke", headers=bearer(viewer))
    assert refused.status_code == 403
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 200
    itself = await http.post(f"{TOKENS}/{viewer.split('_')[1]}/revoke", headers=bearer(viewer))
    assert itself.status_code == 200


async def test_other_roles_leave_a_disabled_account_disabled(http: AsyncClient, admin: str) -> None:
    await add_account(http, admin, "ann", grants={"*": "viewer"}, disabled=True)
    changed = await add_account(http, admin, "ann", grants={"*": "editor"})
    assert changed.json()["disabled"] is True
    changed = await add_account(http, admin, "ann", grants={"*": "editor"}, disabled=False)
    assert changed.json()["disabled"] is False


@pytest.mark.parametrize("path", [f"{TOKENS}/%00/revoke", f"{TOKENS}/a%0Ab/rotate"])
async def test_a_name_that_cannot_be_shown_is_not_there(http: AsyncClient, admin: str, path: str) -> None:
    assert (await http.post(path, headers=bearer(admin))).status_code == 404


async def test_a_token_in_a_path_is_not_repeated(http: AsyncClient, admin: str) -> None:
    refused = await http.get(f"/api/v1/jobs/{admin}", headers=bearer(admin))
    assert refused.status_code == 404
    assert refused.json()["instance"] == "/api/v1/jobs/ms_…"


async def test_a_process_administers_its_own_server(
    http: AsyncClient, admin: str, identities: Identities
) -> None:
    own = bearer(identities.own_token)
    put = await http.put(f"{ACCOUNTS}/bob", json={"grants": {"*": "viewer"}}, headers=own)
    assert put.status_code == 201
    body = {"name": "t", "role": "viewer", "account": "bob"}
    assert (await http.post(TOKENS, json=body, headers=own)).status_code == 201


async def test_a_token_promises_no_more_than_its_account_may(http: AsyncClient, admin: str) -> None:
    await add_account(http, admin, "ann", grants={"shop": "operator"})
    for wrong in ({"role": "editor"}, {"role": "operator", "tenant": "mail"}, {"role": "worker"}):
        body = {"name": "t", "account": "ann", **wrong}
        refused = await http.post(TOKENS, json=body, headers=bearer(admin))
        assert refused.status_code == 422, refused.text
        assert "it has shop=operator" in refused.json()["errors"][0]["message"]


async def test_somebody_can_always_administer_the_server(http: AsyncClient, admin: str) -> None:
    changes: list[dict[str, Any]] = [
        {"grants": {"*": "editor"}},
        {"grants": {"*": "admin"}, "disabled": True},
        {"disabled": True},
        {"grants": {}},
    ]
    for change in changes:
        refused = await add_account(http, admin, "anybody", **change)
        assert refused.status_code == 409
        assert "no other account" in refused.json()["errors"][0]["message"]


async def test_what_is_left_out_of_an_account_stays_as_it_is(http: AsyncClient, admin: str) -> None:
    text = await make_token(http, admin, "ann", {"shop": "operator", "bank": "viewer"}, "viewer")
    hides = await add_account(http, admin, "ann", hides_payloads=["shop"])
    assert hides.json()["grants"] == {"bank": "viewer", "shop": "operator"}
    changes: list[dict[str, Any]] = [{"disabled": True}, {"grants": None, "disabled": False}, {}]
    for change in changes:
        answer = await add_account(http, admin, "ann", **change)
        assert answer.status_code == 200, answer.text
        account = answer.json()
        assert account["grants"] == {"bank": "viewer", "shop": "operator"}, change
        assert (account["hides_payloads"], account["disabled"]) == (["shop"], bool(change.get("disabled")))
    in_shop = bearer(text, **{"Mainspring-Tenant": "shop"})
    assert (await http.get("/api/v1/jobs", headers=in_shop)).status_code == 200
    answer = await add_account(http, admin, "ann", grants={})
    assert (answer.json()["grants"], answer.json()["hides_payloads"]) == ({}, [])
    page = (await http.get("/api/v1/audit?kind=account&subject=ann", headers=bearer(admin))).json()["items"]
    told = [(one["before"] or {}, one["after"]) for one in reversed(page)]
    roles = {"bank": "viewer", "shop": "operator"}
    assert [(before.get("grants"), after["grants"], after["is_disabled"]) for before, after in told] == [
        (None, roles, False),
        ({"shop": "operator"}, {"shop": "operator"}, False),
        ({}, {}, True),
        ({}, {}, False),
        (roles, {}, False),
    ]


@pytest.mark.parametrize("fields", [{}, {"disabled": True}, {"grants": None, "hides_payloads": []}])
async def test_a_new_account_is_told_its_roles_so_that_a_slip_makes_none(
    http: AsyncClient, admin: str, fields: dict[str, Any]
) -> None:
    refused = await add_account(http, admin, "suport", **fields)
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["field"]) == (422, "grants")
    assert error["message"] == "'suport' is no account yet; a new one is given its roles, or {} for none"
    assert (await http.get(f"{ACCOUNTS}/suport", headers=bearer(admin))).status_code == 404
    made = await add_account(http, admin, "suport", grants={})
    assert (made.status_code, made.json()["grants"]) == (201, {})


async def test_pages_of_accounts_and_tokens(http: AsyncClient, admin: str) -> None:
    for name in ("ann", "bob"):
        await make_token(http, admin, name, {"*": "viewer"}, "viewer")
    page = (await http.get(f"{ACCOUNTS}?limit=2", headers=bearer(admin))).json()
    assert ([account["name"] for account in page["items"]], page["next"]) == (["ann", "anybody"], "anybody")
    page = (await http.get(f"{ACCOUNTS}?after=anybody", headers=bearer(admin))).json()
    assert ([account["name"] for account in page["items"]], page["next"]) == (["bob"], None)
    first = (await http.get(f"{TOKENS}?limit=2", headers=bearer(admin))).json()
    rest = (await http.get(f"{TOKENS}?after={first['next']}", headers=bearer(admin))).json()
    prefixes = [token["prefix"] for page in (first, rest) for token in page["items"]]
    assert prefixes == sorted(prefixes)
    assert len(prefixes) == 3
    assert (await http.get(f"{ACCOUNTS}/ann", headers=bearer(admin))).json()["grants"] == {"*": "viewer"}
    assert (await http.get(f"{ACCOUNTS}/nobody", headers=bearer(admin))).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "admin"}, "name"),
        ({"name": "", "role": "admin"}, "name"),
        ({"name": "x" * 101, "role": "admin"}, "name"),
        ({"name": "t"}, "role"),
        ({"name": "t", "role": "root"}, "role"),
        ({"name": "t", "role": "admin", "expires_in": "soon"}, "expires_in"),
        ({"name": "t", "role": "admin", "expires_in": "0s"}, "expires_in"),
        ({"name": "t", "role": "admin", "rate": 0}, "rate"),
        ({"name": "t", "role": "admin", "rate": "many"}, "rate"),
        ({"name": "t", "role": "admin", "tenant": "a b"}, "tenant"),
        ({"name": "t", "role": "admin", "account": "a b"}, "account"),
        ({"name": "t", "role": "admin", "scopes": []}, "scopes"),
    ],
)
async def test_a_wrong_wish_for_a_token_names_the_field_and_makes_none(
    http: AsyncClient, body: dict[str, Any], field: str
) -> None:
    refused = await http.post(TOKENS, json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field
    assert (await http.get("/api/v1/jobs")).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"grants": {"shop": "root"}}, "grants.shop"),
        ({"grants": {"a b": "viewer"}}, "grants"),
        ({"grants": ["viewer"]}, "grants"),
        ({"disabled": "yes"}, "disabled"),
        ({"roles": {}}, "roles"),
    ],
)
async def test_a_wrong_account_names_the_field_and_changes_nothing(
    http: AsyncClient, admin: str, body: dict[str, Any], field: str
) -> None:
    refused = await add_account(http, admin, "ann", **body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field
    assert (await http.get(f"{ACCOUNTS}/ann", headers=bearer(admin))).status_code == 404


async def test_an_account_of_a_wrong_name_is_refused(http: AsyncClient, admin: str) -> None:
    refused = await add_account(http, admin, "a%20b", grants={})
    assert refused.json()["errors"][0]["field"] == "account"


async def test_a_token_has_its_own_rate(http: AsyncClient, admin: str, runtime: ManualRuntime) -> None:
    slow = await make_token(http, admin, "ann", {"*": "viewer"}, "viewer", rate=2)
    statuses = [(await http.get("/api/v1/me", headers=bearer(slow))).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = await http.get("/api/v1/me", headers=bearer(slow))
    assert refused.headers["retry-after"] == "1"
    assert (await http.get("/api/v1/me", headers=bearer(admin))).status_code == 200
    runtime.clock.advance(timedelta(seconds=1).total_seconds())
    assert (await http.get("/api/v1/me", headers=bearer(slow))).status_code == 200
