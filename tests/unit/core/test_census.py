"""A census keeps the largest lines, and says when it has left any out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mainspring.core.census import MOST_LINES, DeadLine, EndedLine, LiveLine, make_census
from mainspring.core.states import RunState
from mainspring.testing.factories import at

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_counts_of_a_tenant_are_added_up_over_its_queues() -> None:
    live = [LiveLine(tenant, queue, RunState.PENDING, 2, NOW) for tenant in "ab" for queue in "qrs"]
    census = make_census(
        live, [EndedLine("b", RunState.FAILED, 7)], [DeadLine("b", "q", 3)], taken_at=NOW, took=timedelta(0)
    )
    assert census.of_tenant("a") == {RunState.PENDING: 6}
    assert census.of_tenant("b") == {RunState.PENDING: 6, RunState.FAILED: 7}
    assert (census.dead_of("a"), census.dead_of("b")) == ([], [DeadLine("b", "q", 3)])
    assert not census.is_cut


def test_of_too_many_lines_the_largest_are_kept() -> None:
    ended = [EndedLine(f"t{number}", RunState.SUCCEEDED, number) for number in range(1, MOST_LINES + 2)]
    census = make_census([], ended, [], taken_at=NOW, took=timedelta(0))
    assert len(census.ended) == MOST_LINES
    assert census.of_tenant("t1") == {}
    assert census.of_tenant(f"t{MOST_LINES + 1}") == {RunState.SUCCEEDED: MOST_LINES + 1}
    assert census.is_cut


def test_of_too_many_lines_of_dead_letters_the_largest_are_kept() -> None:
    dead = [DeadLine(f"t{number}", "q", number) for number in range(1, MOST_LINES + 2)]
    census = make_census([], [], dead, taken_at=NOW, took=timedelta(0))
    assert census.dead_of("t1") == []
    assert census.is_cut


def test_a_census_tells_whether_a_run_may_have_waited() -> None:
    line = LiveLine("default", "mail", RunState.PENDING, 3, at(100))
    census = make_census([line], [], [], taken_at=at(110), took=timedelta(0))
    minute = timedelta(minutes=1)
    assert not census.may_wait(minute, at(159.999999))
    assert census.may_wait(minute, at(160))
    running = make_census(
        [line._replace(state=RunState.RUNNING)], [], [], taken_at=at(110), took=timedelta(0)
    )
    assert not running.may_wait(minute, at(170))
    assert running.may_wait(minute, at(170.000001))  # who knows what became ready since
    assert replace(running, is_cut=True).may_wait(minute, at(160))
