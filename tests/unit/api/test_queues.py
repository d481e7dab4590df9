"""What is set for queues, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.testing.manual import ManualRuntime

DEFAULTS = {
    "name": "mail",
    "order": "fair",
    "preempt_after_seconds": None,
    "aging_seconds": 300.0,
    "aging_share": 0.1,
    "max_running": None,
    "running": None,
    "max_queued": None,
    "expires_after_seconds": None,
}


async def test_an_order_is_set_and_shown(http: AsyncClient) -> None:
    assert (await http.get("/api/v1/queues")).json() == {"items": [], "next": None}
    assert (await http.get("/api/v1/queues/mail")).json() == DEFAULTS
    first = await http.put("/api/v1/queues/mail", json={"order": "fifo", "aging": "1m"})
    assert (first.status_code, first.json()) == (201, DEFAULTS | {"order": "fifo", "aging_seconds": 60.0})
    again = await http.put("/api/v1/queues/mail", json={"aging_share": 0.25})
    assert (again.status_code, again.json()) == (200, DEFAULTS | {"aging_share": 0.25})
    assert (await http.get("/api/v1/queues/mail")).json() == DEFAULTS | {"aging_share": 0.25}


async def test_queues_are_listed_page_by_page(http: AsyncClient) -> None:
    for name in ("mail", "bulk", "reports"):
        await http.put(f"/api/v1/queues/{name}", json={"order": "round_robin"})
    first = (await http.get("/api/v1/queues", params={"limit": 2})).json()
    assert [item["name"] for item in first["items"]] == ["bulk", "mail"]
    rest = (await http.get("/api/v1/queues", params={"limit": 2, "after": first["next"]})).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["reports"], None)


@pytest.mark.parametrize("body", [{"order": "lifo"}, {"aging": "0s"}, {"aging_share": 0.9}, {"weight": 1}])
async def test_a_wrong_setting_is_refused_and_nothing_is_stored(
    http: AsyncClient, runtime: ManualRuntime, body: dict[str, Any]
) -> None:
    answer = await http.put("/api/v1/queues/mail", json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == list(body)
    policies = await runtime.store.read_policies()
    assert policies is not None
    assert policies.queues == {}


async def test_a_name_that_cannot_be_a_queues_is_refused(http: AsyncClient) -> None:
    answer = await http.put("/api/v1/queues/a%20b", json={"order": "fifo"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "queue")
