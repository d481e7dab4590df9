"""The versions of a job, and edits that name the version they are about."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

JOBS = "/api/v1/jobs"


async def test_versions_are_listed_with_what_they_changed(http: AsyncClient, job: dict[str, Any]) -> None:
    url = f"{JOBS}/{job['job_id']}"
    await http.patch(url, json={"retry": {"max_retries": 7}, "payload": {"a": 1}})
    await http.patch(url, json={"name": "renamed", "payload": None})
    page = (await http.get(f"{url}/versions")).json()
    told = [
        (one["version"], [(change["field"], change["before"], change["after"]) for change in one["changes"]])
        for one in page["items"]
    ]
    before = job["retry"]["max_retries"]
    assert told == [
        (3, [("name", "report", "renamed"), ("payload", {"a": 1}, None)]),
        (2, [("payload", None, {"a": 1}), ("retry.max_retries", before, 7)]),
        (1, []),
    ]
    assert page["next"] is None
    assert page["items"][2]["definition"]["name"] == "report"
    assert page["items"][2]["created_at"] == job["created_at"]


async def test_versions_come_in_pages(http: AsyncClient, job: dict[str, Any]) -> None:
    url = f"{JOBS}/{job['job_id']}"
    for count in (1, 2, 3):
        await http.patch(url, json={"retry": {"max_retries": count + 10}})
    seen, query = [], {"limit": 3}
    while True:
        page = (await http.get(f"{url}/versions", params=query)).json()
        seen += [(one["version"], len(one["changes"])) for one in page["items"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert seen == [(4, 1), (3, 1), (2, 1), (1, 0)]


async def test_no_version_is_before_the_first(http: AsyncClient, job: dict[str, Any]) -> None:
    page = await http.get(f"{JOBS}/{job['job_id']}/versions", params={"before": 1})
    assert (page.status_code, page.json()) == (200, {"items": [], "next": None})


async def test_versions_of_no_job_are_not_found(http: AsyncClient, job: dict[str, Any]) -> None:
    await http.delete(f"{JOBS}/{job['job_id']}")
    assert (await http.get(f"{JOBS}/{job['job_id']}/versions")).status_code == 404


async def test_edit_of_an_older_version_changes_nothing(http: AsyncClient, job: dict[str, Any]) -> None:
    url = f"{JOBS}/{job['job_id']}"
    assert (await http.patch(url, json={"queue": "a"}, params={"version": 1})).status_code == 200
    for method in ("PATCH", "PUT"):
        body = {"name": "report", "function": "work", "queue": "b"}
        refused = await http.request(method, url, json=body, params={"version": 1})
        assert refused.status_code == 409
        assert "version 2 by now, not 1" in refused.text
    assert (await http.get(url)).json()["queue"] == "a"


async def test_whole_definition_resets_what_it_leaves_out(http: AsyncClient, job: dict[str, Any]) -> None:
    url = f"{JOBS}/{job['job_id']}"
    await http.patch(url, json={"retry": {"max_retries": 7}})
    body = {"name": "weekly", "cron": "0 9 * * 1", "function": "work"}
    replaced = (await http.put(url, json=body, params={"version": 2})).json()
    assert (replaced["version"], replaced["name"]) == (3, "weekly")
    assert replaced["retry"] == job["retry"]
    assert (await http.put(url, json=body)).json()["version"] == 3


async def test_wrong_definition_is_refused_and_nothing_is_stored(
    http: AsyncClient, job: dict[str, Any]
) -> None:
    url = f"{JOBS}/{job['job_id']}"
    refused = await http.put(url, json={"name": "report", "function": "work", "quueue": "x"})
    assert refused.status_code == 422
    assert "did you mean" in refused.text
    assert (await http.get(url)).json()["version"] == 1
