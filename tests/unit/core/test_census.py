"""A census keeps the largest lines, and says when it has left any out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.core.census import MOST_LINES, DeadLine, EndedLine, LiveLine, make_census
from mainspring.core.states import RunState

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
