"""Blackouts over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.ports.store.restrictions import BlackoutsWritten
from mainspring.testing.manual import ManualRuntime

NOW = "2026-01-05T12:00:00Z"
SHOWN = {
    "scope": "queue",
    "name": "mail",
    "tenant": "default",
    "calendar": "noon",
    "version": 1,
    "mode": "hold",
    "note": "",
    "made_by": "local",
    "since": NOW,
    "is_on": True,
    "until": "2026-01-05T13:00:00Z",
    "next_at": None,
}
TARGETS = {
    "/queues/mail": SHOWN,
    "/tenants/acme": SHOWN | {"scope": "tenant", "name": "acme", "tenant": "acme"},
    "": SHOWN | {"scope": "all", "name": ""},
}


async def write_calendar(http: AsyncClient, *, tenant: str = "default", until: str = "13:00") -> None:
    rules = [{"from": "2026-01-05T12:00", "to": f"2026-01-05T{until}"}]
    answer = await http.put(
        "/api/v1/calendars/noon", json={"rules": rules}, headers={"Mainspring-Tenant": tenant}
    )
    assert answer.is_success


@pytest.mark.parametrize("target", TARGETS)
async def test_what_was_set_is_shown_until_it_is_removed(http: AsyncClient, target: str) -> None:
    for tenant in ("default", "acme"):
        await write_calendar(http, tenant=tenant)
    url = f"/api/v1{target}/blackouts"
    assert (await http.get(url)).json() == {"items": []}
    answer = await http.put(url, json={"items": [{"calendar": "noon"}]})
    assert (answer.status_code, answer.json()) == (200, {"items": [TARGETS[target]]})
    assert (await http.get(url)).json() == answer.json()
    assert (await http.get("/api/v1/pauses")).json() == {"items": [], "blackouts": [TARGETS[target]]}
    pinned = await http.put(url, json={"items": [{"calendar": "noon@1", "mode": "skip", "note": "a"}]})
    told = TARGETS[target] | {"calendar": "noon@1", "mode": "skip", "note": "a"}
    assert pinned.json() == {"items": [told]}
    assert (await http.put(url, json={"items": []})).json() == {"items": []}


async def test_it_says_when_it_begins(http: AsyncClient, runtime: ManualRuntime) -> None:
    await write_calendar(http)
    await http.put("/api/v1/queues/mail/blackouts", json={"items": [{"calendar": "noon"}]})
    runtime.clock.advance(3600)
    [shown] = (await http.get("/api/v1/queues/mail/blackouts")).json()["items"]
    assert (shown["is_on"], shown["until"], shown["next_at"]) == (False, None, None)
    await write_calendar(http, until="14:00")
    [shown] = (await http.get("/api/v1/queues/mail/blackouts")).json()["items"]
    assert (shown["is_on"], shown["until"], shown["version"]) == (True, "2026-01-05T14:00:00Z", 2)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "items"),
        ({"items": [{"calendar": "moon"}]}, "items[0].calendar"),
        ({"items": [{"calendar": "noon", "mode": "stop"}]}, "items[0].mode"),
        ({"items": [{"calendar": "noon"}, {"calendar": "noon@1"}]}, "items[1].calendar"),
    ],
)
async def test_wrong_blackouts_are_refused_and_nothing_is_stored(
    http: AsyncClient, body: dict[str, Any], field: str
) -> None:
    await write_calendar(http)
    answer = await http.put("/api/v1/queues/mail/blackouts", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert (await http.get("/api/v1/queues/mail/blackouts")).json() == {"items": []}


@pytest.mark.parametrize("kind", ["queue", "tenant"])
async def test_a_name_that_cannot_be_one_is_refused(http: AsyncClient, kind: str) -> None:
    for answer in (
        await http.get(f"/api/v1/{kind}s/a%20b/blackouts"),
        await http.put(f"/api/v1/{kind}s/a%20b/blackouts", json={"items": []}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, kind)


async def test_programs_of_an_older_release_are_named(
    http: AsyncClient, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def set_blackouts(*_: Any, **__: Any) -> BlackoutsWritten:
        return BlackoutsWritten(older=("worker old (host a, pid 7)",))

    await write_calendar(http)
    monkeypatch.setattr(runtime.store, "set_blackouts", set_blackouts)
    answer = await http.put("/api/v1/queues/mail/blackouts", json={"items": [{"calendar": "noon"}]})
    assert answer.status_code == 409
    assert "worker old (host a, pid 7)" in answer.json()["detail"]


async def test_calendar_in_use_is_not_deleted(http: AsyncClient) -> None:
    await write_calendar(http)
    await http.put("/api/v1/queues/mail/blackouts", json={"items": [{"calendar": "noon"}]})
    answer = await http.delete("/api/v1/calendars/noon")
    assert answer.status_code == 409
    assert "'noon' is used by a blackout of queue 'mail'" in answer.json()["detail"]


async def test_previews_name_what_skips_their_fires(http: AsyncClient) -> None:
    await write_calendar(http)
    skipping = {"items": [{"calendar": "noon", "mode": "skip"}]}
    await http.put("/api/v1/queues/mail/blackouts", json=skipping)
    body = {"name": "a", "function": "work", "queue": "mail", "cron": "30 * * * *"}
    job = (await http.post("/api/v1/jobs", json=body)).json()
    fires = (await http.get(f"/api/v1/jobs/{job['job_id']}/fires?count=2")).json()["items"]
    assert [(fire["fire_at"], fire["skipped_by"]) for fire in fires] == [
        ("2026-01-05T12:30:00Z", "noon@1"),
        ("2026-01-05T13:30:00Z", None),
    ]
    await http.put("/api/v1/blackouts", json=skipping)
    preview = (await http.post("/api/v1/triggers/preview?count=1", json={"cron": "30 * * * *"})).json()
    assert [fire["skipped_by"] for fire in preview["fires"]] == ["noon@1"]
