"""S20: what was late by more than its grace was treated as its policy says, and nothing else was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, grace, seconds


def outage(policy: str, *, allowed: float = 3, until: float = 34, **rule: int) -> tuple[Story, JobId]:
    """A job that fires every ten seconds and an outage from 5 on."""
    story = Story()
    story.fault(5, until)
    return story, story.job(every(10), misfire=grace(allowed, policy, **rule))


def test_fire_within_its_grace_is_on_time() -> None:
    for policy in ("skip", "fire_latest", "fire_all"):
        story, job = outage(policy, allowed=5, until=14)
        story.fire(job, 10, late=4.9)
        story.fires(job, 20, 30, 40, 50)
        assert story.broken == set(), story.told


@pytest.mark.parametrize("policy", ["skip", "fire_all"])
def test_late_fire_that_is_made_all_the_same(policy: str) -> None:
    story, job = outage(policy, until=14)
    story.fire(job, 10, late=5)
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == {"S20"}


# -- skip ------------------------------------------------------------------------------------------------------


def skipped() -> tuple[Story, JobId]:
    story, job = outage("skip")
    story.gap(job, 10, 30, "misfire", when=35)
    story.fires(job, 40, 50)
    return story, job


def test_skipped_fires_are_good() -> None:
    assert skipped()[0].broken == set()


def test_fire_skipped_within_its_grace() -> None:
    story, job = outage("skip", until=12)
    story.fire(job, 10, late=2.5, reason="misfire")
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == {"S20"}


@pytest.mark.parametrize("changes", [{"created_at": at(32.5)}, {"reason": "misfire_limit"}])
def test_gap_that_the_policy_does_not_give(changes: dict[str, Any]) -> None:
    story, _ = skipped()
    story.history.fire_ranges[0] = replace(story.history.fire_ranges[0], **changes)
    assert story.broken == {"S20"}


def test_late_fires_that_are_caught_up_though_skipped() -> None:
    story, job = outage("skip")
    fire_range = story.catch_up(job, 10, 30, "misfire", when=35)
    for instant in (10, 20, 30):
        story.make_up(job, fire_range, instant, 35.5)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}


# -- fire_latest -----------------------------------------------------------------------------------------------


def latest() -> tuple[Story, JobId]:
    story, job = outage("fire_latest")
    story.gap(job, 10, 20, "misfire", when=35)
    story.fire(job, 30, late=5)
    story.fires(job, 40, 50)
    return story, job


def test_latest_fire_is_good() -> None:
    assert latest()[0].broken == set()


def test_single_fire_before_the_latest_is_skipped() -> None:
    story, job = outage("fire_latest", until=24)
    story.fire(job, 10, late=15, reason="misfire")
    story.fire(job, 20, late=5)
    story.fires(job, 30, 40, 50)
    assert story.broken == set()


def test_fire_that_is_not_the_latest() -> None:
    story, job = outage("fire_latest", until=24)
    story.fire(job, 10, late=15)
    story.fire(job, 20, late=5)
    story.fires(job, 30, 40, 50)
    assert story.broken == {"S20"}


def test_latest_fire_that_is_left_out() -> None:
    story, job = outage("fire_latest")
    story.gap(job, 10, 30, "misfire", when=35)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}
    story, job = outage("fire_latest", until=14)
    story.fire(job, 10, late=5, reason="misfire")
    story.fires(job, 20, 30, 40, 50)
    assert story.broken == {"S20"}


def test_fires_that_are_left_out_within_their_grace() -> None:
    story, job = outage("fire_latest", allowed=60)
    story.gap(job, 10, 20, "misfire", when=35)
    story.fire(job, 30, late=5)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}


@pytest.mark.parametrize(("from_at", "rules"), [(30, set()), (20, {"S20"})])
def test_edit_keeps_the_latest_alone(from_at: float, rules: set[str]) -> None:
    story, job = outage("fire_latest")
    story.gap(job, 10, from_at - 10, "misfire", when=35)
    fire_range = story.catch_up(job, from_at, 30, "misfire", when=35)
    for instant in range(int(from_at), 31, 10):
        story.make_up(job, fire_range, instant, 35.5)
    story.edit(job, 35, trigger=every(45))
    story.fires(job, 45)
    assert story.broken == rules


def test_catch_up_of_what_is_not_the_latest() -> None:
    story, job = outage("fire_latest")
    story.gap(job, 10, 10, "misfire", when=35)
    story.gap(job, 30, 30, "misfire", when=35)
    story.make_up(job, story.catch_up(job, 20, 20, "misfire", when=35), 20, 35.5)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}


# -- fire_all --------------------------------------------------------------------------------------------------


def caught_up(first: int, *, limit_through: int | None = None, **rule: int) -> Story:
    """The fires from `first` on are caught up, those through `limit_through` are left out."""
    story, job = outage("fire_all", **rule)
    if limit_through is not None and limit_through > 10:
        story.gap(job, 10, limit_through, "misfire_limit", when=35)
    elif limit_through is not None:
        story.fire(job, 10, late=25, reason="misfire_limit")
    fire_range = story.catch_up(job, first, 30, "misfire", when=35)
    for instant in range(first, 31, 10):
        story.make_up(job, fire_range, instant, 35.5)
    story.fires(job, 40, 50)
    return story


@pytest.mark.parametrize(
    ("first", "limit_through", "most"), [(10, None, 3), (10, None, 9), (20, 10, 2), (30, 20, 1)]
)
def test_newest_fires_are_caught_up(first: int, limit_through: int | None, most: int) -> None:
    assert caught_up(first, limit_through=limit_through, max_count=most).broken == set()


@pytest.mark.parametrize(("first", "limit_through", "most"), [(10, None, 2), (20, 10, 1)])
def test_more_than_the_limit_is_caught_up(first: int, limit_through: int | None, most: int) -> None:
    assert "S20" in caught_up(first, limit_through=limit_through, max_count=most).broken


@pytest.mark.parametrize(("first", "limit_through", "most"), [(20, 10, 3), (30, 20, 2)])
def test_less_than_the_limit_is_caught_up(first: int, limit_through: int | None, most: int) -> None:
    assert caught_up(first, limit_through=limit_through, max_count=most).broken == {"S20"}


def aged(first: int, limit_through: int | None) -> Story:
    """A missed fire may be 20 seconds old; the outage is found to be over at 35."""
    story, job = outage("fire_all")
    rule = replace(story.history.changes[0].spec.misfire, max_age=seconds(20))
    spec = replace(story.history.changes[0].spec, misfire=rule)
    story.history.changes[0] = replace(story.history.changes[0], spec=spec)
    if limit_through is not None:
        story.fire(job, 10, late=25, reason="misfire_limit")
    fire_range = story.catch_up(job, first, 30, "misfire", when=35)
    for instant in range(first, 31, 10):
        story.make_up(job, fire_range, instant, 35.5)
    story.fires(job, 40, 50)
    return story


def test_old_fires_are_left_out() -> None:
    assert aged(20, 10).broken == set()
    assert aged(10, None).broken == {"S20"}


@pytest.mark.parametrize("reason", ["misfire", "misfire_limit"])
def test_all_are_left_out_though_they_are_to_be_fired(reason: str) -> None:
    story, job = outage("fire_all")
    story.gap(job, 10, 30, reason, when=35)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}


def test_no_fire_may_be_made_up_for() -> None:
    story, job = outage("fire_all", max_count=0)
    story.gap(job, 10, 30, "misfire_limit", when=35)
    story.fires(job, 40, 50)
    assert story.broken == set()


def test_catch_up_of_what_was_within_its_grace() -> None:
    story, job = outage("fire_all", allowed=6)
    fire_range = story.catch_up(job, 10, 30, "misfire", when=35)
    for instant in (10, 20, 30):
        story.make_up(job, fire_range, instant, 35.5)
    story.fires(job, 40, 50)
    assert story.broken == {"S20"}


# -- edits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["skip", "fire_latest", "fire_all"])
@pytest.mark.parametrize(("allowed", "rules"), [(30, set()), (3, {"S20"})])
def test_edit_catches_up_what_was_not_late(policy: str, allowed: float, rules: set[str]) -> None:
    story, job = outage(policy, allowed=allowed)
    fire_range = story.catch_up(job, 10, 30, "edited", when=35)
    for instant in (10, 20, 30):
        story.make_up(job, fire_range, instant, 35.5)
    story.edit(job, 35, trigger=every(45))
    story.fires(job, 45)
    assert story.broken == rules


def test_backfill_has_no_misfires() -> None:
    story, job = outage("skip")
    story.fire_range(job, FireRangeKind.BACKFILL, 10, 30, "backfill", when=35)
    story.gap(job, 10, 30, "misfire", when=35)
    story.fires(job, 40, 50)
    assert story.broken == set()


# -- what a catch-up leaves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cursor", "rules"), [(30, set()), (20, {"S1"}), (None, {"S1"})])
def test_catch_up_that_ended_was_drained(cursor: float | None, rules: set[str]) -> None:
    story, job = outage("fire_all")
    come_to = None if cursor is None else at(cursor)
    fire_range = story.catch_up(job, 10, 30, "misfire", 34, cursor_at=come_to)
    for instant in (10, 20, 30):
        if cursor is not None and instant <= cursor:
            story.make_up(job, fire_range, instant, 34.1)
    story.fires(job, 40, 50)
    assert story.broken == rules


def test_catch_up_of_a_deleted_job_is_left_as_it_is() -> None:
    story, job = outage("fire_all")
    story.catch_up(job, 10, 30, "misfire", 34, cursor_at=None)
    story.delete(job, 34.5)
    assert story.broken == set()
