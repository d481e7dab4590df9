"""Pauses over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.testing.factories import at
from mainspring.testing.manual import ManualRuntime

NOW = "2026-01-05T12:00:00Z"
MAIL = {
    "scope": "queue",
    "name": "mail",
    "mode": "hold",
    "note": "",
    "made_by": "local",
    "since": NOW,
    "until": None,
}
TARGETS = {"/queues/mail": MAIL, "/tenants/acme": MAIL | {"scope": "tenant", "name": "acme"}}
TARGETS[""] = MAIL | {"scope": "all", "name": ""}


@pytest.mark.parametrize("target", TARGETS)
async def test_what_is_paused_is_shown_until_it_is_resumed(http: AsyncClient, target: str) -> None:
    assert (await http.get("/api/v1/pauses")).json() == {"items": [], "blackouts": []}
    answer = await http.post(
        f"/api/v1{target}/pause", json={"note": "upgrade", "until": "2026-01-06T02:00:00Z"}
    )
    told = TARGETS[target] | {"note": "upgrade", "until": "2026-01-06T02:00:00Z"}
    assert (answer.status_code, answer.json()) == (200, {"items": [told], "blackouts": []})
    again = await http.post(f"/api/v1{target}/pause")
    assert again.json() == {"items": [TARGETS[target]], "blackouts": []}
    assert (await http.get("/api/v1/pauses")).json() == again.json()
    for _ in range(2):
        resumed = await http.post(f"/api/v1{target}/resume")
        assert (resumed.status_code, resumed.json()) == (200, {"items": [], "blackouts": []})


async def test_the_answer_has_all_that_is_paused(http: AsyncClient, runtime: ManualRuntime) -> None:
    await http.post("/api/v1/pause", json={"until": at(5).isoformat()})
    answer = await http.post("/api/v1/queues/mail/pause")
    assert [pause["scope"] for pause in answer.json()["items"]] == ["all", "queue"]
    runtime.clock.advance(5)
    assert (await http.get("/api/v1/pauses")).json() == {"items": [MAIL], "blackouts": []}


@pytest.mark.parametrize(
    "body", [{"until": NOW}, {"until": "tomorrow"}, {"mode": "stop"}, {"note": "a" * 201}, {"calendar": "x"}]
)
async def test_a_wrong_pause_is_refused_and_nothing_is_stored(
    http: AsyncClient, body: dict[str, Any]
) -> None:
    answer = await http.post("/api/v1/queues/mail/pause", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == list(body)
    assert (await http.get("/api/v1/pauses")).json() == {"items": [], "blackouts": []}


@pytest.mark.parametrize("kind", ["queue", "tenant"])
@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_name_that_cannot_be_one_is_refused(http: AsyncClient, kind: str, verb: str) -> None:
    answer = await http.post(f"/api/v1/{kind}s/a%20b/{verb}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, kind)


async def test_programs_of_an_older_release_are_named(
    http: AsyncClient, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def add_pauses(*_: Any, **__: Any) -> list[str]:
        return ["worker old (host a, pid 7)"]

    monkeypatch.setattr(runtime.store, "add_pauses", add_pauses)
    answer = await http.post("/api/v1/queues/mail/pause")
    assert answer.status_code == 409
    assert "worker old (host a, pid 7)" in answer.json()["detail"]


async def test_why_says_by_whom_and_until_when(http: AsyncClient, job: dict[str, Any]) -> None:
    run = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()
    await http.post("/api/v1/queues/default/pause", json={"note": "upgrade", "until": "2026-01-06T02:00:00Z"})
    why = (await http.get(f"/api/v1/runs/{run['run_id']}/why")).json()
    assert why["code"] == "paused"
    assert why["sentence"] == (
        "Queue 'default' is paused until 2026-01-06T02:00:00.000Z by local, since 2026-01-05T12:00:00.000Z: upgrade."
    )
    assert why["until"] == "2026-01-06T02:00:00Z"
