"""S29 and L10: what one call was given, and how long its runs waited."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from mainspring.core.batching import BatchRule
from mainspring.core.ids import RunId
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Capping, Effect, Fault, History, Pausing
from tools.judge.batches import judge_batches, judge_waits
from tools.judge.runs import Runs

RULE = BatchRule(size=2, wait=timedelta(seconds=2), key="$.customer")


def called(*calls: str, wait: float = 1.0) -> History:
    """Let runs of these customers come at one instant, and be called together so many seconds later."""
    story = Story()
    job_id = story.job(batch=RULE)
    history = story.history
    for number, customers in enumerate(calls):
        for customer in customers:
            run_id = story.submit(job_id, 1)
            history.effects.append(effect(run_id, wait, number))
            history.runs[-1] = replace(history.runs[-1], payload=b'{"customer":"%s"}' % customer.encode())
    history.effects[:] = [one for one in history.effects if one.call is not None]
    return history


def effect(run_id: RunId, wait: float, number: int) -> Effect:
    return Effect(
        run_id=run_id,
        job_id=Story().job(),
        token=1,
        attempt=1,
        worker="worker-1",
        started_at=at(1 + wait),
        ended_at=at(2 + wait),
        call=str(number),
    )


def judged(history: History) -> tuple[list[str], Counter[str]]:
    counts: Counter[str] = Counter()
    runs = Runs(history)
    found = [*judge_batches(history, runs, counts), *judge_waits(history, runs, counts)]
    return [violation.rule for violation in found], counts


def test_full_batches_and_what_is_left_are_good() -> None:
    found, counts = judged(called("aa", "bb", "a"))
    assert found == []
    assert (counts["batches_called"], counts["batches_full"], counts["waits_for_batches"]) == (3, 2, 5)


def test_a_call_with_too_many_runs_is_not() -> None:
    assert judged(called("aaa"))[0] == ["S29"]


def test_nor_is_one_with_several_keys() -> None:
    assert judged(called("ab"))[0] == ["S29"]


def test_nor_is_a_wait_beyond_what_the_job_says() -> None:
    assert judged(called("a", wait=2.5))[0] == []
    assert judged(called("a", wait=9))[0] == ["L10"]


def test_near_a_fault_it_may_take_longer() -> None:
    history = called("a", wait=9)
    history.faults.append(Fault(kind="kill", target="worker-1", at=at(5), until=at(6)))
    assert judged(history)[0] == []


def test_nor_is_it_late_when_it_was_paused() -> None:
    history = called("a", wait=9)
    pausing = Pausing(scope="all", name="", at=at(2), place=0, since=at(2), until=at(7))
    history.pausings.append(pausing)
    assert judged(history)[0] == []
    history.pausings[:] = [replace(pausing, until=at(5))]
    assert judged(history)[0] == []
    history.pausings[:] = [replace(pausing, at=at(-9), since=at(-9), until=at(-2))]
    assert judged(history)[0] == ["L10"]


def test_nor_when_its_queue_has_a_cap() -> None:
    history = called("a", wait=9)
    history.cappings.append(Capping(place=0, scope="queue", name="default", max_running=1))
    assert judged(history)[0] == []
