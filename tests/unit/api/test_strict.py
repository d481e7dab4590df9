"""What is not asked for in the right words is refused by name, on every route."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from mainspring.core.ids import RunId, format_run_id
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.protocol import WORKER_PROTOCOL

Http = AsyncClient
OFFER = {"protocol": WORKER_PROTOCOL, "name": "w"}


async def test_unknown_query_parameter_is_refused_on_every_route(http: Http, job: dict[str, Any]) -> None:
    schema = (await http.get("/openapi.json")).json()
    run = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()["run_id"]
    seen = 0
    for path, operations in schema["paths"].items():
        for method in operations:
            url = path.replace("{job_id}", job["job_id"]).replace("{run_id}", run)
            answer = await http.request(method.upper(), f"{url}?surprise=1")
            assert answer.status_code == 422, (method, path, answer.text)
            assert answer.json()["errors"][0]["field"] == "surprise"
            seen += 1
    assert seen >= 25
    assert (await http.get(f"/api/v1/jobs/{job['job_id']}")).status_code == 200, "nothing was done"


@pytest.mark.parametrize(
    "path", ["/schema", "/schema/", "/schema/openapi.json", "/schema/scalar", "/schema/x"]
)
async def test_no_page_of_the_description_but_one(http: Http, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await http.get("/openapi.json")).status_code == 200


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs?name=%00", "/api/v1/jobs?name=a%0Ab", "/api/v1/calendars?after=%00"]
)
async def test_unprintable_query_is_refused(http: Http, path: str) -> None:
    assert (await http.get(path)).status_code == 422


async def test_unprintable_job_name_in_bulk_is_refused(http: Http) -> None:
    answer = await http.post("/api/v1/runs/bulk", json=[{"job": "a\0b"}])
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "[0].job"
    assert "printed" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("name", {"name": "a\0b"}),
        ("host", {"name": "a", "host": "\0"}),
        ("functions[1]", {"name": "a", "functions": ["b", "c\0"]}),
        ("queues[0]", {"name": "a", "queues": ["\0"]}),
        ("types[0]", {"name": "a", "types": ["\0"]}),
        ("labels[0]", {"name": "a", "labels": ["\n"]}),
    ],
)
async def test_unprintable_registration_is_refused(http: Http, field: str, body: dict[str, Any]) -> None:
    answer = await http.post("/api/v1/worker/register", json=OFFER | body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("said", "outdated"),
    [
        ({}, "worker"),
        ({"protocol": None}, "worker"),
        ({"protocol": 1}, "worker"),
        ({"protocol": -(2**70)}, "worker"),
        ({"protocol": "2"}, "worker"),
        ({"protocol": 3}, "server"),
        ({"protocol": 2**70}, "server"),
        # The other fields are another protocol's; what is wrong is the number.
        ({"protocol": 3, "name": 7, "shape": "round"}, "server"),
    ],
)
async def test_worker_of_another_protocol_is_told_what_to_upgrade(
    http: Http, said: dict[str, Any], outdated: str
) -> None:
    answer = await http.post("/api/v1/worker/register", json={"name": "w", **said})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0] == {
        "field": "protocol",
        "message": f"this server speaks worker protocol {WORKER_PROTOCOL}; upgrade the {outdated}",
    }
    assert (await http.get("/api/v1/workers")).json()["items"] == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("name", {"name": ""}),
        ("name", {"name": None}),
        ("slots", {"slots": 0}),
        ("shape", {"shape": "round"}),
        ("functions[1]", {"functions": ["a", 7]}),
    ],
)
async def test_wrong_registration_is_refused_by_its_field(
    http: Http, field: str, body: dict[str, Any]
) -> None:
    answer = await http.post("/api/v1/worker/register", json=OFFER | body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("after", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"])
async def test_preview_after_out_of_bounds_is_refused(http: Http, after: str) -> None:
    url = "/api/v1/triggers/preview"
    answer = await http.post(url, params={"from": after}, json={"cron": "* * * * *"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "from"


@pytest.mark.parametrize(
    ("path", "field", "message"),
    [
        ("/openapi.json?x=1", "x", "there is no such field"),
        ("/api/v1/jobs?limit=many", "limit", "must be a whole number"),
        ("/api/v1/calendars/any/days?from=soon", "from", "must be a date like 2026-12-24"),
        ("/api/v1/calendars/any?version=0", "version", "must be a whole number"),
    ],
)
async def test_refusal_names_its_field_once(http: Http, path: str, field: str, message: str) -> None:
    (error,) = (await http.get(path)).json()["errors"]
    assert error["field"] == field
    assert error["message"].startswith(message)
    assert not error["message"].endswith(" ")
    assert "known are" not in error["message"]


@pytest.mark.parametrize("prefix", ["", "[0]."])
async def test_run_at_out_of_bounds_is_refused(http: Http, job: dict[str, Any], prefix: str) -> None:
    body = {"run_at": "0001-01-01T00:00:00+23:59"}
    url = f"/api/v1/jobs/{job['job_id']}/runs"
    if prefix:
        answer = await http.post("/api/v1/runs/bulk", json=[{**body, "job": job["name"]}])
    else:
        answer = await http.post(url, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == f"{prefix}run_at"


@pytest.mark.parametrize("prefix", ["", "[0]."])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delay": -1}, "must be between 0s"),
        ({"delay": "1x"}, "must be seconds or text"),
        ({"delay": "90000h"}, "must be between 0s"),
        ({"delay": 5, "run_at": "2040-01-01T00:00:00Z"}, "says the same as 'run_at'"),
    ],
)
async def test_delay_that_cannot_be_is_refused(
    http: Http, job: dict[str, Any], prefix: str, fields: dict[str, Any], message: str
) -> None:
    if prefix:
        answer = await http.post("/api/v1/runs/bulk", json=[{**fields, "job": job["name"]}])
    else:
        answer = await http.post(f"/api/v1/jobs/{job['job_id']}/runs", json=fields)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["field"] == f"{prefix}delay"
    assert error["message"].startswith(message)


async def test_delay_is_added_to_the_stores_clock(
    http: Http, job: dict[str, Any], runtime: ManualRuntime
) -> None:
    """Which is years from the clock of whoever asks."""
    due_at = (runtime.clock.now() + timedelta(seconds=90)).isoformat().replace("+00:00", "Z")
    one = await http.post(f"/api/v1/jobs/{job['job_id']}/runs", json={"delay": "90s"})
    many = await http.post("/api/v1/runs/bulk", json=[{"job": job["name"], "delay": 90}])
    for run_id in (one.json()["run_id"], many.json()[0]["run_id"]):
        assert (await http.get(f"/api/v1/runs/{run_id}")).json()["due_at"] == due_at


async def test_bad_field_of_a_report_is_refused_by_name(http: Http) -> None:
    body = b'{"session_id":"ses_1","reports":[{"run_id":"%s","token":1,"outcome":"good"}]}'
    answer = await http.post(
        "/api/v1/worker/report",
        content=body.replace(b"%s", format_run_id(RunId(7)).encode()),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "reports[0].outcome"


async def test_beat_of_many_leases_is_read(http: Http) -> None:
    session = (await http.post("/api/v1/worker/register", json=OFFER)).json()["session_id"]
    held = [{"run_id": format_run_id(RunId(number)), "token": 3} for number in range(30_000)]
    answer = await http.post("/api/v1/worker/beat", json={"session_id": session, "held": held})
    assert answer.status_code == 200, answer.text[:200]
    assert len(answer.json()["lost"]) == 30_000


async def test_bulk_names_the_item_that_is_wrong(http: Http, job: dict[str, Any]) -> None:
    job_id = job["job_id"]
    good = {"job_id": job_id}
    missing = "job_" + "0" * 26
    for item, field in [
        ({"job_id": job_id, "idempotency_key": ""}, "[1].idempotency_key"),
        ({"job_id": job_id, "run_at": "0001-01-01T00:00:00+23:59"}, "[1].run_at"),
        ({"job_id": missing}, "[1].job_id"),
        ({"job": "nobody"}, "[1].job"),
    ]:
        answer = await http.post("/api/v1/runs/bulk", json=[good, item])
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
    body = {"name": "one", "cron": "61 * * * *", "function": "work"}
    answer = await http.post("/api/v1/jobs/bulk", json=[body])
    assert answer.json()["errors"][0]["field"] == "[0].cron"


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "trigger", "is missing; give one of"),
        ({"cron": "* * * * *", "tz": "bad"}, "tz", "'bad' is not a time zone known here"),
        ({"cron": "* * * * *", "dst": "bad"}, "dst", "'bad' is neither 'vixie'"),
        ({"cron": "99 * * * *"}, "cron", "minute: '99': 99 is not"),
        ({"cron": "* *"}, "cron", "'* *' has 2 fields"),
        ({"cron": "* * * * *", "calendars": {"exclude": ["x"]}}, "calendars.exclude", "there is no calendar"),
        ({"cron": "* * * * *", "retri": {}}, "retri", "there is no such field"),
    ],
)
async def test_refusal_of_a_preview_names_its_field(
    http: Http, body: dict[str, object], field: str, message: str
) -> None:
    (error,) = (await http.post("/api/v1/triggers/preview", json=body)).json()["errors"]
    assert error["field"] == field
    assert error["message"].startswith(message)
