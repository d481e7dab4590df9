"""What `mainspring status` calls wrong, and what it leaves alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.attention import AttentionLevel, ClusterFacts, ServerFacts, judge_cluster
from mainspring.core.census import LiveLine
from mainspring.core.states import RunState
from mainspring.testing.factories import START, at

NOW = at(1000)
SERVER = ServerFacts(name="one-1", period=timedelta(seconds=1), last_beat_at=NOW, refusal=None)


def kinds(**facts: Any) -> list[tuple[str, str]]:
    """Return the kinds and levels of what is found."""
    usual: dict[str, Any] = {"servers": (SERVER,), "lines": (), "served": ((),)}
    found = judge_cluster(ClusterFacts(**usual | facts), NOW)
    return [(one.kind, one.level.value) for one in found]


def line(queue: str, state: RunState, ready: float, runs: int = 3) -> LiveLine:
    """Return a line of the census."""
    return LiveLine("default", queue, state, runs, at(ready))


def test_nothing_is_said_if_all_is_well() -> None:
    running = line("default", RunState.RUNNING, 0)
    assert kinds(lines=(running, line("default", RunState.PENDING, 950))) == []
    assert kinds(lines=(line("mail", RunState.PENDING, 5000),), served=()) == []  # not ready yet


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"last_beat_at": START}, [("no_scheduler", "bad"), ("server_silent", "warning")]),
        ({"refusal": "clock"}, [("no_scheduler", "bad"), ("server_refused", "bad")]),
        ({"last_beat_at": at(992)}, []),
        ({"last_beat_at": at(900), "period": timedelta(seconds=60)}, []),
        ({"last_beat_at": at(985), "period": None}, [("no_scheduler", "bad"), ("server_silent", "warning")]),
    ],
)
def test_servers_that_do_not_schedule(server: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    facts: dict[str, Any] = {
        "name": "one-1",
        "period": timedelta(seconds=1),
        "last_beat_at": NOW,
        "refusal": None,
    } | server
    assert kinds(servers=(ServerFacts(**facts),)) == expected


def test_no_server_at_all() -> None:
    assert kinds(servers=()) == [("no_scheduler", "bad")]


def test_runs_that_wait_where_nobody_serves_are_bad_and_others_a_warning() -> None:
    waiting = (line("mail", RunState.PENDING, 100), line("mail", RunState.RETRYING, 50, runs=1))
    assert kinds(lines=waiting) == [("backlog", "warning")]
    assert kinds(lines=waiting, served=(("mail", "x"),)) == [("backlog", "warning")]
    assert kinds(lines=waiting, served=(("other",),)) == [("unserved", "bad")]
    assert kinds(lines=waiting, served=()) == [("unserved", "bad")]
    assert kinds(lines=waiting, served=(), paused_queues={"mail"}) == []
    [found] = judge_cluster(ClusterFacts(servers=(SERVER,), lines=waiting, served=()), NOW)
    assert found.sentence == "no worker serves queue mail: 4 runs in queue mail wait, the oldest for 15m50s"


def test_overdue_fires_and_lost_runs_are_bad() -> None:
    assert kinds(overdue=1, overdue_since=at(900), runs_lost=2) == [("overdue", "bad"), ("runs_lost", "bad")]
    [found] = judge_cluster(
        ClusterFacts(servers=(SERVER,), lines=(), served=((),), overdue=1, overdue_since=at(900)), NOW
    )
    assert found.sentence == "1 fire overdue, the oldest by 1m40s"
    assert found.level is AttentionLevel.BAD
