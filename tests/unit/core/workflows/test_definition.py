"""Definitions of workflows: exact round trips, and all that is wrong told at once, each with its place."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition.steps import STEP_OPTIONS, known_step_fields
from mainspring.core.definition.workflows import (
    MOST_ERRORS,
    plain_from_workflow,
    read_workflow,
    workflow_from_plain,
)
from mainspring.core.fields import encode_payload
from mainspring.core.model import Delivery, Priority, Target
from mainspring.core.retry import RetryPolicy
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.errors import InvalidFields, InvalidInput, PayloadTooLarge
from tests.unit.core.test_definition import json_values, retries, targets, words
from tests.unit.core.workflows.graphs import acyclic_links, layers

HOUR = timedelta(hours=1)


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    links = draw(acyclic_links(most_steps=5))
    name = st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True)
    names = draw(st.lists(name, min_size=len(links), max_size=len(links), unique=True))
    lone = [rule for rule in StepRule if not rule.needs_parents]
    return Workflow(
        tuple(
            WorkflowStep(
                name=names[place],
                target=draw(targets),
                after=tuple(names[parent] for parent in parents),
                rule=draw(st.sampled_from(list(StepRule) if parents else lone)),
                allow_failure=draw(st.booleans()),
                payload=draw(st.none() | json_values.filter(lambda one: one is not None).map(encode_payload)),
                priority=draw(st.none() | st.sampled_from(Priority)),
                queue=draw(st.none() | words),
                labels=tuple(sorted(draw(st.sets(words, max_size=3)))),
                retry=draw(retries),
                delivery=draw(st.sampled_from(Delivery)),
                timeout=draw(st.sampled_from([HOUR, 2 * HOUR, 24 * HOUR])),
                soft_timeout=draw(st.none() | st.sampled_from([HOUR / 60, HOUR / 2])),
            )
            for place, parents in enumerate(links)
        ),
        deadline=draw(st.none() | st.sampled_from([HOUR, 24 * HOUR])),
    )


@given(workflows())
def test_plain_form_and_back_is_the_same_workflow(workflow: Workflow) -> None:
    plain = plain_from_workflow(workflow)
    text = json.dumps(plain, allow_nan=False)
    assert workflow_from_plain(json.loads(text)) == workflow
    assert read_workflow(json.loads(text)) == workflow
    assert plain_from_workflow(workflow_from_plain(plain)) == plain


def errors_of(value: object, **options: Any) -> list[tuple[str, str]]:
    """Return what is wrong, as field and message."""
    with pytest.raises(InvalidFields) as caught:
        read_workflow(value, **options)
    assert caught.value.field == caught.value.errors[0].field
    return [(error.field, error.message) for error in caught.value.errors]


def test_short_and_full_forms() -> None:
    workflow = read_workflow(
        {
            "steps": [
                {"name": "extract", "function": "extract", "retry": {"max_retries": 5}, "timeout": "10m"},
                {
                    "name": "load",
                    "after": ["extract"],
                    "target": {"type": "http", "url": "https://example.com"},
                },
                {"name": "page", "command": ["page"], "after": ["load"], "rule": "one_failed", "queue": None},
            ]
        }
    )
    extract, load, page = workflow.steps
    assert extract == WorkflowStep(
        name="extract",
        target=Target("function", {"function": "extract"}),
        retry=RetryPolicy(max_retries=5),
        timeout=timedelta(minutes=10),
    )
    assert load.target is not None
    assert (load.target.type, load.after, load.rule) == ("http", ("extract",), StepRule.ALL_SUCCESS)
    assert (page.rule, page.queue, page.allow_failure) == (StepRule.ONE_FAILED, None, False)
    assert plain_from_workflow(Workflow((page,)))["steps"] == [
        {
            "name": "page",
            "target": {"type": "shell", "command": ["page"], "shell": False},
            "after": ["load"],
            "rule": "one_failed",
        }
    ]


def test_all_errors_are_told_at_once() -> None:
    found = errors_of(
        {
            "deadline": "soon",
            "timeout": "4h",
            "steps": [
                {"name": "load", "function": "f", "after": ["page"]},
                {"name": "Clean", "function": "f", "retry": {"max_retries": -1}, "timeout": "soon"},
                {"name": "load", "target": {"type": "http"}, "depends_on": ["load"]},
                "page",
                {"function": "f", "after": ["laod", "Clean"], "command": ["ls"]},
                {"name": "page", "callback_url": "ftp://x", "after": ["load", "load"], "rule": "always"},
                {"name": "late", "after": [7], "timeout": 5, "timeout_seconds": 5, "colour": 1},
            ],
        }
    )
    told = dict(found)
    assert list(told) == [
        "workflow.timeout",
        "workflow.deadline",
        "workflow.steps[1].name",
        "workflow.steps[1].retry.max_retries",
        "workflow.steps[1].timeout",
        "workflow.steps[2].depends_on",
        "workflow.steps[2].target.url",
        "workflow.steps[3]",
        "workflow.steps[4].name",
        "workflow.steps[4].command",
        "workflow.steps[5].callback_url",
        "workflow.steps[5].after[1]",
        "workflow.steps[5].rule",
        "workflow.steps[6].colour",
        "workflow.steps[6].target",
        "workflow.steps[6].after[0]",
        "workflow.steps[6].timeout_seconds",
        "workflow.steps[2].name",
        "workflow.steps[4].after[0]",
        "workflow.steps[0].after[0]",
    ]
    assert len(found) == len(told)
    assert told["workflow.steps[1].name"] == "must be 1 to 63 of a-z 0-9 _, with a letter first, not 'Clean'"
    assert told["workflow.steps[2].depends_on"] == "there is no such field; did you mean 'after'?"
    assert told["workflow.steps[4].command"] == "a step has one target; 'function' is given already"
    assert told["workflow.steps[2].name"] == "'load' is the name of steps[0] already"
    assert told["workflow.steps[4].after[0]"] == "there is no step 'laod'; did you mean 'load'?"
    assert told["workflow.steps[0].after[0]"] == "cycle: load → page → load"


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        ([], "workflow", "must be an object with steps, not a list"),
        ({}, "workflow.steps", "is missing; a workflow has at least one step"),
        ({"steps": {}}, "workflow.steps", "must be a list of 1 to 1000 steps, not an object"),
        ({"steps": []}, "workflow.steps", "must be a list of 1 to 1000 steps, not 0 of them"),
        ({"steps": [{}] * 1001}, "workflow.steps", "must be a list of 1 to 1000 steps, not 1001 of them"),
        ({"steps": [None]}, "workflow.steps[0]", "must be an object with a name and a target, not null"),
    ],
)
def test_what_is_no_list_of_steps_is_refused(value: object, field: str, words: str) -> None:
    assert errors_of(value) == [(field, words)]


def step(**fields: Any) -> dict[str, Any]:
    return {"name": "a", "function": "f", **fields}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": ""}, "name", "must be 1 to 63"),
        ({"name": "a" * 64}, "name", "must be 1 to 63"),
        ({"name": "1a"}, "name", "with a letter first"),
        ({"name": "é"}, "name", "of a-z 0-9 _"),
        ({"name": "a\n"}, "name", "not 'a\\n'"),
        ({"name": None}, "name", "not null"),
        ({"after": "b"}, "after", "must be a list of steps' names, not text"),
        ({"after": [[]]}, "after[0]", "must be the name of a step, not a list"),
        ({"after": None}, "after", "must be a list of steps' names, not null"),
        ({"allow_failure": "yes"}, "allow_failure", "true or false"),
        ({"priority": "URGENT"}, "priority", "must be one of HIGH, MEDIUM, LOW"),
        ({"queue": "a b"}, "queue", "must be 1 to 64"),
        ({"soft_timeout": "2h", "timeout": "1h"}, "soft_timeout", "must be shorter than the timeout, 1h"),
        ({"retry": {"rules": [{"on": "exit 1"}]}}, "retry.rules[0].on", "targets of the type 'shell'"),
        ({"retry": {"backoff": "list"}}, "retry.delays", "is missing"),
        ({"trigger_rule": "all_done"}, "trigger_rule", "did you mean 'rule'?"),
        ({"prioritty": "LOW"}, "prioritty", "did you mean 'priority'?"),
        ({"overlap": "skip"}, "overlap", "there is no such field"),
        ({7: "x"}, "a number", "a field's name is text"),
    ],
)
def test_a_wrong_field_of_a_step_is_refused(fields: dict[Any, Any], field: str, words: str) -> None:
    [(place, message)] = errors_of({"steps": [{**step(), **fields}]})
    assert place == f"workflow.steps[0].{field}"
    assert words in message


@pytest.mark.parametrize("rule", StepRule)
@pytest.mark.parametrize("after", [{}, {"after": []}])
def test_a_rule_that_asks_for_parents_is_refused_without(rule: StepRule, after: dict[str, Any]) -> None:
    body = {"steps": [step(rule=rule.value, **after)]}
    if not rule.needs_parents:
        assert read_workflow(body).steps[0].rule is rule
        return
    message = f"'{rule}' asks for the end of other steps; name them in 'after', or leave the rule out"
    assert errors_of(body) == [("workflow.steps[0].rule", message)]


def test_a_step_after_itself_and_a_long_cycle() -> None:
    assert errors_of({"steps": [step(after=["a"])]}) == [("workflow.steps[0].after[0]", "cycle: a → a")]
    bodies = [step(name=f"s{n}", after=[f"s{(n - 1) % 20}"]) for n in range(20)]
    [(field, message)] = errors_of({"steps": bodies})
    assert field == "workflow.steps[0].after[0]"
    assert message == "cycle: s0 → s1 → s2 → s3 → s4 → s5 → s6 → (12 more) → s19 → s0"


def test_names_that_cannot_be_printed_stand_in_no_message() -> None:
    odd = "\ud800"
    found = errors_of({"steps": [step(name=odd, after=[odd]), step(name=odd, after=["\ud801"])]})
    assert len(found) == 5
    for field, message in found:
        (field + message).encode()


def test_a_payload_that_is_too_large_is_refused_as_such() -> None:
    with pytest.raises(InvalidFields) as caught:
        read_workflow({"steps": [step(payload="x" * 70_000)]})
    [error] = caught.value.errors
    assert isinstance(error, PayloadTooLarge)
    assert error.field == "workflow.steps[0].payload"


def test_bounds_are_those_of_the_server() -> None:
    body = {"steps": [step(name=f"s{n}", payload="x" * 100) for n in range(3)]}
    assert len(read_workflow(body, most_steps=3).steps) == 3
    [(field, _)] = errors_of(body, most_steps=2)
    assert field == "workflow.steps"
    size = len(encode_payload(plain_from_workflow(read_workflow(body))))
    read_workflow(body, most_bytes=size)
    [(field, message)] = errors_of(body, most_bytes=size - 1)
    assert (field, message.partition(";")[0]) == ("workflow", f"has {size} bytes")


def test_types_and_functions_are_those_that_are_accepted() -> None:
    found = errors_of({"steps": [step(command=["ls"]) | {"function": "g"}]}, functions=frozenset({"f"}))
    assert [field for field, _ in found] == ["workflow.steps[0].command"]
    [(field, message)] = errors_of({"steps": [step()]}, functions=frozenset({"g"}))
    assert (field, message) == (
        "workflow.steps[0].function",
        "no worker has registered 'f'; known are g",
    )
    [(field, _)] = errors_of({"steps": [step()]}, types=frozenset({"http"}))
    assert field == "workflow.steps[0].function"


def test_so_many_errors_are_told_and_no_more() -> None:
    names = [f"step_{n}" for n in range(1000)]
    wrong = [step(name=name, after=[f"{other}x" for other in names]) for name in names]
    found = errors_of({"steps": wrong})
    assert len(found) == MOST_ERRORS
    assert found[0][1] == "there is no step 'step_0x'; did you mean 'step_0'?"
    assert found[-1] == ("workflow.steps[0].after[99]", "there is no step 'step_99x'")
    assert len(errors_of({"steps": [{f"f{n}": 1 for n in range(1000)}] * 1000})) == MOST_ERRORS


def test_several_errors_are_one_that_says_how_many_more() -> None:
    with pytest.raises(InvalidInput, match=r"^workflow.steps\[0\].name: is missing.* \(and 1 more\)$"):
        read_workflow({"steps": [{}]})
    with pytest.raises(InvalidInput, match=r"has one target; 'function' is given already$"):
        read_workflow({"steps": [step(command=["ls"])]})


def test_large_workflow_in_its_full_form() -> None:
    """1,000 steps with 24,375 links fit, though each names 25 others."""
    links = layers(width=25, depth=40, fan=25)
    bodies = [
        step(name=f"s{n}", after=[f"s{parent}" for parent in parents]) for n, parents in enumerate(links)
    ]
    workflow = read_workflow({"steps": bodies})
    assert workflow_from_plain(plain_from_workflow(workflow)) == workflow


@given(
    st.recursive(
        json_values,
        lambda below: st.fixed_dictionaries(
            {
                "steps": st.lists(
                    st.dictionaries(st.sampled_from(sorted(known_step_fields())), below | json_values),
                    max_size=4,
                )
            }
        ),
        max_leaves=8,
    )
)
def test_whatever_is_sent_is_read_or_refused(value: object) -> None:
    try:
        workflow = read_workflow(value)
    except InvalidFields as error:
        errors = error.errors
    else:
        assert read_workflow(plain_from_workflow(workflow)) == workflow
        return
    assert errors
    assert all(one.field.startswith("workflow") for one in errors)


def test_each_option_has_words_and_a_schema() -> None:
    for option in STEP_OPTIONS:
        assert option.summary.endswith(".")
        assert option.schema()["description"] == option.summary
        assert option.kind.limits()


def test_steps_at_the_end_follow_only_each_other() -> None:
    steps = [
        {"name": "a", "function": "f"},
        {"name": "b", "function": "f", "after": ["a", "e"]},
        {"name": "d", "function": "f", "at_end": True},
        {"name": "e", "function": "f", "at_end": True, "after": ["a", "d"]},
    ]
    assert dict(errors_of({"steps": steps})) == {
        "workflow.steps[1].after[1]": "'e' runs at the end, after this step; give this step 'at_end', too, "
        "or leave it out",
        "workflow.steps[3].after[0]": "'a' has ended anyway when a step at the end starts; leave it out",
    }
