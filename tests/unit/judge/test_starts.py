"""S36, and the fires of jobs at start (S1, S2)."""

from __future__ import annotations

import pytest

from mainspring.core.model import FireRangeKind
from mainspring.testing.factories import at
from tests.unit.judge.histories import LEASE, Story
from tools.judge import ClusterStart, Fault, Life
from tools.judge.oracle import Starts, expected_fires

LONG = 2 * LEASE.total_seconds() + 5


def live(story: Story, process: str, since: float, until: float | None = None) -> None:
    node, _, _ = process.rpartition(".")
    ends = None if until is None else at(until)
    story.history.lives.append(Life(process=process, node=node, since=at(since), until=ends))


def start(story: Story, *starts: tuple[float, str]) -> Story:
    story.history.starts += (ClusterStart(at=at(instant), node=node) for instant, node in starts)
    return story


def trouble(story: Story, kind: str, target: str, since: float, until: float) -> None:
    story.history.faults.append(Fault(kind=kind, target=target, at=at(since), until=at(until)))


def test_cluster_that_starts_again_when_all_were_gone() -> None:
    story = Story()
    live(story, "server-0.1", 0, 20)
    live(story, "server-1.1", 0, 21)
    live(story, "server-0.2", 25)
    start(story, (0.5, "server-1.1"), (25 + LONG, "server-0.2"))
    assert story.broken == set(), story.told


def test_cluster_that_starts_while_its_founder_lives() -> None:
    story = Story()
    live(story, "server-0.1", 0)
    live(story, "server-1.1", 30)
    start(story, (0.5, "server-0.1"), (31, "server-1.1"))
    assert story.broken == {"S36"}
    trouble(story, "pause", "server-0", 25, 32)
    assert story.broken == set(), "a server that stands still counts as dead"


def test_server_that_sees_a_late_heartbeat_of_one_that_is_gone() -> None:
    story = Story()
    live(story, "server-0.1", 0, 20)
    live(story, "server-1.1", 25)
    start(story, (0.5, "server-0.1"))
    assert story.broken == {"S36"}
    trouble(story, "late", "server-0", 15, 27)
    assert story.broken == set(), story.told


def test_cluster_that_starts_while_one_lives_who_met_its_founder() -> None:
    story = Story()
    live(story, "server-0.1", 0, 30)
    live(story, "server-1.1", 5)
    live(story, "server-0.2", 40)
    start(story, (0.5, "server-0.1"), (45, "server-0.2"))
    assert story.broken == {"S36"}
    story.history.lives[1].since = at(30 - LONG + 1)  # too late to be sure
    assert story.broken == set()


@pytest.mark.parametrize(("read_at", "rules"), [(30.0, set()), (33.0 + LONG, {"S36"})])
def test_server_that_is_alone_and_starts_no_cluster(read_at: float, rules: set[str]) -> None:
    story = Story(read_at=read_at)
    live(story, "server-0.1", 0, 20)
    trouble(story, "kill", "server-0", 20, 25)
    live(story, "server-0.2", 25)
    start(story, (0.5, "server-0.1"))
    assert story.broken == rules
    trouble(story, "cut", "server-0", 26, 27)
    assert story.broken == set()


def test_server_that_came_before_the_last_one_left_owes_no_start() -> None:
    story = Story()
    live(story, "server-0.1", 0, 20)
    live(story, "server-1.1", 19)
    start(story, (0.5, "server-0.1"))
    assert story.broken == set()


def test_server_that_is_asked_to_stop_owes_no_start() -> None:
    story = Story()
    live(story, "server-0.1", 0)
    trouble(story, "stop", "server-0", 1, 50)
    assert story.broken == set()


def test_each_start_is_a_fire_and_nothing_else_is() -> None:
    trigger = Starts((at(1), at(20)))
    assert expected_fires(trigger, at(1), at(30)) == [at(20)]
    story = Story()
    job = story.job(trigger, 5)
    assert story.broken == {"S1"}
    story.fire(job, 20)
    assert story.broken == set(), story.told
    story.fire(job, 25)
    assert story.broken == {"S2"}


def test_start_that_gives_way_to_the_next_one() -> None:
    story = start(Story(), (20, "server-0.1"), (30, "server-0.2"))
    trouble(story, "kill", "server-0", 20, 30)
    job = story.job(Starts((at(20), at(30))), 5)
    story.fire(job, 30)
    story.fire_range(job, FireRangeKind.GAP, 20, 20, "next_start", when=30)
    assert story.broken == set(), story.told
    story.history.starts.pop()
    assert story.broken == {"S1"}
