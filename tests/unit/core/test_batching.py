"""Batches as values: how lines are cut, when they are ready, and which leases are one call."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.batching import TAKES_BATCHES, BatchRule, LineSize, cut, number_calls, rule_name
from mainspring.core.claiming import accepts_route
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.ids import JobId
from mainspring.core.limits import RunKey, is_batched, is_lined_up, keys_of, rules_of
from mainspring.core.model import JobSpec, Target
from mainspring.core.outlines import has_outline
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, at, make_spec

JOB = JobId(UUID(int=7))
instants = st.lists(st.integers(0, 100), max_size=60).map(
    lambda found: [at(second) for second in sorted(found)]
)
sizes = st.builds(
    LineSize, st.integers(1, 20), st.integers(0, 50).map(lambda seconds: timedelta(seconds=seconds))
)


@given(instants, sizes, st.integers(0, 10), st.integers(0, 150))
def test_only_the_last_batch_is_not_full_and_only_if_its_first_run_has_waited(
    found: list[Any], line: LineSize, most: int, now: int
) -> None:
    ready = [instant for instant in found if instant <= at(now)]
    taken = cut(ready, line, most, at(now))
    assert len(taken) <= most
    assert sum(taken) <= len(ready)
    assert all(each == line.size for each in taken[:-1])
    if taken and taken[-1] < line.size:
        assert sum(taken) == len(ready)
        assert ready[-taken[-1]] + line.wait <= at(now)


@given(instants, sizes, st.integers(0, 150))
def test_a_line_gives_something_exactly_when_it_is_said_to_be_ready(
    found: list[Any], line: LineSize, now: int
) -> None:
    if not found:
        return
    full_at = found[line.size - 1] if len(found) >= line.size else None
    ready_at = line.ready_at(found[0], full_at)
    taken = cut([instant for instant in found if instant <= at(now)], line, 1, at(now))
    assert bool(taken) is (ready_at <= at(now))


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(1, 7))
def test_a_call_has_runs_of_one_group_and_no_more_than_its_size(groups: list[str], size: int) -> None:
    texts = number_calls(5, [(group, size) for group in groups])
    assert all(count <= size for count in Counter(texts).values())
    assert len(set(zip(texts, groups, strict=True))) == len(set(texts))
    assert len(set(texts)) == sum(-(-count // size) for count in Counter(groups).values())
    assert set(texts).isdisjoint(number_calls(6, [(group, size) for group in groups]))


def batched(**batch: Any) -> JobSpec:
    return read_definition({"name": "mail", "function": "mail", "batch": batch}, now=START)


def test_a_definition_says_size_wait_and_key() -> None:
    assert batched(size=100).batch == BatchRule(size=100, wait=timedelta(seconds=1))
    spec = batched(size=2, wait="2s", key="$.customer")
    assert spec.batch == BatchRule(size=2, wait=timedelta(seconds=2), key="$.customer")
    assert spec_from_plain(plain_from_spec(spec)) == spec
    assert edit_definition(spec, {"batch": {"size": 9}}, now=START).batch == BatchRule(
        size=9, wait=timedelta(seconds=2), key="$.customer"
    )
    assert edit_definition(spec, {"batch": None}, now=START).batch is None


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"batch": {}}, "batch.size", "is missing"),
        ({"batch": 7}, "batch", "must be an object"),
        ({"batch": {"size": 1}}, "batch.size", "not between 2 and 1000"),
        ({"batch": {"size": 1001}}, "batch.size", "not between 2 and 1000"),
        ({"batch": {"size": 9, "wait": "61m"}}, "batch.wait", "1h"),
        ({"batch": {"size": 9, "key": "$.a b"}}, "batch.key", "no path"),
        ({"batch": {"size": 9, "sise": 1}}, "batch.sise", "no such field"),
        ({"batch": {"size": 9}, "delivery": "at_most_once"}, "batch", "repeated"),
        ({"batch": {"size": 9}, "concurrency": 1}, "batch", "counts single runs"),
        ({"batch": {"size": 9, "key": "$.a"}, "every": "1h"}, "payload.a", "batch.key needs it"),
        (
            {"batch": {"size": 9, "key": "$.a"}, "debounce": {"key": "$.b", "wait": 1}},
            "batch.key",
            "may change while a run waits",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        read_definition({"name": "mail", "function": "mail", **fields}, now=START)
    assert caught.value.field == field


def test_only_functions_take_batches() -> None:
    with pytest.raises(InvalidInput, match="type 'shell'") as caught:
        read_definition({"name": "mail", "command": ["true"], "batch": {"size": 9}}, now=START)
    assert caught.value.field == "batch"


def test_an_edit_that_does_not_go_names_what_was_written() -> None:
    for patch in ({"concurrency": 3}, {"delivery": "at_most_once"}):
        with pytest.raises(InvalidInput) as caught:
            edit_definition(batched(size=9), patch, now=START)
        assert [caught.value.field] == list(patch)


def test_runs_have_the_key_of_their_batch() -> None:
    spec = batched(size=9, key="$.customer")
    assert keys_of(JOB, spec, b'{"customer": 7}') == (RunKey(rule_name(JOB), "7"),)
    assert keys_of(JOB, batched(size=9)) == (RunKey(rule_name(JOB), ""),)
    [rule] = rules_of(JOB, spec)
    assert (rule.name, rule.job_id, rule.batch, rule.is_set) == (
        rule_name(JOB),
        JOB,
        LineSize(9, timedelta(seconds=1)),
        True,
    )
    assert not rule.lifted().is_set
    assert not has_outline(read_definition({**plain(spec), "run_at": "2100-01-01T00:00:00Z"}, now=START))


def plain(spec: JobSpec) -> dict[str, Any]:
    return {"name": spec.name, "function": "mail", "batch": {"size": 9}}


def test_only_workers_that_know_of_batches_get_them() -> None:
    route = batched(size=9).route
    assert is_lined_up(route)
    assert is_batched(route)
    assert not is_batched(make_spec(target=Target("function", {"function": "mail"})).route)

    def accepts(*labels: str) -> bool:
        return accepts_route(
            route, types=frozenset(), functions=frozenset({"mail"}), labels=frozenset(labels)
        )

    assert accepts(TAKES_BATCHES)
    assert not accepts("batch")
    with pytest.raises(InvalidInput):
        read_definition({"name": "x", "function": "mail", "labels": [TAKES_BATCHES]}, now=START)
