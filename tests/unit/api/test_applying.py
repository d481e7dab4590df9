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
        "outcome": "changed",
        "owner": None,
        "changes": [{"field": "trigger.expression", "before": "0 9 * * *", "after": "0 8 * * *"}],
    }


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
