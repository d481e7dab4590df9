"""Lists over HTTP: their filters, their pages, and what is refused by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.engine.usecases.browsing import FoundRuns
from mainspring.errors import TookTooLong
from mainspring.testing.factories import add_session
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.pages import LONGEST_ERROR

RUNS = "/api/v1/runs"


async def submit(http: AsyncClient, job: dict[str, Any], **body: Any) -> str:
    answer = await http.post(f"/api/v1/jobs/{job['job_id']}/run", json=body)
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


async def listed(http: AsyncClient, **query: Any) -> list[str]:
    answer = await http.get(RUNS, params=query)
    assert answer.status_code == 200, answer.text
    return [run["run_id"] for run in answer.json()["items"]]


async def refused(http: AsyncClient, path: str = RUNS, **query: Any) -> tuple[str, str]:
    answer = await http.get(path, params=query)
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    return error["field"], error["message"]


async def test_runs_are_found_by_kind(http: AsyncClient, job: dict[str, Any]) -> None:
    mine = await submit(http, job)
    assert await listed(http, kind="manual") == await listed(http, kind="MANUAL") == [mine]
    assert await listed(http, kind="scheduled") == []
    assert (await refused(http, kind="odd"))[0] == "kind"


async def test_instants_may_be_so_long_ago(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    old = await submit(http, job)
    runtime.clock.advance(7200)
    mine = await submit(http, job)
    assert await listed(http, since="1h") == [mine]
    assert await listed(http, until="1h") == [old]
    assert await listed(http, since="3h", until="1h30m") == [old]
    created = (await http.get(f"{RUNS}/{mine}")).json()["created_at"].replace("Z", "+00:00")
    assert await listed(http, since=created) == [mine]
    # The plus is a space where nobody quoted it.
    answer = await http.get(f"{RUNS}?since={created}")
    assert [run["run_id"] for run in answer.json()["items"]] == [mine]


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "soon",
            "'soon' is not an instant; write it like 2026-11-21T09:00:00+01:00, or like 2h for so long ago",
        ),
        (
            "2026-11-21 09:00",
            "has no offset; write it like 2026-11-21T09:00:00+01:00, or like 2h for so long ago",
        ),
        ("90000d", "must be between 0s and 3650d, not 90000d"),
    ],
)
async def test_an_instant_that_is_none_is_refused(
    http: AsyncClient, name: str, given: str, said: str
) -> None:
    assert await refused(http, **{name: given}) == (name, said)


async def test_an_error_needs_the_state_of_what_has_one(http: AsyncClient, job: dict[str, Any]) -> None:
    said = ("error", "is only for runs that FAILED; add state=FAILED")
    assert await refused(http, error="boom") == said
    assert await refused(http, f"/api/v1/jobs/{job['job_id']}/runs", error="boom", state="SUCCEEDED") == said
    assert await listed(http, error="boom", state="failed") == []


async def test_brief_rows_have_the_name_and_one_line_of_the_error(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("x" * 300 + "\nand more")

    runtime.registry.add("fail", fail)
    body = {"name": "failing", "function": "fail", "retry": {"max_retries": 0}}
    failing = (await http.post("/api/v1/jobs", json=body)).json()
    waiting = await submit(http, job, payload={"a": 1}, delay="1h")
    failed = await submit(http, failing, payload={"b": 2})
    worker = await runtime.worker()
    assert await worker.work() == 1
    assert (await http.delete(f"/api/v1/jobs/{failing['job_id']}")).status_code == 200
    answer = (await http.get(RUNS, params={"fields": "brief"})).json()
    dead, live = answer["items"]
    assert (dead["run_id"], dead["job"], dead["status"]) == (failed, "failing", "FAILED")
    assert dead["error"] == ("ValueError: " + "x" * 300)[:LONGEST_ERROR]
    assert dead["took_ms"] is not None
    assert (live["run_id"], live["job"], live["took_ms"], live["error"]) == (waiting, "report", None, None)
    assert not {"payload", "result", "output"} & dead.keys()
    whole = (await http.get(RUNS)).json()["items"]
    shared = dead.keys() & whole[0].keys() - {"error"}
    assert {name: dead[name] for name in shared} == {name: whole[0][name] for name in shared}
    assert (await refused(http, fields="all")) == ("fields", "must be one of brief, not 'all'")


async def test_a_list_that_takes_too_long_says_what_to_add(
    http: AsyncClient, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    await submit(http, job)

    async def refuse(*_: object, **__: object) -> FoundRuns:
        raise TookTooLong("stopped")

    monkeypatch.setattr(runtime.store, "list_runs", refuse)
    field, said = await refused(http, kind="manual")
    assert field == "job_id"
    assert said.startswith("the list takes too long without it; add it, or another of ")


async def test_workers_are_paged(http: AsyncClient, runtime: ManualRuntime) -> None:
    sessions = [f"ses_{await add_session(runtime.store)}" for _ in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await http.get("/api/v1/workers", params=query)).json()
        seen += [worker["session_id"] for worker in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == sessions
    assert await refused(http, "/api/v1/workers", after="5") == (
        "after",
        "'5' is not a session's id like ses_17",
    )


async def test_counts_say_how_old_they_are(http: AsyncClient, job: dict[str, Any]) -> None:
    await submit(http, job)
    counts = (await http.get("/api/v1/counts")).json()
    assert (counts["PENDING"], counts["age_ms"]) == (1, timedelta(0) // timedelta(milliseconds=1))


async def test_runs_of_a_backfill_are_listed(
    http: AsyncClient, runtime: ManualRuntime, job: dict[str, Any]
) -> None:
    body = {"name": "daily", "function": "work", "cron": "0 3 * * *"}
    daily = (await http.post("/api/v1/jobs", json=body)).json()["job_id"]
    now = runtime.clock.now()
    keys = []
    for first, last in ((9, 6), (5, 2)):
        days = {"from": now - timedelta(days=first), "to": now - timedelta(days=last)}
        wanted = {name: at.isoformat() for name, at in days.items()}
        made = await http.post(f"/api/v1/jobs/{daily}/backfills", json=wanted)
        assert made.status_code == 202, made.text
        keys.append(made.json()["backfill"]["backfill_id"])
    await submit(http, job)
    await runtime.tick("backfills")
    found = [await listed(http, backfill=key) for key in keys]
    assert [len(runs) for runs in found] == [3, 3]
    assert sorted(found[0] + found[1]) == sorted(await listed(http, kind="backfill"))
    assert await listed(http, backfill=keys[0], job_id=daily, state="PENDING") == found[0]
    runtime.clock.advance(30 * 86400)
    assert await listed(http, backfill=keys[0], since="2h") == []
    assert await listed(http, backfill=keys[0], limit=2) == found[0][:2]
    assert (await refused(http, backfill=keys[0], job_id=job["job_id"]))[0] == "backfill"


async def test_a_backfill_that_is_none_is_refused(http: AsyncClient, job: dict[str, Any]) -> None:
    assert (await refused(http, backfill="odd"))[0] == "backfill"
    found = await refused(http, backfill="backfill_" + "0" * 26)
    assert found == ("backfill", "there is no such backfill; list them with GET /backfills")
