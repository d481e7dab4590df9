"""Priority classes over HTTP, and where they are named."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

CLASSES = "/api/v1/priority-classes"
JOBS = "/api/v1/jobs"
NIGHT = {"tier": "LOW", "preempts": False, "preemptible": True}


async def test_a_class_is_set_shown_listed_and_deleted(http: AsyncClient) -> None:
    assert (await http.get(CLASSES)).json() == {"items": [], "next": None}
    assert (await http.get(f"{CLASSES}/night")).status_code == 404
    first = await http.put(f"{CLASSES}/night", json=NIGHT)
    assert (first.status_code, first.json()) == (201, {"name": "night", **NIGHT})
    again = await http.put(f"{CLASSES}/night", json={"tier": "MEDIUM"})
    changed = {"name": "night", "tier": "MEDIUM", "preempts": False, "preemptible": False}
    assert (again.status_code, again.json()) == (200, changed)
    await http.put(f"{CLASSES}/urgent", json={"tier": "HIGH", "preempts": True})
    page = (await http.get(CLASSES, params={"limit": 1})).json()
    assert (page["items"], page["next"]) == ([changed], "night")
    rest = (await http.get(CLASSES, params={"limit": 1, "after": "night"})).json()
    assert [one["name"] for one in rest["items"]] == ["urgent"]
    assert (await http.delete(f"{CLASSES}/night")).status_code == 200
    assert (await http.delete(f"{CLASSES}/night")).status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("LOW", NIGHT, "class"),
        ("night", {}, "tier"),
        ("night", {"tier": "LOW", "preempts": True}, "preempts"),
        ("night", {"tier": "LOW", "colour": "red"}, "colour"),
    ],
)
async def test_a_wrong_class_is_refused_and_not_stored(
    http: AsyncClient, name: str, body: dict[str, Any], field: str
) -> None:
    answer = await http.put(f"{CLASSES}/{name}", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert (await http.get(CLASSES)).json()["items"] == []


async def test_a_job_keeps_what_it_copied(http: AsyncClient) -> None:
    await http.put(f"{CLASSES}/night", json=NIGHT)
    body = {"name": "report", "function": "work", "priority": "night"}
    made = (await http.post(JOBS, json=body)).json()
    path = f"{JOBS}/{made['job_id']}"
    copied = {"priority": "LOW", "preempts": False, "preemptible": True}
    assert copied.items() <= made.items()
    await http.put(f"{CLASSES}/night", json={"tier": "MEDIUM"})
    assert copied.items() <= (await http.get(path)).json().items()
    edited = (await http.patch(path, json={"queue": "other"})).json()
    assert copied.items() <= edited.items()
    again = (await http.put(JOBS, json=body)).json()
    assert (again["priority"], again["preemptible"], again["version"]) == ("MEDIUM", False, 3)
    await http.delete(f"{CLASSES}/night")
    assert (await http.get(path)).json()["priority"] == "MEDIUM"
    assert (await http.patch(path, json={"priority": "night"})).status_code == 422


async def test_an_unknown_class_is_refused_wherever_it_is_named(
    http: AsyncClient, job: dict[str, Any]
) -> None:
    path = f"{JOBS}/{job['job_id']}"
    body = {"name": "report", "function": "work", "priority": "nigth"}
    for answer, field in (
        (await http.post(JOBS, json=body), "priority"),
        (await http.put(JOBS, json=body), "priority"),
        (await http.post(f"{JOBS}/bulk", json=[{**body, "priority": "LOW"}, body]), "[1].priority"),
        (await http.patch(path, json={"priority": "nigth"}), "priority"),
        (await http.post(f"{path}/runs", json={"priority": "nigth"}), "priority"),
        (
            await http.post("/api/v1/runs/bulk", json=[{"job": job["name"], "priority": "nigth"}]),
            "[0].priority",
        ),
        (
            await http.post(
                f"{path}/backfills",
                json={"from": "2020-01-01T00:00Z", "to": "2020-01-02T00:00Z", "priority": "nigth"},
            ),
            "priority",
        ),
    ):
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
    assert len((await http.get(JOBS)).json()["items"]) == 1


async def test_a_run_takes_the_tier_of_a_class(http: AsyncClient, job: dict[str, Any]) -> None:
    await http.put(f"{CLASSES}/night", json=NIGHT)
    one = await http.post(f"{JOBS}/{job['job_id']}/runs", json={"priority": "night"})
    many = await http.post("/api/v1/runs/bulk", json=[{"job": job["name"], "priority": "night"}])
    for run_id in (one.json()["run_id"], many.json()[0]["run_id"]):
        assert (await http.get(f"/api/v1/runs/{run_id}")).json()["priority"] == "LOW"


async def test_a_backfill_takes_the_tier_of_a_class(http: AsyncClient) -> None:
    await http.put(f"{CLASSES}/calm", json={"tier": "MEDIUM"})
    made = await http.post(JOBS, json={"name": "hourly", "function": "work", "cron": "0 * * * *"})
    body = {"from": "2020-01-01T00:00Z", "to": "2020-01-02T00:00Z", "priority": "calm"}
    answer = await http.post(f"{JOBS}/{made.json()['job_id']}/backfills", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.json()["backfill"]["priority"] == "MEDIUM"
