"""L5: shares of tenants that all wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice

import pytest

from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Event, Fault, History
from tools.judge.runs import Runs
from tools.judge.shares import judge_shares

COUNT = 200
JOB = Story().job()


def crowd(weights: dict[str, int], order: Sequence[str]) -> History:
    """Let all tenants submit their runs at one instant, which are then claimed in this order, ten a second."""
    story = Story()
    job_id = story.job()
    waiting: dict[str, list[RunId]] = {}
    for tenant in weights:
        waiting[tenant] = [story.submit(job_id, 1) for _ in range(COUNT)]
    history = story.history
    owner = {run_id: tenant for tenant, run_ids in waiting.items() for run_id in run_ids}
    history.runs[:] = [replace(run, tenant=owner[run.id]) for run in history.runs]
    history.events[:] = [event(1, run_id, RunState.PENDING, "inserted") for run_id in owner]
    for place, tenant in enumerate(order):
        if waiting[tenant]:
            history.events.append(event(1.1 + place / 10, waiting[tenant].pop(), RunState.RUNNING, "claimed"))
    return replace(history, weights=weights, claim=5, matchers=1)


def event(when: float, run_id: RunId, target: RunState, what: str) -> Event:
    return Event(at=at(when), job_id=JOB, run_id=run_id, target=target, token=1, what=what, actor="server")


def judged(history: History) -> tuple[int, int]:
    counts: Counter[str] = Counter()
    return len(list(judge_shares(history, Runs(history), counts))), counts["shares_compared"]


def in_turn(tenants: str, count: int) -> list[str]:
    return list(islice(cycle(tenants), count))


def test_shares_by_weight_are_good() -> None:
    assert judged(crowd({"a": 1, "b": 1}, in_turn("ab", 500))) == (0, 1)
    assert judged(crowd({"a": 1, "b": 3}, in_turn("abbb", 500))) == (0, 1)


@pytest.mark.parametrize(
    ("weights", "order"),
    [
        ({"a": 1, "b": 1}, in_turn("abbb", 500)),
        ({"a": 1, "b": 3}, in_turn("ab", 500)),
        ({"a": 1, "b": 1}, [*"b" * COUNT, *"a" * COUNT]),
    ],
)
def test_other_shares_are_not(weights: dict[str, int], order: list[str]) -> None:
    found, compared = judged(crowd(weights, order))
    assert found > 0
    assert compared == 1


def test_what_one_claim_hands_out_may_be_off() -> None:
    assert judged(crowd({"a": 1, "b": 1}, [*in_turn("ab", 200), *"b" * 8, *in_turn("ab", 200)])) == (0, 1)


def test_each_fault_near_it_may_put_it_off_further() -> None:
    history = crowd({"a": 1, "b": 1}, [*in_turn("ab", 200), *"b" * 28, *in_turn("ab", 200)])
    assert judged(history) == (2, 1)
    history.faults.append(Fault(kind="kill", target="worker-1", at=at(10), until=at(11)))
    assert judged(history) == (0, 1)
    history.faults[0] = Fault(kind="kill", target="worker-1", at=at(58), until=at(59))
    assert judged(history) == (2, 1)


def test_nothing_is_said_of_few_runs_or_of_one_tenant() -> None:
    assert judged(crowd({"a": 1, "b": 1}, in_turn("abbb", 40))) == (0, 0)
    assert judged(crowd({"a": 1}, in_turn("a", 200))) == (0, 0)


def by_age(order: Sequence[str]) -> History:
    """Let tenant b submit ten seconds after tenant a; then their runs are claimed in this order."""
    history = crowd({"a": 1, "b": 1}, order)
    owner = {run.id: run.tenant for run in history.runs}
    events = []
    for one in history.events:
        assert one.run_id is not None
        is_late = owner[one.run_id] == "b" and one.what == "inserted"
        events.append(replace(one, at=at(11 if is_late else one.at.timestamp() - at(0).timestamp())))
    later = [
        replace(one, at=one.at + timedelta(seconds=20)) if one.what == "claimed" else one for one in events
    ]
    return replace(history, events=sorted(later, key=lambda one: one.at), is_by_age=True)


def test_the_oldest_first_is_good() -> None:
    story = by_age([*"a" * COUNT, *"b" * COUNT])
    counts: Counter[str] = Counter()
    assert list(judge_shares(story, Runs(story), counts)) == []


def test_the_youngest_first_is_not() -> None:
    story = by_age([*"b" * COUNT, *"a" * COUNT])
    assert judged(story)[0] == 1
    mixed = by_age(in_turn("ab", 2 * COUNT))
    assert judged(mixed)[0] == 1


def test_what_one_claim_hands_out_may_be_younger() -> None:
    assert judged(by_age([*"b" * 9, *"a" * COUNT, *"b" * 100]))[0] == 0


def test_each_fault_of_that_time_lets_more_be_younger() -> None:
    history = by_age([*"b" * 14, *"a" * COUNT, *"b" * 100])
    assert judged(history)[0] == 1
    history.faults.append(Fault(kind="kill", target="server-1", at=at(14), until=at(15)))
    assert judged(history)[0] == 1, "long before"
    history.faults[0] = Fault(kind="kill", target="server-1", at=at(14), until=at(16))
    assert judged(history)[0] == 0
    history.faults[0] = Fault(kind="kill", target="server-1", at=at(23), until=at(24))
    assert judged(history)[0] == 1, "after the last"


def test_a_run_that_was_handed_back_stands_behind_the_others() -> None:
    story = by_age(["a", "a", *"b" * COUNT])
    claimed = next(one for one in story.events if one.what == "claimed")
    back = replace(claimed, at=claimed.at + timedelta(seconds=1), target=RunState.PENDING, what="handed_back")
    others = [one for one in story.events if owner_of(story, one) == "b" or one.run_id == claimed.run_id]
    history = replace(story, events=sorted([*others, back], key=lambda one: one.at))
    assert judged(history)[0] == 0


def owner_of(story: History, one: Event) -> str:
    return next(run.tenant for run in story.runs if run.id == one.run_id)
