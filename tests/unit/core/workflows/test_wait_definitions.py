"""The field `wait` of a step: read, refused, kept and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.definition.workflows import plain_from_workflow, read_workflow, workflow_from_plain
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.waits import Approval, EventWait, MadeValue, OnTimeout, StepWait
from mainspring.errors import InvalidFields

DAY = timedelta(days=1)


def read(wait: Any, **fields: Any) -> StepWait:
    workflow = read_workflow(
        {"steps": [{"name": "a", "function": "f"}, {"name": "w", "wait": wait, **fields}]}
    )
    assert workflow_from_plain(plain_from_workflow(workflow)) == workflow
    again = read_workflow(plain_from_workflow(workflow))
    assert again == workflow, "the kept form is one that may be written"
    found = workflow.steps[1].wait
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ({"sleep": "3d"}, StepWait(sleep=3 * DAY)),
        ({"sleep_seconds": 90}, StepWait(sleep=timedelta(seconds=90))),
        (
            {"until": "2026-12-24T18:00:00+01:00"},
            StepWait(until=datetime(2026, 12, 24, 17, tzinfo=UTC)),
        ),
        ({"until": {"cel": "steps.a.result.at"}}, StepWait(until=MadeValue("steps.a.result.at"))),
        ({"signal": "stock-counted"}, StepWait(signal="stock-counted")),
        (
            {"approval": {"by": ["anna", "anna"]}, "timeout": "2d", "on_timeout": "skip"},
            StepWait(approval=Approval(by=("anna",)), timeout=2 * DAY, on_timeout=OnTimeout.SKIP),
        ),
        ({"approval": {}}, StepWait(approval=Approval())),
        ({"event": "orders.paid"}, StepWait(event=EventWait(topic="orders.paid"))),
        (
            {"event": {"topic": "orders.paid", "key": "4711"}, "timeout": "2d"},
            StepWait(event=EventWait(topic="orders.paid", key="4711"), timeout=2 * DAY),
        ),
        (
            {"event": {"topic": "orders.paid", "key": {"cel": "steps.a.result.order"}}},
            StepWait(event=EventWait(topic="orders.paid", key=MadeValue("steps.a.result.order"))),
        ),
    ],
)
def test_what_a_step_may_wait_for(wait: Any, expected: StepWait) -> None:
    assert read(wait) == expected


def test_a_step_waits_for_the_one_that_its_instant_names() -> None:
    steps = [
        {"name": "w", "wait": {"until": {"cel": "steps.a.result"}}},
        {"name": "a", "function": "f"},
    ]
    workflow = read_workflow({"steps": steps})
    assert workflow.steps[0].after == ("a",)
    assert FlowPlan.of(workflow).users == {1: (0,)}


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"wait": {}}, "wait", "must have one of sleep, until, signal, approval, event"),
        (
            {"wait": 5},
            "wait",
            "must be an object of sleep, until, signal, approval, event, timeout, on_timeout",
        ),
        ({"wait": {"sleep": "1d", "signal": "go"}}, "wait.signal", "does not go with 'sleep'; remove one"),
        ({"wait": {"sleep": "0s"}}, "wait.sleep", "must be between 1ms and 366d, not 0s"),
        (
            {"wait": {"sleep": "1d", "timeout": "2d"}},
            "wait.timeout",
            "goes with signal or approval or event, not 'sleep'",
        ),
        (
            {"wait": {"sleep": "1d", "on_timeout": "skip"}},
            "wait.on_timeout",
            "goes with signal or approval or event, not 'sleep'",
        ),
        (
            {"wait": {"signal": "go", "on_timeout": "skip"}},
            "wait.on_timeout",
            "needs a timeout; give wait.timeout, too",
        ),
        ({"wait": {"signal": "no way"}}, "wait.signal", "must be 1 to 100 of A-Z a-z 0-9 . _ -"),
        ({"wait": {"signal": 5}}, "wait.signal", "with a letter or digit first, not a number"),
        ({"wait": {"event": {"key": "1"}}}, "wait.event.topic", "is missing"),
        ({"wait": {"event": {"topic": "t", "key": 5}}}, "wait.event.key", "must be text"),
        (
            {"wait": {"event": {"topic": "t", "key": {"cel": "steps.b.result"}}}},
            "wait.event.key.cel",
            "no step 'b'",
        ),
        ({"wait": {"until": "tomorrow"}}, "wait.until", "'tomorrow' is not an instant"),
        ({"wait": {"until": {"cel": "steps.b.result"}}}, "wait.until.cel", "there is no step 'b'"),
        ({"wait": {"approval": {"by": "anna"}}}, "wait.approval.by", "must be a list of at most 20 accounts"),
        ({"wait": {"approval": {"from": []}}}, "wait.approval.from", "there is no such field"),
        (
            {"wait": {"signal": "go"}, "function": "f"},
            "function",
            "a step runs something or waits; remove one",
        ),
        ({"wait": {"signal": "go"}, "job": "f"}, "job", "a step runs something or waits; remove one"),
        (
            {"wait": {"signal": "go"}, "timeout": "1d"},
            "timeout",
            "a step that waits has no run; give wait.timeout",
        ),
        ({"wait": {"signal": "go"}, "payload": 5}, "payload", "a step that waits has no run"),
        ({"wait": {"signal": "go"}, "map": {"over": []}}, "map", "a step that waits has no run"),
        ({"wait": {"signal": "go"}, "with": {"a": 1}}, "with", "a step that waits has no run"),
        ({"wait": {"signal": "go"}, "at_end": True}, "at_end", "does not go with 'wait'"),
        ({"wait": {"signal": "go"}, "undoes": "w"}, "undoes", "does not go with 'wait'"),
        ({"sleep": "1d"}, "sleep", "there is no such field"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidFields) as raised:
        read_workflow({"steps": [{"name": "w", **fields}]})
    first = raised.value.errors[0]
    assert first.field == f"workflow.steps[0].{field}"
    assert message in first.message
