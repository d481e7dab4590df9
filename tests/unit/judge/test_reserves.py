"""L11: a tenant that is short of reserved slots gets the next free seats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Event, Fault, History
from tools.judge.reserves import judge_reserves
from tools.judge.runs import Runs

JOB = Story().job()


def event(when: float, run_id: RunId, target: RunState, what: str) -> Event:
    return Event(at=at(when), job_id=JOB, run_id=run_id, target=target, token=1, what=what, actor="server")


def flooded(*claims: tuple[float, str], reserved: int = 2, end: float | None = None) -> History:
    """Let `acme` and `flood` submit runs at one instant, which are then claimed in this order.

    Args:
        end: when the first run of `acme` ends, if it does.
    """
    story = Story()
    job_id = story.job()
    waiting = {tenant: [story.submit(job_id, 1) for _ in range(9)] for tenant in ("acme", "flood")}
    history = story.history
    owner = {run_id: tenant for tenant, run_ids in waiting.items() for run_id in run_ids}
    history.runs[:] = [replace(run, tenant=owner[run.id]) for run in history.runs]
    events = [event(1, run_id, RunState.PENDING, "inserted") for run_id in owner]
    first = waiting["acme"][-1]
    events += [event(when, waiting[tenant].pop(), RunState.RUNNING, "claimed") for when, tenant in claims]
    if end is not None:
        events.append(event(end, first, RunState.SUCCEEDED, "done"))
    history.events[:] = sorted(events, key=lambda one: one.at)
    return replace(history, reserves={"acme": reserved}, claim=5, matchers=1)


def judged(history: History) -> tuple[int, Counter[str]]:
    counts: Counter[str] = Counter()
    return len(list(judge_reserves(history, Runs(history), counts))), counts


def test_seats_that_go_to_the_tenant_first_are_good() -> None:
    found, counts = judged(flooded((2, "acme"), (2, "acme"), (9, "flood"), (9, "acme")))
    assert (found, counts["seats_of_reserves"], counts["seats_beside_reserves"]) == (0, 2, 0)


def test_a_seat_for_another_while_it_is_short_is_not() -> None:
    assert judged(flooded((2, "acme"), (9, "flood")))[0] == 1
    assert judged(flooded((9, "flood")))[0] == 1


def test_processes_need_not_know_at_once() -> None:
    found, counts = judged(flooded((2, "acme"), (3, "flood")))
    assert (found, counts["seats_beside_reserves"]) == (0, 1)


def test_a_tenant_is_short_anew_when_its_run_ends() -> None:
    claims = ((2, "acme"), (2, "acme"), (9, "flood"))
    assert judged(flooded(*claims, end=8))[0] == 0
    assert judged(flooded(*claims, end=4))[0] == 1


def test_a_seat_fills_the_oldest_gap_and_processes_need_not_know_of_the_next() -> None:
    """Seed 302269: while one seat was missing for long, another run ended just before a claim gave one and no more."""
    claims = ((2, "acme"), (2, "acme"), (8, "acme"), (8.1, "flood"))
    assert judged(flooded(*claims, reserved=3, end=7.9))[0] == 0
    assert judged(flooded(*claims, reserved=3, end=4))[0] == 1
    assert judged(flooded(*claims, reserved=4, end=7.9))[0] == 1


def test_a_tenant_without_work_or_without_a_reserve_is_never_short() -> None:
    every = tuple((2 + number / 10, "acme") for number in range(9))
    assert judged(flooded(*every, (9, "flood"), reserved=20))[0] == 0
    assert judged(replace(flooded((9, "flood")), reserves={}))[0] == 0


def test_a_fault_excuses_what_one_claim_hands_out() -> None:
    many = tuple((9 + number / 10, "flood") for number in range(6))
    for count, is_good in ((5, True), (6, False)):
        assert (judged(with_fault(flooded(*many[:count]), 5))[0] == 0) is is_good


def with_fault(history: History, when: float) -> History:
    until = at(when) + timedelta(seconds=1)
    history.faults.append(Fault(kind="freeze", target="server-0", at=at(when), until=until))
    return history


def test_a_fault_of_another_time_excuses_nothing() -> None:
    assert judged(with_fault(flooded((9, "flood")), 8.5))[0] == 0
    assert judged(with_fault(flooded((9, "flood")), 9.5))[0] == 1
    claims = ((30, "acme"), (30, "acme"), (38, "flood"))  # short from 1 to 30, and from 34 on
    assert judged(with_fault(flooded(*claims, end=34), 30))[0] == 0
    assert judged(with_fault(flooded(*claims, end=34), 25))[0] == 1


def test_a_lost_run_of_another_gets_the_worker_that_fell_idle_for_it() -> None:
    history = flooded((9, "flood"))
    claimed = next(one for one in history.events if one.what == "claimed")
    loss = replace(claimed, at=at(0.5), target=RunState.PENDING, what="lost")
    history.events[:] = [loss, *history.events]
    found, counts = judged(history)
    assert (found, counts["seats_beside_reserves"]) == (0, 0)
