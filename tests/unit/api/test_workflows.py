"""Workflows over HTTP: stored, checked and shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from httpx import AsyncClient

from mainspring.core.ids import format_job_id
from mainspring.core.model import Target
from mainspring.registry import FunctionRegistry
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import ManualRuntime
from tests.support.workflows import Deeds, Flows
from tests.unit.api.asgi import api_of, client_of

STEPS: list[dict[str, Any]] = [
    {"name": "load", "function": "work", "after": ["clean", "check"]},
    {"name": "extract", "function": "work"},
    {"name": "clean", "callback_url": "https://example.com/", "after": ["extract"]},
    {"name": "check", "function": "work", "after": ["extract"], "allow_failure": True, "payload": {"a": 1}},
    {"name": "page", "function": "work", "after": ["load"], "rule": "one_failed"},
]
BODY: dict[str, Any] = {"name": "etl", "workflow": {"steps": STEPS}}


@pytest.fixture
async def http() -> AsyncIterator[AsyncClient]:
    registry = FunctionRegistry()
    registry.add("work", lambda **_: "done")
    async with ManualRuntime(registry) as runtime, client_of(api_of(runtime)) as client:
        yield client


async def add(http: AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await http.post("/api/v1/jobs", json={**BODY, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_workflow_is_stored_as_a_job(http: AsyncClient) -> None:
    job = await add(http, cron="0 3 * * *")
    assert job["target"]["type"] == "workflow"
    assert [step["name"] for step in job["target"]["steps"]] == [step["name"] for step in STEPS]
    again = await http.put(f"/api/v1/jobs/{job['job_id']}", json={**BODY, "cron": "0 3 * * *"})
    assert (again.status_code, again.json()["version"]) == (200, 1)


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_all_errors_of_a_workflow_are_answered_at_once(http: AsyncClient, method: str) -> None:
    steps = [*STEPS, {"name": "End", "function": "wrok", "after": ["laod"], "callback": 1}]
    answer = await http.request(method, "/api/v1/jobs", json={**BODY, "workflow": {"steps": steps}})
    assert answer.status_code == 422
    errors = {error["field"]: error["message"] for error in answer.json()["errors"]}
    assert errors == {
        "workflow.steps[5].callback": "there is no such field; did you mean 'callback_url'?",
        "workflow.steps[5].name": "must be 1 to 63 of a-z 0-9 _, with a letter first, not 'End'",
        "workflow.steps[5].function": "no worker has registered 'wrok'; known are work",
        "workflow.steps[5].after[0]": "there is no step 'laod'; did you mean 'load'?",
    }
    assert answer.json()["detail"].endswith("(and 3 more)")


async def test_each_callback_url_that_is_wrong_is_named(http: AsyncClient) -> None:
    wrong = {"type": "http", "url": "https://user:pass@example.com/"}
    steps = [
        {"name": "a", "callback_url": wrong["url"]},
        {"name": "b", "function": "work"},
        {"name": "c", "target": wrong},
    ]
    answer = await http.post("/api/v1/jobs", json={"name": "x", "workflow": {"steps": steps}})
    assert [error["field"] for error in answer.json()["errors"]] == [
        "workflow.steps[0].callback_url",
        "workflow.steps[2].target.url",
    ]


async def test_errors_among_many_jobs_name_their_job(http: AsyncClient) -> None:
    wrong = {"name": "b", "workflow": {"steps": [{"name": "a"}, {"name": "a"}]}}
    bodies = [BODY, wrong]
    fields = ["workflow.steps[0].target", "workflow.steps[1].target", "workflow.steps[1].name"]
    for path, prefix, sent in (
        ("jobs/bulk", "[1].", bodies),
        ("jobs/apply", "[1].", bodies),
        ("jobs/diff", "[1].", bodies),
    ):
        answer = await http.post(f"/api/v1/{path}", json=sent)
        assert [one["field"] for one in answer.json()["errors"]] == [f"{prefix}{field}" for field in fields]
    answer = await http.put("/api/v1/definitions", json={"jobs": bodies})
    assert [one["field"] for one in answer.json()["errors"]] == [f"jobs[1].{field}" for field in fields]


async def test_check_answers_the_graph_and_stores_nothing(http: AsyncClient) -> None:
    answer = await http.post("/api/v1/workflows/check", json={"workflow": {"steps": STEPS}})
    assert answer.status_code == 200, answer.text
    graph = answer.json()
    assert graph["levels"] == [["extract"], ["clean", "check"], ["load"], ["page"]]
    assert graph["order"] == ["extract", "clean", "check", "load", "page"]
    assert graph["edges"][0] == {"parent": "clean", "child": "load"}
    assert graph["steps"][3] == {
        "name": "check",
        "type": "function",
        "function": "work",
        "job": None,
        "map": None,
        "after": ["extract"],
        "rule": "all_success",
        "allow_failure": True,
        "at_end": False,
        "undoes": None,
        "when": None,
        "level": 1,
    }
    assert (await http.get("/api/v1/jobs")).json()["items"] == []


async def test_check_takes_a_whole_job_in_full_form(http: AsyncClient) -> None:
    job = await add(http)
    fields = ("name", "target", "trigger", "queue", "retry")
    answer = await http.post("/api/v1/workflows/check", json={name: job[name] for name in fields})
    assert answer.status_code == 200, answer.text
    wrong = await http.post("/api/v1/workflows/check", json={**BODY, "cron": "never"})
    assert [one["field"] for one in wrong.json()["errors"]] == ["cron"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "workflow"),
        ({"function": "work"}, "workflow"),
        ({"target": {"type": "function", "function": "work"}}, "target.type"),
    ],
)
async def test_check_of_no_workflow_is_refused(http: AsyncClient, body: dict[str, Any], field: str) -> None:
    answer = await http.post("/api/v1/workflows/check", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_graph_of_a_job_is_that_of_a_version(http: AsyncClient) -> None:
    job = await add(http)
    url = f"/api/v1/jobs/{job['job_id']}"
    await http.patch(url, json={"workflow": {"steps": STEPS[1:2]}})
    newest, first = (await http.get(f"{url}/graph")).json(), (await http.get(f"{url}/graph?version=1")).json()
    assert (newest["job"], newest["job_id"], newest["version"]) == ("etl", job["job_id"], 2)
    assert (newest["order"], first["version"]) == (["extract"], 1)
    assert first["order"] == ["extract", "clean", "check", "load", "page"]
    assert (await http.get(f"{url}/graph?version=3")).status_code == 404


async def test_graph_of_another_job_is_a_conflict(http: AsyncClient) -> None:
    job = (await http.post("/api/v1/jobs", json={"name": "plain", "function": "work"})).json()
    answer = await http.get(f"/api/v1/jobs/{job['job_id']}/graph")
    assert (answer.status_code, answer.json()["errors"][0]) == (
        409,
        {
            "field": "target.type",
            "message": "job 'plain' has a target of type 'function'; only a workflow has steps",
        },
    )


async def test_versions_tell_which_steps_changed(http: AsyncClient) -> None:
    job = await add(http)
    url = f"/api/v1/jobs/{job['job_id']}"
    steps = [{**step, "queue": "q"} if step["name"] == "load" else step for step in STEPS]
    await http.patch(url, json={"workflow": {"steps": steps}})
    page = (await http.get(f"{url}/versions")).json()
    assert page["items"][0]["changes"] == [{"field": "target.steps.load.queue", "before": None, "after": "q"}]


class Served(NamedTuple):
    """A server whose function `act` does steps, and fails where it is told to."""

    http: AsyncClient
    flows: Flows

    async def start(self, *steps: dict[str, Any]) -> str:
        """Store a workflow and begin a run of it."""
        made = [
            {"function": "act", "payload": {"step": step["name"]}, "retry": {"max_retries": 0}} | step
            for step in steps
        ]
        job = await self.http.post("/api/v1/jobs", json={"name": "flow", "workflow": {"steps": made}})
        assert job.status_code == 201, job.text
        run = await self.http.post(f"/api/v1/jobs/{job.json()['job_id']}/runs")
        text: str = run.json()["run_id"]
        return text

    async def steps(self, run: str, **query: Any) -> dict[str, Any]:
        """Return a page of the steps of a run."""
        answer = await self.http.get(f"/api/v1/runs/{run}/steps", params=query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    deeds = Deeds()
    async with ManualRuntime(deeds.registry()) as runtime, client_of(api_of(runtime)) as client:
        yield Served(client, await Flows.begin(runtime, deeds))


async def test_steps_of_a_run_tell_where_each_is_and_why(served: Served) -> None:
    served.flows.deeds.failures = {"clean": 1}
    run = await served.start(
        {"name": "report", "after": ["load"]},
        {"name": "extract"},
        {"name": "clean", "after": ["extract"]},
        {"name": "load", "after": ["clean", "extract"]},
        {"name": "page", "after": ["load"], "rule": "one_failed"},
        {"name": "thank", "after": ["load", "page"], "rule": "all_failed"},
    )
    waiting = await served.steps(run)
    assert (waiting["status"], waiting["job"], waiting["next"]) == ("PENDING", "flow", None)
    assert {step["status"] for step in waiting["items"]} == {"waiting"}
    assert {step["reason"] for step in waiting["items"]} == {"the workflow has not begun"}
    await served.flows.turn()
    begun = {step["name"]: step for step in (await served.steps(run))["items"]}
    assert (begun["extract"]["status"], begun["extract"]["state"]) == ("live", "PENDING")
    assert begun["load"]["reason"] == "waits for clean, extract"
    await served.flows.work()
    ended = await served.steps(run)
    assert [step["name"] for step in ended["items"]] == [
        "extract",
        "clean",
        "load",
        "report",
        "page",
        "thank",
    ]
    assert [(step["status"], step["reason"]) for step in ended["items"]] == [
        ("succeeded", None),
        ("failed", "retries_exhausted"),
        ("upstream_failed", "clean failed"),
        ("upstream_failed", "load did not run"),
        ("succeeded", None),
        ("skipped", "page succeeded"),
    ]
    assert (ended["status"], ended["finished_at"] is not None) == ("FAILED", True)
    extract, clean = ended["items"][:2]
    assert (extract["attempt"], extract["state"], extract["level"]) == (1, "SUCCEEDED", 0)
    assert "clean fails" in clean["error"]
    own = (await served.http.get(f"/api/v1/runs/{clean['run_id']}")).json()
    assert (own["status"], own["job"]) == ("FAILED", "flow")


async def test_steps_come_in_pages(served: Served) -> None:
    run = await served.start(*({"name": f"s{number}"} for number in range(5)))
    await served.flows.work()
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = await served.steps(run, **query)
        seen += [step["name"] for step in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == [f"s{number}" for number in range(5)]
    refused = await served.http.get(f"/api/v1/runs/{run}/steps", params={"after": "nobody"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "after")


async def test_run_keeps_the_steps_of_its_version(served: Served) -> None:
    run = await served.start({"name": "old"})
    job = (await served.http.get(f"/api/v1/runs/{run}")).json()["job_id"]
    changed = {"workflow": {"steps": [{"name": "new", "function": "act"}]}}
    assert (await served.http.patch(f"/api/v1/jobs/{job}", json=changed)).status_code == 200
    await served.flows.work()
    assert [step["name"] for step in (await served.steps(run))["items"]] == ["old"]


async def test_steps_of_another_run_are_a_conflict(served: Served) -> None:
    job = (await served.http.post("/api/v1/jobs", json={"name": "plain", "function": "act"})).json()
    run = (await served.http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()["run_id"]
    assert (await served.http.get(f"/api/v1/runs/{run}/steps")).status_code == 409
    assert (await served.http.get("/api/v1/runs/run_0000000000zzz/steps")).status_code == 404


async def test_steps_that_this_server_cannot_read_are_a_conflict(served: Served) -> None:
    run = await served.start({"name": "one"})
    await served.flows.turn()
    for row in served.flows.runtime.store._tables.flows.rows.values():  # type: ignore[attr-defined]
        row.state = b"\x63later"
    answer = await served.http.get(f"/api/v1/runs/{run}/steps")
    assert answer.status_code == 409
    assert "form 99 is not known" in answer.json()["detail"]
    steps = [{"name": "one", "target": {"type": "function"}, "rule": "unheard"}]
    spec = make_spec(target=Target("workflow", {"steps": steps}))
    job = await add_job(served.flows.runtime.store, spec)
    answer = await served.http.get(f"/api/v1/jobs/{format_job_id(job.id)}/graph")
    assert answer.status_code == 409
    assert "cannot be read here" in answer.json()["detail"]


async def test_items_of_a_step_are_listed_by_page_and_state() -> None:
    deeds = Deeds()
    deeds.failures["item_1"] = 1
    async with ManualRuntime(deeds.registry()) as runtime, client_of(api_of(runtime)) as http:
        flows = await Flows.begin(runtime, deeds)
        over = [{"step": f"item_{place}"} for place in range(5)]
        steps = [
            {
                "name": "clean",
                "function": "act",
                "map": {"over": over, "tolerate": 1},
                "retry": {"max_retries": 0},
            },
            {"name": "last", "function": "act", "after": ["clean"], "payload": {"step": "last"}},
        ]
        job = (await http.post("/api/v1/jobs", json={"name": "etl", "workflow": {"steps": steps}})).json()
        assert job["target"]["steps"][0]["map"] == {"over": over, "max_parallel": None, "tolerate": 1}
        run = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs", json={})).json()
        path = f"/api/v1/runs/{run['run_id']}"
        before = (await http.get(f"{path}/items?step=clean")).json()
        assert (before["counts"], before["items"], before["next"]) == (None, [], None)
        await flows.work()
        first = (await http.get(f"{path}/items?step=clean&limit=3")).json()
        assert first["counts"] == {"total": 5, "started": 5, "succeeded": 4, "failed": 1, "skipped": 0}
        second = (await http.get(f"{path}/items?step=clean&limit=3&after={first['next']}")).json()
        assert [one["item"] for one in first["items"] + second["items"]] == [0, 1, 2, 3, 4]
        assert second["next"] is None
        failed = (await http.get(f"{path}/items?step=clean&state=failed")).json()
        assert [(one["item"], one["state"], one["error"]) for one in failed["items"]] == [
            (1, "FAILED", "ValueError: item_1 fails")
        ]
        shown = (await http.get(f"{path}/steps")).json()["items"]
        assert (shown[0]["items"], shown[0]["run_id"]) == (first["counts"], None)
        assert (shown[1]["items"], shown[1]["status"]) == (None, "succeeded")
        for query, message in (
            ("step=clena", "there is no step 'clena'"),
            ("step=last", "'last' runs once"),
            ("step=clean&state=odd", "must be one of"),
            ("step=clean&after=x", "is not"),
            ("", "is missing"),
        ):
            refused = await http.get(f"{path}/items?{query}")
            assert refused.status_code == 422, query
            assert message in refused.json()["errors"][0]["message"], refused.text


async def test_a_workflow_may_not_run_itself(http: AsyncClient) -> None:
    steps = [{"name": "again", "job": "etl"}]
    answer = await http.post("/api/v1/jobs", json={"name": "etl", "workflow": {"steps": steps}})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "workflow.steps[0].job", "message": "is this workflow itself, which would never end"}
    ]


async def test_a_run_is_paused_and_resumed(served: Served) -> None:
    run = await served.start({"name": "one"}, {"name": "two", "after": ["one"]})
    early = await served.http.post(f"/api/v1/runs/{run}/pause")
    assert (early.status_code, "has not begun" in early.json()["detail"]) == (409, True)
    await served.flows.turn()
    results = [await served.http.post(f"/api/v1/runs/{run}/{verb}") for verb in ("resume", "pause")]
    assert [(one.status_code, one.json()) for one in results] == [(202, {"run_id": run})] * 2
    await served.flows.work()
    page = await served.steps(run)
    assert (page["status"], page["is_paused"]) == ("RUNNING", True)
    assert [(one["status"], one["reason"]) for one in page["items"]] == [
        ("succeeded", None),
        ("ready", "waits until the workflow is resumed"),
    ]
    why = (await served.http.get(f"/api/v1/runs/{run}/why")).json()["sentence"]
    assert why.endswith("It is paused: no more start until it is resumed.")
    for verb in ("pause", "resume"):  # at once: the second is not lost
        assert (await served.http.post(f"/api/v1/runs/{run}/{verb}")).status_code == 202
    await served.flows.work()
    page = await served.steps(run)
    assert (page["status"], page["is_paused"]) == ("SUCCEEDED", False)
    late = await served.http.post(f"/api/v1/runs/{run}/resume")
    assert (late.status_code, "has ended; it is SUCCEEDED" in late.json()["detail"]) == (409, True)


async def test_steps_without_a_run_are_skipped(served: Served) -> None:
    run = await served.start(
        {"name": "one"}, {"name": "two", "after": ["one"]}, {"name": "three", "after": ["two"]}
    )
    await served.flows.turn()
    url = f"/api/v1/runs/{run}/skip"
    for steps, status, words in [
        ([], 422, "steps: must be a list of 1 to 1000 items"),
        (["four"], 422, "there is no step 'four'"),
        (
            ["two", "one"],
            409,
            "step 'one' has the status 'live'; only one that has no run yet can be skipped",
        ),
    ]:
        answer = await served.http.post(url, json={"steps": steps})
        assert (answer.status_code, words in answer.text) == (status, True)
    answer = await served.http.post(url, json={"steps": ["two"]})
    assert answer.status_code == 202
    await served.flows.work()
    page = await served.steps(run)
    assert page["status"] == "SUCCEEDED"
    assert [(one["status"], one["reason"]) for one in page["items"]] == [
        ("succeeded", None),
        ("skipped", "someone skipped it"),
        ("skipped", "two was skipped"),
    ]


async def test_commands_to_other_runs_are_refused(served: Served) -> None:
    job = (await served.http.post("/api/v1/jobs", json={"name": "plain", "function": "act"})).json()
    plain = (await served.http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()["run_id"]
    run = await served.start({"name": "one"})
    await served.flows.turn()
    own = (await served.steps(run))["items"][0]["run_id"]
    for wanted, status, words in [
        (plain, 409, "only a workflow has steps"),
        (own, 409, f"is of a step of {run}"),
        ("run_0000000000zzz", 404, "run_0000000000zzz"),
    ]:
        answer = await served.http.post(f"/api/v1/runs/{wanted}/pause")
        assert (answer.status_code, words in answer.text) == (status, True)
