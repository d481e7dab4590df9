"""Jobs that are kept in files, on the server's side: what would change, and the change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.testing.manual import ManualRuntime

JOBS = "/api/v1/jobs"
HOURLY: dict[str, Any] = {"name": "hourly", "every": "1h", "function": "work"}


async def send(http: AsyncClient, verb: str, *bodies: dict[str, Any]) -> dict[str, str]:
    answer = await http.post(f"{JOBS}/{verb}", json=list(bodies))
    assert answer.status_code == 200, answer.text
    return {one["name"]: one["outcome"] for one in answer.json()}


async def versions(http: AsyncClient) -> dict[str, int]:
    return {job["name"]: job["version"] for job in (await http.get(JOBS)).json()["items"]}


async def test_jobs_become_what_they_are_to_be_and_then_stay(http: AsyncClient, job: dict[str, Any]) -> None:
    report = {"name": "report", "cron": "0 9 * * *", "function": "work", "queue": "slow"}
    wanted = {"report": "changed", "hourly": "created"}
    assert await send(http, "diff", report, HOURLY) == wanted
    assert await versions(http) == {"report": 1}
    assert await send(http, "apply", report, HOURLY) == wanted
    assert await versions(http) == {"report": 2, "hourly": 1}
    for verb in ("diff", "apply", "apply"):
        assert await send(http, verb, HOURLY, report) == {"report": "unchanged", "hourly": "unchanged"}
    assert await versions(http) == {"report": 2, "hourly": 1}


async def test_changes_are_told_by_field(http: AsyncClient, job: dict[str, Any]) -> None:
    body = {"name": "report", "cron": "0 8 * * *", "function": "work"}
    (told,) = (await http.post(f"{JOBS}/diff", json=[body])).json()
    assert told == {
        "name": "report",
        "job_id": job["job_id"],
        "outcome": "changed",
        "owner": None,
        "changes": [{"field": "trigger.expression", "before": "0 9 * * *", "after": "0 8 * * *"}],
        "schedule_warnings": [],
    }


async def test_an_anchor_that_nobody_gave_is_not_told(http: AsyncClient, runtime: ManualRuntime) -> None:
    job = (await http.post(JOBS, json=HOURLY)).json()
    await runtime.advance(100)
    wanted = {**HOURLY, "every": "2h"}
    for verb in ("diff", "apply"):
        (told,) = (await http.post(f"{JOBS}/{verb}", json=[wanted])).json()
        assert [change["field"] for change in told["changes"]] == ["trigger.every_seconds"]
    await runtime.advance(100)
    await http.patch(f"{JOBS}/{job['job_id']}", json={"every": "3h"})
    await runtime.advance(100)
    await http.put(JOBS, json={**HOURLY, "every": "4h"})
    versions = (await http.get(f"{JOBS}/{job['job_id']}/versions")).json()["items"]
    told = [[change["field"] for change in version["changes"]] for version in versions]
    assert told == [["trigger.every_seconds"]] * 3 + [[]]


@pytest.mark.parametrize("verb", ["diff", "apply"])
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "b", "function": "work", "queu": "a"}, "[1].queu"),
        ({"name": "b", "function": "nowhere"}, "[1].function"),
        ({"name": "hourly", "function": "work"}, "[1].name"),
        ({"function": "work"}, "[1].name"),
        ({"name": 7, "function": "work"}, "[1].name"),
        ({"name": "b", "function": "work", "priority": "none"}, "[1].priority"),
        ({"name": "b", "function": "work", "concurrency": [{"use": "none"}]}, "[1].concurrency[0].use"),
        ({"name": "b", "function": "work", "every": "1h", "calendars": {"exclude": ["x"]}}, "[1].calendars"),
    ],
)
async def test_one_wrong_job_refuses_all(
    http: AsyncClient, verb: str, wrong: dict[str, Any], field: str
) -> None:
    refused = await http.post(f"{JOBS}/{verb}", json=[HOURLY, wrong])
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"].startswith(field)
    assert await versions(http) == {}


async def test_a_list_of_jobs_is_wanted(http: AsyncClient) -> None:
    bodies: list[Any] = [{}, [], [3], "x"]
    for body in bodies:
        assert (await http.post(f"{JOBS}/apply", json=body)).status_code == 422


async def test_a_new_schedule_moves_the_next_fire(http: AsyncClient, job: dict[str, Any]) -> None:
    await send(http, "apply", {"name": "report", "cron": "0 8 * * *", "function": "work"})
    changed = (await http.get(f"{JOBS}/{job['job_id']}")).json()
    assert changed["next_fire_time"][11:16] == "08:00"
    assert changed["next_fire_time"] != job["next_fire_time"]


async def test_an_instant_that_has_passed_stays_right(http: AsyncClient, runtime: ManualRuntime) -> None:
    at = (runtime.clock.now() + timedelta(hours=1)).isoformat()
    once = {"name": "once", "run_at": at, "function": "work"}
    await send(http, "apply", once)
    await runtime.advance(7200, step=600)
    assert await send(http, "apply", once) == {"once": "unchanged"}


DEFINITIONS = "/api/v1/definitions"


async def put(http: AsyncClient, *bodies: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = await http.put(DEFINITIONS, json={"jobs": list(bodies), **fields})
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "every": "1h", "function": "work"} for name in names]


async def owners(http: AsyncClient) -> dict[str, str | None]:
    return {job["name"]: job["owner"] for job in (await http.get(JOBS)).json()["items"]}


async def test_definitions_are_applied_with_their_owners_and_pruned(http: AsyncClient) -> None:
    shop = {"owner": "shop", "jobs": ["a", "b"]}
    first = await put(http, *named("a", "b", "c", "d"), owners=[shop, {"owner": "mail", "jobs": ["c"]}])
    assert [one["outcome"] for one in first["jobs"]] == ["created"] * 4
    assert [(one["owner"], one["undefined"]) for one in first["owners"]] == [("shop", []), ("mail", [])]
    assert await owners(http) == {"a": "shop", "b": "shop", "c": "mail", "d": None}

    kept = await put(http, *named("a"), owners=[{"owner": "shop", "jobs": ["a"]}])
    assert [one["name"] for one in kept["owners"][0]["undefined"]] == ["b"]
    assert await owners(http) == {"a": "shop", "b": "shop", "c": "mail", "d": None}

    run = (await http.post(f"{JOBS}/{first['jobs'][1]['job_id']}/runs", json={})).json()
    gone = await put(http, *named("a"), owners=[{"owner": "shop", "jobs": ["a"]}], prune=True)
    assert [one["name"] for one in gone["owners"][0]["deleted"]] == ["b"]
    assert (await owners(http)).keys() == {"a", "c", "d"}
    ended = (await http.get(f"/api/v1/runs/{run['run_id']}")).json()
    assert (ended["status"], ended["reason"]) == ("CANCELLED", "job_deleted")


async def test_a_job_that_moves_to_another_owner_is_not_pruned(http: AsyncClient) -> None:
    await put(http, *named("a", "b"), owners=[{"owner": "shop", "jobs": ["a", "b"]}])
    moved = [{"owner": "mail", "jobs": ["b"]}, {"owner": "shop", "jobs": ["a"]}]
    told = await put(http, *named("a", "b"), owners=moved, prune=True)
    assert [one["taken"] for one in told["owners"]] == [[{"name": "b", "owner": "shop"}], []]
    assert [one["deleted"] for one in told["owners"]] == [[], []]
    assert await owners(http) == {"a": "shop", "b": "mail"}


async def test_an_owner_may_have_no_jobs_any_more(http: AsyncClient) -> None:
    await put(http, *named("a"), owners=[{"owner": "shop", "jobs": ["a"]}])
    await put(http, owners=[{"owner": "shop", "jobs": []}], prune=True)
    assert await owners(http) == {}


async def test_new_jobs_are_paused_at_once_and_old_ones_stay_as_they_are(http: AsyncClient) -> None:
    await put(http, *named("a"))
    await put(http, *named("a", "b"), paused=["a", "b"])
    items = (await http.get(JOBS)).json()["items"]
    assert {job["name"]: job["is_paused"] for job in items} == {"a": False, "b": True}
    (gap,) = (await http.get(f"{JOBS}/{items[1]['job_id']}/fire-ranges")).json()["items"]
    assert gap["reason"] == "paused"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"jobs": [*named("a"), {"name": "b", "function": "work", "queu": "x"}]}, "jobs[1].queu"),
        ({"jobs": [*named("a"), {"name": "b", "function": "nowhere"}]}, "jobs[1].function"),
        ({"jobs": named("a", "a")}, "jobs[1].name"),
        ({"jobs": named(*map(str, range(1001)))}, "jobs"),
        ({"jobs": [3]}, "jobs[0]"),
        ({"jobs": named("a"), "owners": [{"owner": "a/b", "jobs": []}]}, "owners[0].owner"),
        ({"jobs": named("a"), "owners": [{"owner": "s", "jobs": []}] * 2}, "owners[1].owner"),
        ({"jobs": named("a"), "owners": [{"owner": "s", "jobs": ["a", ""]}]}, "owners[0].jobs[1]"),
        ({"jobs": named("a"), "paused": ["b"]}, "paused[0]"),
        ({"jobs": named("a"), "prun": True}, "prun"),
        ({}, "jobs"),
    ],
)
async def test_wrong_definitions_change_nothing(
    http: AsyncClient, fields: dict[str, Any], field: str
) -> None:
    refused = await http.put(DEFINITIONS, json=fields)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field
    assert await versions(http) == {}


async def test_an_owners_job_that_nobody_has_is_refused(http: AsyncClient) -> None:
    body = {"jobs": named("a"), "owners": [{"owner": "shop", "jobs": ["a", "b"]}]}
    refused = await http.put(DEFINITIONS, json=body)
    assert refused.status_code == 409
    assert refused.json()["errors"][0] == {
        "field": "owners",
        "message": "name jobs that do not exist: 'b'; apply them, too",
    }
    assert await versions(http) == {}


async def test_more_jobs_than_one_transaction_deletes_are_deleted_after_it(
    http: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.usecases.owners.MOST_TOGETHER", 2)
    await put(http, *named("a", "b", "c", "d"), owners=[{"owner": "shop", "jobs": ["a", "b", "c", "d"]}])
    told = await put(http, owners=[{"owner": "shop", "jobs": []}], prune=True)
    assert [one["name"] for one in told["owners"][0]["deleted"]] == ["a", "b", "c", "d"]
    assert await owners(http) == {}
