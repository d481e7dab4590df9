"""Workflows written in Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args, get_type_hints

import pytest

from mainspring import App, InvalidInput
from mainspring.core.definition.steps import STEP_OPTIONS, known_step_fields
from mainspring.core.workflows.rules import StepRule
from mainspring.errors import InvalidFields
from mainspring.sdk.definitions import AllJobOptions, WorkflowOptions
from mainspring.sdk.workflow import AppStep, RuleName, StepOptions


def extract() -> None: ...


def test_steps_make_the_body_of_a_job() -> None:
    app = App()
    job = app.job()(extract)
    etl = app.workflow("etl", cron="0 3 * * *", queue="night")
    first = etl.step("extract", job, retries=5)
    clean = etl.step("clean", extract, after=first, timeout=timedelta(minutes=5))
    etl.step("load", "their.load", after=[clean], allow_failure=True, payload={"a": 1})
    etl.step("page", callback_url="https://example.com/", after=["extract", clean], rule="one_failed")
    assert app.definitions()[1] == etl.definition
    assert etl.definition == {
        "name": "etl",
        "cron": "0 3 * * *",
        "queue": "night",
        "workflow": {
            "steps": [
                {"name": "extract", "function": "extract", "retry": {"max_retries": 5}, "after": []},
                {"name": "clean", "function": "etl.clean", "timeout": 300.0, "after": ["extract"]},
                {
                    "name": "load",
                    "function": "their.load",
                    "payload": {"a": 1},
                    "after": ["clean"],
                    "allow_failure": True,
                },
                {
                    "name": "page",
                    "callback_url": "https://example.com/",
                    "after": ["extract", "clean"],
                    "rule": "one_failed",
                },
            ]
        },
    }
    assert app.registry.names() == ("etl.clean", "extract")


def test_steps_get_what_others_have_left() -> None:
    app = App()
    etl = app.workflow("etl")
    files = etl.step("files", "list")
    etl.step("first", "load", payload={"name": files.result.names[0], "table": ["a"], "all": etl.input})
    etl.step("whole", "load", payload=files.result["a b"], when=f"{files.result.names}.size() > 0")
    etl.step("page", "page", payload={"why": files.error, "how": files.status}, rule="one_failed")
    etl.returns(files.result.true)
    body = etl.definition["workflow"]
    assert body["result"] == 'steps.files.result["true"]'
    assert [
        {field: step[field] for field in step if field in {"with", "when", "after"}} for step in body["steps"]
    ] == [
        {"after": []},
        {
            "after": [],
            "with": {
                "name": {"cel": "steps.files.result.names[0]"},
                "table": ["a"],
                "all": {"cel": "input"},
            },
        },
        {
            "after": [],
            "with": {"cel": 'steps.files.result["a b"]'},
            "when": "steps.files.result.names.size() > 0",
        },
        {
            "after": [],
            "with": {"why": {"cel": "steps.files.error"}, "how": {"cel": "steps.files.status"}},
        },
    ]


def test_steps_wait() -> None:
    app = App()
    etl = app.workflow("etl")
    made = etl.step("made", "make")
    signed = etl.wait("signed", approval=["anna"], timeout=timedelta(days=2), on_timeout="skip", after=made)
    etl.wait("published", until=made.result.at, rule="all_done")
    etl.wait("fixed", until=datetime(2026, 12, 24, tzinfo=UTC), after=signed, when="true")
    etl.wait("nap", sleep="3d", allow_failure=True)
    etl.wait("counted", signal="stock-counted", after="made")
    etl.wait("any", approval=True)
    steps = {step["name"]: step for step in etl.definition["workflow"]["steps"]}
    assert steps["signed"] == {
        "name": "signed",
        "wait": {"approval": {"by": ["anna"]}, "timeout": 172800.0, "on_timeout": "skip"},
        "after": ["made"],
    }
    assert steps["published"]["wait"] == {"until": {"cel": "steps.made.result.at"}}
    assert steps["fixed"]["wait"] == {"until": "2026-12-24T00:00:00+00:00"}
    assert steps["any"]["wait"] == {"approval": {"by": []}}
    with pytest.raises(InvalidInput, match="does not go with 'sleep'") as raised:
        etl.wait("wrong", sleep="1d", signal="go")
    assert any("the step 'wrong' of 'etl'" in note for note in raised.value.__notes__)


def test_a_map_goes_over_what_another_step_has_returned() -> None:
    app = App(name="shop")
    flow = app.workflow("nightly")
    found = flow.step("find", "find_files")
    each = flow.map(
        "each", "clean", over=found.result.files, payload={"file": flow.item.name, "at": flow.index}
    )
    flow.step("tell", "tell", payload={"good": each.succeeded, "bad": each.failed})
    _, cleaned, told = flow.definition["workflow"]["steps"]
    assert cleaned["map"]["over"] == "steps.find.result.files"
    assert cleaned["with"] == {"file": {"cel": "item.name"}, "at": {"cel": "index"}}
    assert told["with"] == {"good": {"cel": "steps.each.succeeded"}, "bad": {"cel": "steps.each.failed"}}
    again = app.workflow("again")
    again.map("each", "clean", over="input.files", rule="all_done", after=again.step("one", "find_files"))
    assert again.definition["workflow"]["steps"][1]["map"]["over"] == "input.files"


def test_references_are_refused_where_they_would_not_be_found() -> None:
    etl = App().workflow("etl")
    files = etl.step("files", "list")
    with pytest.raises(
        InvalidInput, match=r"^payload\.a\[0\]: steps\.files\.result must be the payload, or one"
    ):
        etl.step("load", "load", payload={"a": [files.result]})
    with pytest.raises(InvalidInput, match=r"^payload\.a\.b: "):
        etl.step("load", "load", payload={"a": {"b": files.result}, "c": files.result})
    with pytest.raises(
        TypeError, match=r"^steps\.files\.result has no value yet; write a condition as when="
    ):
        assert files.result
    with pytest.raises(TypeError, match="let the step go over it"):
        list(files.result)
    assert repr(files.result) == "<reference steps.files.result>"
    etl.step("load", "load", payload={"a": AppStep("other", {}).result})
    with pytest.raises(InvalidFields, match="there is no step 'other'"):
        _ = etl.definition


def test_step_may_be_named_before_it_is_written() -> None:
    etl = App().workflow("etl")
    etl.step("load", "f", after="clean")
    with pytest.raises(InvalidFields, match=r"steps\[0\].after\[0\]: there is no step 'clean'"):
        _ = etl.definition
    etl.step("clean", "f")
    assert len(etl.definition["workflow"]["steps"]) == 2


def test_wrong_step_is_refused_where_it_is_written() -> None:
    app = App()
    etl = app.workflow("etl")
    etl.step("load", extract)
    with pytest.raises(InvalidInput, match="'etl' has a step 'load' already") as caught:
        etl.step("load", extract)
    assert caught.value.__notes__[0].startswith(f"in the step 'load' of 'etl': {__file__}, line ")
    with pytest.raises(InvalidFields, match=r"^timeou: there is no such field") as many:
        etl.step("other", extract, timeou=3, delivry="x")  # type: ignore[call-arg]
    assert len(many.value.errors) == 2
    assert [step.name for step in etl.steps] == ["load"]
    assert app.registry.names() == ("etl.load",)


def test_names_of_workflows_and_jobs_are_one_another_s() -> None:
    app = App()
    app.job("etl")(extract)
    with pytest.raises(InvalidInput, match="the app has a job 'etl' already"):
        app.workflow("etl")
    app.workflow("night")
    with pytest.raises(InvalidInput, match="the app has a workflow 'night'"):
        app.job("night")(extract)


def test_a_step_undoes_another() -> None:
    trip = App().workflow("trip")
    book = trip.step("book", "book")
    trip.step("free", "free", undoes=book, payload={"room": book.result})
    trip.step("forget", "forget", undoes="pay")
    trip.step("pay", "pay", after=[book])
    steps = trip.definition["workflow"]["steps"]
    assert [one.get("undoes") for one in steps] == [None, "book", "pay", None]
    trip.step("late", "late", undoes="nobody")
    with pytest.raises(InvalidFields, match="there is no step 'nobody'"):
        _ = trip.definition


def test_arguments_are_those_of_steps_and_jobs() -> None:
    own = {"name", "function", "after", "rule", "allow_failure", "at_end", "when", "given", "workflow"}
    own |= {"job", "map", "wait", "undoes"}
    forms = {option.name for option in STEP_OPTIONS} | {
        field for field in known_step_fields() if field not in STEP_OPTIONS.by_form
    }
    assert set(get_type_hints(StepOptions)) == (forms - own) | {"retries", "retry_on", "no_retry_on"}
    assert set(get_args(RuleName)) == {rule.value for rule in StepRule}
    left_out = set(get_type_hints(AllJobOptions)) - set(get_type_hints(WorkflowOptions))
    assert left_out == {
        *("batch", "labels", "retry", "retries", "retry_on", "no_retry_on", "delivery", "timeout"),
        *("soft_timeout", "preempts", "preemptible", "isolation"),
    }
