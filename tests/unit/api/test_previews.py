"""What a job would be and when it would fire, without making it."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

PREVIEW = "/api/v1/triggers/preview"
JOBS = "/api/v1/jobs"
BERLIN = {"schedule": "every day at 2:30", "tz": "Europe/Berlin"}


async def preview(http: AsyncClient, body: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = await http.post(PREVIEW, json=body, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_trigger_is_explained_with_what_clocks_do_to_it(http: AsyncClient) -> None:
    found = await preview(http, BERLIN, **{"from": "2026-03-28T12:00:00Z", "count": 2})
    assert found["explanation"] == "at 02:30, every day (Europe/Berlin)"
    assert found["trigger"]["expression"] == "30 2 * * *"
    assert (found["definition"], found["job_id"]) == (None, None)
    assert [(fire["local"], fire["dst"]) for fire in found["fires"]] == [
        ("2026-03-29T03:00:00+02:00", "gap"),
        ("2026-03-30T02:30:00+02:00", None),
    ]
    assert found["warnings"] == [
        "on 2026-03-29, clocks in Europe/Berlin go ahead, and there is no 02:30; it fires at 03:00 instead",
        "on 2026-10-25, clocks in Europe/Berlin go back, and 02:30 comes twice; it fires once, at 00:30 UTC",
    ]


async def test_a_whole_job_is_shown_in_full_form_and_nothing_is_made(http: AsyncClient) -> None:
    body = {"name": "a", "function": "work", "schedule": "every 2 hours", "retry": {"max_retries": 7}}
    found = await preview(http, body)
    assert found["definition"]["retry"]["max_retries"] == 7
    assert found["definition"]["trigger"] == found["trigger"]
    assert found["trigger"]["every_seconds"] == 7200
    assert (await http.get(JOBS)).json()["items"] == []


async def test_a_job_that_only_runs_when_submitted_has_no_fires(http: AsyncClient) -> None:
    found = await preview(http, {"name": "a", "function": "work"})
    assert (found["trigger"], found["fires"], found["explanation"]) == (None, [], "only when submitted")


async def test_what_would_be_refused_is_refused(http: AsyncClient) -> None:
    for body, field in (
        ({"name": "a", "function": "nowhere", "every": "1h"}, "function"),
        ({"function": "work", "every": "1h"}, "name"),
        ({"every": "1h", "quueue": "q"}, "quueue"),
        ({"priority": "HIGH"}, "trigger"),
        ({"schedule": "whenever"}, "schedule"),
        ({"every": "1h", "priority": "nowhere"}, "priority"),
    ):
        answer = await http.post(PREVIEW, json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), answer.text


async def test_jitter_is_told_as_soon_as_the_job_has_an_id(http: AsyncClient) -> None:
    body = {"name": "a", "function": "work", "cron": "0 * * * *", "jitter": "30m"}
    before = await preview(http, body, count=3)
    assert (before["job_id"], {fire["due_at"] for fire in before["fires"]}) == (None, {None})
    made = (await http.post(JOBS, json=body)).json()
    after = await preview(http, body, count=3)
    listed = (await http.get(f"{JOBS}/{made['job_id']}/fires", params={"count": 3})).json()["items"]
    assert after["job_id"] == made["job_id"]
    assert [fire["due_at"] for fire in after["fires"]] == [fire["due_at"] for fire in listed]
    assert all(fire["due_at"] > fire["fire_at"] for fire in listed)
    plain = await preview(http, {**body, "jitter": 0}, count=1)
    assert plain["fires"][0]["due_at"] == plain["fires"][0]["fire_at"]


async def test_a_job_of_that_name_keeps_its_anchor(http: AsyncClient) -> None:
    body = {
        "name": "a",
        "function": "work",
        "trigger": {"type": "interval", "every": "1h", "anchor": "2026-01-01T00:07:00Z"},
    }
    await http.post(JOBS, json=body)
    found = await preview(http, {"name": "a", "function": "work", "every": "1h"})
    assert found["trigger"]["anchor"] == "2026-01-01T00:07:00+00:00"


async def test_maximum_of_fires_is_told_and_bounds_what_is_shown(http: AsyncClient) -> None:
    body = {"name": "a", "function": "work", "cron": "0 * * * *", "max_fires": 2}
    found = await preview(http, body, count=9)
    assert (found["explanation"], len(found["fires"])) == ("at minute 0 of every hour (UTC), 2 times", 2)
    assert len((await preview(http, {"cron": "0 * * * *", "max_fires": 3}, count=9))["fires"]) == 3
    made = (await http.post(JOBS, json=body)).json()
    assert (made["max_fires"], made["fires_left"], made["explanation"]) == (2, 2, found["explanation"])
    assert made["next_fire_times"] == ["2026-01-05T13:00:00Z", "2026-01-05T14:00:00Z"]
    listed = (await http.get(f"{JOBS}/{made['job_id']}/fires", params={"count": 9})).json()["items"]
    assert [fire["fire_at"] for fire in listed] == made["next_fire_times"]


async def test_slots_are_those_that_the_job_will_have(http: AsyncClient) -> None:
    body = {"name": "nightly", "function": "work", "cron": "H H(1-4) * * *"}
    chosen = (await preview(http, body))["trigger"]["chosen"]
    assert (await http.post(JOBS, json=body)).json()["trigger"]["chosen"] == chosen
    assert (await preview(http, {"name": "nightly", "cron": "H H(1-4) * * *"}))["trigger"]["chosen"] == chosen


async def test_writes_answer_with_words_and_warnings(http: AsyncClient) -> None:
    body = {"name": "a", "function": "work", "cron": "0 0 13 * FRI"}
    made = (await http.post(JOBS, json=body)).json()
    assert made["explanation"] == "at 00:00, on day 13 of the month or on Friday (UTC)"
    assert made["schedule_warnings"] == [
        "both day fields are restricted: either one is enough here; some other tools ask for both"
    ]
    url = f"{JOBS}/{made['job_id']}"
    patch = {"run_at": "2026-03-29 02:30 Europe/Berlin"}
    edited = await http.patch(url, json=patch, headers={"content-type": "application/merge-patch+json"})
    assert edited.json()["schedule_warnings"] == [
        "2026-03-29 02:30 does not exist in Europe/Berlin, where clocks go ahead; 03:00 is meant"
    ]
    put = (await http.put(JOBS, json={"name": "a", "function": "work", "every": "90s"})).json()
    assert (put["explanation"][:14], put["schedule_warnings"]) == ("every 1m30s, c", [])
    assert "schedule_warnings" not in (await http.get(url)).json()


@pytest.mark.parametrize(
    "run_at", ["in 10m", "2026-01-05 13:10 Europe/Berlin", 1767615000, "2026-01-05T12:10:00Z"]
)
async def test_runs_are_submitted_for_instants_as_people_write_them(
    http: AsyncClient, run_at: object
) -> None:
    made = (await http.post(JOBS, json={"name": "a", "function": "work"})).json()
    url = f"{JOBS}/{made['job_id']}/runs"
    submitted = await http.post(url, json={"run_at": run_at}, headers={"Idempotency-Key": "k"})
    run = (await http.get(f"/api/v1/runs/{submitted.json()['run_id']}")).json()
    assert run["due_at"] == "2026-01-05T12:10:00Z"
    again = await http.post(url, json={"run_at": run_at}, headers={"Idempotency-Key": "k"})
    assert again.json()["run_id"] == run["run_id"]
    both = await http.post(url, json={"run_at": run_at, "delay": 3})
    assert both.json()["errors"][0]["field"] == "delay"
