"""Jobs over HTTP: what the requirements show, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.testing.manual import ManualRuntime

Http = AsyncClient
JOBS = "/api/v1/jobs"


async def test_create_answers_with_id_and_next_fire(http: Http) -> None:
    body = {
        "name": "daily-report",
        "cron": "0 9 * * *",
        "callback_url": "https://example.com/hooks/report",
        "priority": "HIGH",
        "payload": {"format": "pdf"},
    }
    answer = await http.post(JOBS, json=body)
    assert answer.status_code == 201
    job = answer.json()
    assert job["job_id"].startswith("job_")
    assert job["next_fire_time"] == "2026-01-06T09:00:00Z"
    assert len(job["next_fire_times"]) == 5
    assert job["trigger"] == {"type": "cron", "expression": "0 9 * * *", "tz": "UTC", "dst": "vixie"}
    assert job["target"]["url"] == "https://example.com/hooks/report"
    assert (job["priority"], job["payload"]) == ("HIGH", {"format": "pdf"})


async def test_get_answers_the_full_form_that_can_be_put_back(http: Http, job: dict[str, Any]) -> None:
    got = (await http.get(f"{JOBS}/{job['job_id']}")).json()
    assert got == {
        name: value for name, value in job.items() if name not in {"explanation", "schedule_warnings"}
    }
    fields = ("name", "target", "trigger", "payload", "priority", "retry", "misfire", "timeout_seconds")
    again = await http.put(JOBS, json={name: got[name] for name in fields})
    assert again.status_code == 200
    assert again.json()["version"] == got["version"], "nothing changed, so no new version"


async def test_put_creates_and_redefines(http: Http) -> None:
    first = await http.put(JOBS, json={"name": "a", "function": "work", "every": "60s"})
    second = await http.put(JOBS, json={"name": "a", "function": "work", "every": "30s"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert (first.json()["version"], second.json()["version"]) == (1, 2)
    assert first.json()["job_id"] == second.json()["job_id"]


async def test_status_of_a_new_job_is_pending(http: Http, job: dict[str, Any]) -> None:
    status = (await http.get(f"{JOBS}/{job['job_id']}/status")).json()
    assert status == {
        "job_id": job["job_id"],
        "status": "PENDING",
        "last_run": None,
        "last_run_id": None,
        "next_run": "2026-01-06T09:00:00Z",
        "retry_count": 0,
    }


async def test_finished_job_has_no_fires_left(http: Http, runtime: ManualRuntime) -> None:
    body = {"name": "knock", "function": "work", "every": "10s", "max_fires": 2}
    url = f"{JOBS}/{(await http.post(JOBS, json=body)).json()['job_id']}"
    await runtime.advance(11)
    assert (await http.get(url)).json()["fires_left"] == 1
    await runtime.advance(30)
    found = (await http.get(url)).json()
    assert [found[field] for field in ("fires_left", "next_fire_time", "next_fire_times")] == [0, None, []]
    assert (await http.get(f"{url}/status")).json()["next_run"] is None
    merging = {"content-type": "application/merge-patch+json"}
    again = (await http.patch(url, json={"max_fires": 3}, headers=merging)).json()
    assert (again["fires_left"], len(again["next_fire_times"])) == (3, 3)
    refused = await http.patch(url, json={"run_at": "in 10m"}, headers=merging)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "max_fires")


async def test_status_follows_the_newest_run(http: Http, job: dict[str, Any], runtime: ManualRuntime) -> None:
    run = (await http.post(f"{JOBS}/{job['job_id']}/run")).json()["run_id"]
    await (await runtime.worker()).work()
    status = (await http.get(f"{JOBS}/{job['job_id']}/status")).json()
    assert (status["status"], status["last_run_id"]) == ("SUCCEEDED", run)
    assert status["last_run"] is not None


async def test_delete_answers_deleted_and_then_404(http: Http, job: dict[str, Any]) -> None:
    run = (await http.post(f"{JOBS}/{job['job_id']}/runs")).json()["run_id"]
    answer = await http.delete(f"{JOBS}/{job['job_id']}")
    assert (answer.status_code, answer.json()) == (200, {"deleted": True})
    assert (await http.get(f"{JOBS}/{job['job_id']}")).status_code == 404
    assert (await http.delete(f"{JOBS}/{job['job_id']}")).status_code == 404
    kept = (await http.get(f"/api/v1/runs/{run}")).json()
    assert (kept["status"], kept["reason"]) == ("CANCELLED", "job_deleted")
    again = await http.post(JOBS, json={"name": "report", "function": "work"})
    assert again.status_code == 201, "the name is free at once"


async def test_patch_changes_only_what_is_given(http: Http, job: dict[str, Any]) -> None:
    changed = (
        await http.patch(f"{JOBS}/{job['job_id']}", json={"priority": "low", "tz": "Asia/Tokyo"})
    ).json()
    assert (changed["priority"], changed["version"]) == ("LOW", 2)
    assert changed["trigger"]["tz"] == "Asia/Tokyo"
    assert changed["next_fire_time"] == "2026-01-06T00:00:00Z"


async def test_pause_and_resume(http: Http, job: dict[str, Any]) -> None:
    paused = (await http.post(f"{JOBS}/{job['job_id']}/pause")).json()
    assert (paused["is_paused"], paused["next_fire_time"]) == (True, None)
    fire_ranges = (await http.get(f"{JOBS}/{job['job_id']}/fire-ranges")).json()["items"]
    assert [
        (fire_range["kind"], fire_range["reason"], fire_range["is_open"]) for fire_range in fire_ranges
    ] == [("gap", "paused", True)]
    resumed = (await http.post(f"{JOBS}/{job['job_id']}/resume")).json()
    assert (resumed["is_paused"], resumed["next_fire_time"]) == (False, "2026-01-06T09:00:00Z")
    fire_ranges = (await http.get(f"{JOBS}/{job['job_id']}/fire-ranges")).json()["items"]
    assert fire_ranges == [], "no fire lay in the pause"


async def test_list_pages_by_key(http: Http) -> None:
    for number in range(5):
        await http.post(JOBS, json={"name": f"job-{number}", "function": "work"})
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await http.get(f"{JOBS}?limit=2{cursor and f'&after={cursor}'}")).json()
        names += [job["name"] for job in page["items"]]
        cursor = page["next"]
    assert names == [f"job-{number}" for number in range(5)]
    assert len((await http.get(f"{JOBS}?name=job-3")).json()["items"]) == 1
    assert (await http.get(f"{JOBS}?name=nobody")).json()["items"] == []


async def test_bulk_create_tells_each_name_that_is_taken(http: Http, job: dict[str, Any]) -> None:
    bodies = [{"name": name, "function": "work"} for name in ("new", job["name"], "new")]
    answer = await http.post(f"{JOBS}/bulk", json=bodies)
    assert [item["status"] for item in answer.json()] == ["created", "name_taken", "name_taken"]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("cron", {"name": "x", "function": "work", "cron": "61 * * * *"}),
    ("cron", {"name": "x", "function": "work", "cron": "0 0 30 2 *"}),
    ("cron", {"name": "x", "function": "work", "cron": "@reboot"}),
    ("tz", {"name": "x", "function": "work", "cron": "* * * * *", "tz": "Mars/Olympus"}),
    ("dst", {"name": "x", "function": "work", "cron": "* * * * *", "dst": "sometimes"}),
    ("run_at", {"name": "x", "function": "work", "run_at": "2020-01-01T00:00:00Z"}),
    ("run_at", {"name": "x", "function": "work", "run_at": "2030-01-01T00:00:00"}),
    ("every", {"name": "x", "function": "work", "every": "1 fortnight"}),
    ("every", {"name": "x", "function": "work", "every": "10ms"}),
    ("function", {"name": "x", "function": "unheard-of"}),
    ("target.type", {"name": "x", "target": {"type": "carrier-pigeon"}}),
    ("target", {"name": "x"}),
    ("name", {"function": "work"}),
    ("name", {"name": "a\u0000b", "function": "work"}),
    ("name", {"name": "", "function": "work"}),
    ("name", {"name": "  ", "function": "work"}),
    ("name", {"name": "job_01kxj0000000000000000000ab", "function": "work"}),
    ("name", {"name": "job_01KXJ0000000000000000000IL", "function": "work"}),
    ("name", {"name": "run_0000000000100", "function": "work"}),
    ("misfire.grace", {"name": "x", "function": "work", "misfire": {"policy": "skip", "grace": 0}}),
    ("callback_url", {"name": "x", "callback_url": "ftp://example.com"}),
    ("callback_url", {"name": "x", "callback_url": "https://user:secret@example.com/"}),
    ("priority", {"name": "x", "function": "work", "priority": "URGENT"}),
    ("retry.max_retries", {"name": "x", "function": "work", "retry": {"max_retries": -1}}),
    ("retry.delays", {"name": "x", "function": "work", "retry": {"backoff": "list"}}),
    ("nmae", {"name": "x", "function": "work", "nmae": "y"}),
    ("every", {"name": "x", "function": "work", "cron": "* * * * *", "every": "5s"}),
    ("command", {"name": "x", "command": "rm -rf /tmp/x"}),
    ("jitter", {"name": "x", "function": "work", "jitter": "-5s"}),
    ("timeout", {"name": "x", "function": "work", "timeout": True}),
]


@pytest.mark.parametrize(("field", "body"), REFUSED)
async def test_bad_job_is_refused_by_the_field_s_name_and_nothing_is_stored(
    http: Http, field: str, body: dict[str, Any]
) -> None:
    answer = await http.post(JOBS, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["errors"][0]["field"] == field, problem
    assert len(problem["errors"][0]["message"]) > 5
    assert (await http.get(JOBS)).json()["items"] == []


async def test_taken_name_is_a_conflict(http: Http, job: dict[str, Any]) -> None:
    answer = await http.post(JOBS, json={"name": job["name"], "function": "work"})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["field"] == "name"


@pytest.mark.parametrize("patch", [{"every": "10s"}, {"trigger": {"type": "interval", "every_seconds": 10}}])
async def test_a_patch_with_the_same_interval_changes_nothing(
    http: Http, runtime: ManualRuntime, patch: dict[str, Any]
) -> None:
    job = (await http.post(JOBS, json={"name": "tick", "function": "work", "every": "10s"})).json()
    await runtime.advance(4)
    answer = await http.patch(f"{JOBS}/{job['job_id']}", json=patch)
    assert answer.status_code == 200
    assert answer.json() == job


async def test_patch_replaces_the_trigger_and_removes_the_old_one_by_null(
    http: Http, job: dict[str, Any]
) -> None:
    patch = {"cron": None, "every": "7s", "function": None, "callback_url": "https://example.com/hook"}
    answer = await http.patch(f"{JOBS}/{job['job_id']}", json=patch)
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert (changed["trigger"]["type"], changed["target"]["type"]) == ("interval", "http")
    assert changed["next_fire_time"] == "2026-01-05T12:00:07Z"


async def test_refused_url_is_named_as_it_was_given(http: Http, job: dict[str, Any]) -> None:
    patch = {"target": None, "callback_url": "https://user:secret@example.com/"}
    answer = await http.patch(f"{JOBS}/{job['job_id']}", json=patch)
    assert answer.json()["errors"][0]["field"] == "callback_url"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_another_anchor_is_taken_and_the_clock_follows_it(
    http: Http, runtime: ManualRuntime, method: str
) -> None:
    body: dict[str, Any] = {"name": "tick", "function": "work"}
    job = (await http.post(JOBS, json={**body, "every": "10s"})).json()
    assert job["next_fire_time"] == "2026-01-05T12:00:10Z"
    await runtime.advance(14)
    trigger = {"type": "interval", "every_seconds": 10, "anchor": "2026-01-05T12:00:07Z"}
    url = JOBS if method == "PUT" else f"{JOBS}/{job['job_id']}"
    answer = await http.request(method, url, json={**body, "trigger": trigger})
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert changed["trigger"] == {**trigger, "anchor": "2026-01-05T12:00:07+00:00"}
    assert (changed["version"], changed["next_fire_time"]) == (2, "2026-01-05T12:00:17Z")
    await runtime.advance(10)
    after = (await http.get(f"{JOBS}/{job['job_id']}")).json()
    assert after["next_fire_time"] == "2026-01-05T12:00:27Z"


async def test_put_of_the_same_interval_keeps_its_anchor(http: Http, runtime: ManualRuntime) -> None:
    body = {"name": "tick", "function": "work", "every": "10s"}
    job = (await http.put(JOBS, json=body)).json()
    await runtime.advance(4)
    assert (await http.put(JOBS, json=body)).json() == job


async def test_ledger_says_why_fires_made_no_run(http: Http, runtime: ManualRuntime) -> None:
    body = {"name": "tick", "function": "work", "every": "10s", "overlap": "skip"}
    job = (await http.post(JOBS, json=body)).json()
    await runtime.advance(35)  # the first run waits for a worker, so the others are skipped
    ledger = (await http.get(f"{JOBS}/{job['job_id']}/ledger")).json()
    [reason] = ledger["reasons"]
    assert (ledger["recorded"], reason["reason"], reason["count"]) == (3, "overlap", 2)
    assert len(reason["examples"]) == 2
    late = (await http.get(f"{JOBS}/{job['job_id']}/ledger", params={"from": "12s"})).json()
    assert late["expected"] == 1
    wrong = await http.get(f"{JOBS}/{job['job_id']}/ledger", params={"from": "8d"})
    assert (wrong.status_code, "within the last 7 days" in wrong.text) == (422, True)
    turned = await http.get(f"{JOBS}/{job['job_id']}/ledger", params={"from": "1h", "to": "2h"})
    assert (turned.status_code, "must not be before" in turned.text) == (422, True)


async def test_ledgers_of_all_jobs_come_in_pages(http: Http, runtime: ManualRuntime) -> None:
    for name in ("one", "two", "three"):
        await http.post(JOBS, json={"name": name, "function": "work", "every": "10s"})
    await runtime.advance(25)
    first = (await http.get("/api/v1/ledger", params={"limit": 2})).json()
    assert [(each["job"], each["expected"], each["missing"]) for each in first["items"]] == [
        ("one", 2, []),
        ("two", 2, []),
    ]
    rest = (await http.get("/api/v1/ledger", params={"limit": 2, "after": first["next"]})).json()
    assert ([each["job"] for each in rest["items"]], rest["next"]) == (["three"], None)
    assert (await http.get("/api/v1/ledger", params={"limit": 3})).json()["next"] is not None


async def test_ledger_counts_what_was_owed(http: Http, runtime: ManualRuntime) -> None:
    job = (await http.post(JOBS, json={"name": "tick", "function": "work", "every": "10s"})).json()
    await runtime.advance(35)
    ledger = (await http.get(f"{JOBS}/{job['job_id']}/ledger")).json()
    assert (ledger["expected"], ledger["missing"], ledger["surplus"]) == (3, [], [])
