"""What `mainspring status` calls wrong, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.attention import MOST_PROBLEMS, AttentionLevel, ClusterFacts, ServerFacts, judge_cluster
from mainspring.core.census import LiveLine
from mainspring.core.job_findings import JobFindings, JobProblem
from mainspring.core.job_warnings import UNDEFINED
from mainspring.core.ledger_check import EVERY, LedgerCheck
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


def test_an_uneven_ledger_is_bad_and_an_old_check_a_warning() -> None:
    check = LedgerCheck(
        began_at=NOW - EVERY,
        ended_at=NOW - EVERY,
        since=START,
        jobs=7,
        uneven=0,
        expected=100,
        without_work=0,
        missing=0,
        surplus=0,
    )
    assert kinds(ledger=check) == []
    assert kinds(ledger=replace(check, began_at=NOW - 2 * EVERY)) == []
    assert kinds(ledger=replace(check, began_at=NOW - 2 * EVERY - timedelta(seconds=1))) == [
        ("ledger_unchecked", "warning")
    ]
    [found] = judge_cluster(
        ClusterFacts(
            servers=(SERVER,), lines=(), served=((),), ledger=replace(check, uneven=2, missing=3, surplus=1)
        ),
        NOW,
    )
    assert (found.kind, found.level.value) == ("ledger_uneven", "bad")
    assert "2 jobs are uneven: 3 fires missing, 1 surplus" in found.sentence


def test_jobs_that_nobody_defines_or_can_run_are_warned_of() -> None:
    problems = tuple(
        JobProblem(code=code, what=code, sentence=f"It is {code}.", jobs=jobs, examples=("a", "b")[:jobs])
        for code, jobs in ((UNDEFINED, 5), ("queue", 2), ("function", 1), ("x", 1), ("y", 1), ("z", 1))
    )
    findings = JobFindings(looked_at=NOW, jobs=10, warned=9, problems=problems)
    found = judge_cluster(ClusterFacts(servers=(SERVER,), lines=(), served=((),), findings=findings), NOW)
    assert [(one.kind, one.level.value) for one in found] == [
        ("jobs_undefined", "warning"),
        *[("jobs_unserved", "warning")] * (MOST_PROBLEMS - 1),
    ]
    assert [one.sentence for one in found[:3]] == [
        "jobs a, b and 3 more: It is undefined.",
        "jobs a, b: It is queue.",
        "job a: It is function.",
    ]


def test_alerts_that_fire_are_told_by_the_worst() -> None:
    usual = ClusterFacts(servers=(SERVER,), lines=(), served=((),))
    assert kinds(alerts=("job report failed",)) == [("alerts", "warning")]
    [one] = judge_cluster(replace(usual, alerts=("job report failed",)), NOW)
    assert one.sentence == "1 alert fires: job report failed; see mainspring alert list"
    [many] = judge_cluster(replace(usual, alerts=("a", "b", "c")), NOW)
    assert many.sentence == "3 alerts fire: a and 2 more; see mainspring alert list"
