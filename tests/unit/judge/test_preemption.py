"""S30: only what may be preempted is, for what is more urgent or reserved, and three times at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.ids import RunId
from mainspring.core.model import Delivery, Priority
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Asking


def ask(story: Story, run_id: RunId, *tokens: int, by: str = "HIGH work of queue mail") -> None:
    """Note that a run was asked to give up its slot, under each of these tokens."""
    story.history.askings += [Asking(at=at(11), run_id=run_id, token=token, by=by) for token in tokens]


def told(*tries: str, **spec: Any) -> tuple[Story, RunId]:
    """A preemptible run whose tries end like that; the last one succeeds."""
    story = Story()
    job_id = story.job(**{"priority": Priority.LOW, "preemptible": True} | spec)
    return story, story.submit(job_id, 10.0, *tries, "done")


def test_a_run_that_was_asked_and_gave_way_is_right() -> None:
    story, run_id = told("preempted")
    ask(story, run_id, 1)
    assert story.broken == set()


def test_a_run_that_succeeds_although_it_was_asked_is_right() -> None:
    story, run_id = told()
    ask(story, run_id, 1)
    assert story.broken == set()


def test_a_run_that_gave_way_unasked_is_wrong() -> None:
    story, _ = told("preempted")
    assert story.broken == {"S30"}


@pytest.mark.parametrize(("times", "is_good"), [(3, True), (4, False)])
def test_three_times_are_the_limit(times: int, *, is_good: bool) -> None:
    story, run_id = told(*["preempted"] * times)
    ask(story, run_id, *range(1, 2 * times, 2))
    assert story.broken == (set() if is_good else {"S30"})


def test_a_lease_that_was_asked_twice_is_wrong() -> None:
    story, run_id = told("preempted")
    ask(story, run_id, 1, 1)
    assert story.broken == {"S30"}


@pytest.mark.parametrize(
    "spec",
    [
        {"preemptible": False},
        {"delivery": Delivery.AT_MOST_ONCE},
        {"priority": Priority.HIGH},
    ],
)
def test_who_may_not_be_asked_was_asked_wrongly(spec: dict[str, Any]) -> None:
    story, run_id = told(**spec)
    ask(story, run_id, 1)
    assert story.broken == {"S30"}


@pytest.mark.parametrize(("tier", "is_good"), [(Priority.LOW, True), (Priority.MEDIUM, False)])
def test_only_lower_tiers_make_room(tier: Priority, *, is_good: bool) -> None:
    story, run_id = told(priority=tier)
    ask(story, run_id, 1, by="MEDIUM work of queue mail")
    assert story.broken == (set() if is_good else {"S30"})


RESERVED = "{} work of queue mail with reserved slots"


@pytest.mark.parametrize(
    ("tier", "is_good"), [(Priority.LOW, True), (Priority.MEDIUM, True), (Priority.HIGH, False)]
)
def test_what_is_reserved_takes_slots_of_its_tier_too(tier: Priority, *, is_good: bool) -> None:
    story, run_id = told("preempted", priority=tier)
    story.history = replace(story.history, promises={"acme": 1})
    ask(story, run_id, 1, by=RESERVED.format("MEDIUM" if tier is Priority.HIGH else tier.name))
    assert story.broken == (set() if is_good else {"S30"})


@pytest.mark.parametrize("reserves", [{}, {"default": 3}])
def test_without_a_reserve_of_another_tenant_nothing_is_taken_for_one(reserves: dict[str, int]) -> None:
    story, run_id = told("preempted")
    story.history = replace(story.history, promises=reserves)
    ask(story, run_id, 1, by=RESERVED.format("LOW"))
    assert story.broken == {"S30"}


@pytest.mark.parametrize(("slots", "is_good"), [(2, True), (1, False)])
def test_no_more_is_taken_at_once_than_is_reserved(slots: int, *, is_good: bool) -> None:
    story, first = told("preempted")
    second = story.submit(story.history.runs[0].job_id, 10.0, "preempted", "done")
    story.history = replace(story.history, promises={"acme": slots})
    for run_id in (first, second):
        ask(story, run_id, 1, by=RESERVED.format("LOW"))
    assert story.broken == (set() if is_good else {"S30"})
