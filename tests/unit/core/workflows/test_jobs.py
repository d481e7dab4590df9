"""Jobs that are workflows: how they are read, changed, shortened and compared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.cli.toml_text import read_toml, write_toml
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.definition.changes import compare_definitions
from mainspring.core.definition.short import shorten_definition
from mainspring.core.definition.workflows import NO_RETRY
from mainspring.core.model import JobSpec
from mainspring.core.retry import RetryPolicy
from mainspring.core.serving import GapCode, Offers
from mainspring.core.targets import WORKFLOW
from mainspring.errors import InvalidFields, InvalidInput
from mainspring.ports.codec import decode_spec, encode_spec

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
STEPS: list[dict[str, Any]] = [
    {"name": "extract", "function": "extract", "retry": {"max_retries": 5}},
    {"name": "clean", "command": ["clean", "--all"], "after": ["extract"], "timeout": "10m"},
    {"name": "load", "callback_url": "https://example.com/", "after": ["clean"], "payload": {"a": None}},
    {"name": "page", "function": "page", "after": ["clean", "load"], "rule": "one_failed", "queue": "ops"},
]
BODY = {"name": "etl", "cron": "0 3 * * *", "workflow": {"steps": STEPS}}


def read(body: dict[str, Any] = BODY, **fields: Any) -> JobSpec:
    return read_definition({**body, **fields}, now=NOW)


def refusals(body: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read_definition(body, now=NOW)
    error = caught.value
    return [str(one) for one in (error.errors if isinstance(error, InvalidFields) else (error,))]


def test_short_and_full_form_make_the_same_job() -> None:
    spec = read()
    assert spec.target.type == WORKFLOW
    assert spec.route == "workflow"
    assert spec.retry == NO_RETRY
    full = plain_from_spec(spec)
    assert full["target"]["type"] == "workflow"
    assert read(full) == spec == spec_from_plain(full) == decode_spec(encode_spec(spec))


def test_what_a_person_edits_makes_the_same_job() -> None:
    spec = read()
    short = shorten_definition(plain_from_spec(spec))
    assert read(short) == spec
    assert [step["name"] for step in short["workflow"]["steps"]] == ["extract", "clean", "load", "page"]
    assert short["workflow"]["steps"][1]["command"] == ["clean", "--all"]
    assert "retry" not in short
    without_null = [{**step, "payload": {"a": 1}} if "payload" in step else step for step in STEPS]
    spec = read(workflow={"steps": without_null})
    assert read(read_toml(write_toml(shorten_definition(plain_from_spec(spec))), "file")) == spec


def test_what_a_person_edits_keeps_the_deadline() -> None:
    spec = read(workflow={"steps": STEPS, "deadline": "4h"})
    assert shorten_definition(plain_from_spec(spec))["workflow"]["deadline_seconds"] == 4 * 3600
    assert read(shorten_definition(plain_from_spec(spec))) == spec


def test_all_errors_of_the_steps_are_told_with_their_place() -> None:
    steps = [*STEPS, {"name": "last", "function": "f", "after": ["laod", "last"], "retries": 3}]
    assert refusals({**BODY, "workflow": {"steps": steps}}) == [
        "workflow.steps[4].retries: there is no such field; did you mean 'retry.max_retries'?",
        "workflow.steps[4].after[0]: there is no step 'laod'; did you mean 'load'?",
        "workflow.steps[4].after[1]: cycle: last → last",
    ]
    target = {"type": "workflow", "steps": [{"name": "a"}]}
    assert refusals({"name": "etl", "target": target}) == [
        "target.steps[0].target: is missing; give one of callback_url, function, command, job, wait, target"
    ]


@pytest.mark.parametrize("steps", [None, {}, {"steps": []}, {"steps": 7}, []])
def test_workflow_without_steps_is_refused(steps: object) -> None:
    assert all(one.startswith("workflow") for one in refusals({**BODY, "workflow": steps}))


@pytest.mark.parametrize(
    "inner", [{"workflow": {"steps": STEPS}}, {"target": {"type": "workflow", "steps": STEPS}}]
)
def test_step_is_no_workflow(inner: dict[str, Any]) -> None:
    (error,) = refusals({**BODY, "workflow": {"steps": [{"name": "a", **inner}]}})
    assert error.endswith("is for a job: a step calls a function or an URL, or runs a command")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", "10m"),
        ("timeout_seconds", 600),
        ("soft_timeout", "5m"),
        ("labels", ["gpu"]),
        ("delivery", "at_most_once"),
        ("preempts", True),
        ("preemptible", True),
    ],
)
def test_what_is_for_attempts_is_refused_of_the_whole(field: str, value: object) -> None:
    (error,) = refusals({**BODY, field: value})
    assert error.startswith(f"{field}: is for what a worker carries out")


def test_workflow_is_not_retried_as_a_whole() -> None:
    (error,) = refusals({**BODY, "retry": {"max_retries": 2}})
    assert error == (
        "retry.max_retries: a workflow is not repeated as a whole; give the steps a retry, "
        "and set max_retries to 0 here"
    )
    assert read(retry={"max_retries": 0}).retry.max_retries == 0


def test_job_becomes_a_workflow_and_a_function_again() -> None:
    function = read_definition({"name": "etl", "function": "f"}, now=NOW)
    workflow = edit_definition(function, {"workflow": {"steps": STEPS}, "function": None}, now=NOW)
    assert (workflow.target, workflow.retry) == (read().target, NO_RETRY)
    again = edit_definition(workflow, {"function": "f"}, now=NOW)
    assert again.retry == RetryPolicy()
    kept = edit_definition(workflow, {"queue": "other"}, now=NOW)
    assert (kept.target, kept.queue) == (workflow.target, "other")
    with pytest.raises(InvalidInput, match="timeout: is for what a worker carries out"):
        edit_definition(workflow, {"timeout": 60}, now=NOW)


def test_steps_are_compared_by_their_names() -> None:
    before = plain_from_spec(read())
    changed = [
        {"name": "first", "function": "first"},
        {**STEPS[0], "retry": {"max_retries": 6}, "after": ["first"]},
        *STEPS[1:3],
    ]
    after = plain_from_spec(read(workflow={"steps": changed}))
    told = {one.field: (one.before, one.after) for one in compare_definitions(before, after)}
    assert told["target.steps.extract.retry.max_retries"] == (5, 6)
    assert told["target.steps.extract.after"] == (None, ["first"])
    assert told["target.steps.first"][0] is None
    assert told["target.steps.page"][1] is None
    assert len(told) == 4


def test_order_of_steps_is_told_by_their_names_alone() -> None:
    before = plain_from_spec(read())
    after = plain_from_spec(read(workflow={"steps": STEPS[::-1]}))
    (change,) = compare_definitions(before, after)
    assert (change.field, change.after) == ("target.steps", ["page", "load", "clean", "extract"])


class Worker:
    """A worker with some functions, which serves one queue."""

    types = ("function", "http", "shell")
    functions = ("extract", "page")
    labels = ()
    tenant = None

    def __init__(self, *queues: str) -> None:
        self.queues = queues


def test_a_workflow_lacks_what_one_of_its_steps_lacks() -> None:
    gap = Offers([Worker("default")]).find_gap_of(read(), "default")
    assert gap is not None
    assert (gap.code, gap.sentence) == (
        GapCode.QUEUE_UNSERVED,
        "Step 'page': No live worker serves queue 'ops'.",
    )
    assert Offers([Worker("default", "ops")]).find_gap_of(read(), "default") is None
    of_jobs = read_definition({"name": "jobs", "workflow": {"steps": [{"name": "a", "job": "b"}]}}, now=NOW)
    assert Offers([]).find_gap_of(of_jobs, "default") is None, "that of the job is told of by itself"


def test_no_worker_is_missed_for_the_workflow_itself() -> None:
    assert Offers([]).find_gap("default", "workflow", "default") is None
