from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.core.lane_caps import CapKey, CapScope
from mainspring.core.limits import own_limit_name
from mainspring.core.model import Attempt, LaneKey, Priority, Run, RunKind
from mainspring.core.rates import Rate
from mainspring.core.serving import Gap, Offers
from mainspring.core.states import RunState
from mainspring.core.why import MOST_AHEAD, CapFacts, KeyFacts, ReserveFacts, WaitFacts, Why, WhyCode, explain
from mainspring.testing.factories import IdSequence, at

JOB = IdSequence().new_job_id()
RUN = Run(
    id=RunId(256),
    job_id=JOB,
    version=1,
    tenant="default",
    lane=LaneKey("mail", "function:send", "default", Priority.LOW),
    kind=RunKind.MANUAL,
    state=RunState.PENDING,
    fire_at=None,
    due_at=at(0),
    ready_at=at(0),
    created_at=at(0),
    started_at=None,
    finished_at=None,
    attempt=1,
    token=0,
    crashes=0,
    session_id=None,
    is_cancel_requested=False,
    reason=None,
    error=None,
    payload=None,
    result=None,
    output=None,
    idempotency_key=None,
    fire_range_id=None,
    redrive_of=None,
)
HOLDERS = (RunId(512), RunId(768))


def key(**facts: Any) -> KeyFacts:
    values: dict[str, Any] = {
        "limit": "crm",
        "key": "42",
        "max_running": 2,
        "rate": None,
        "held": 2,
        "holders": HOLDERS,
        "next_permit_at": None,
    }
    return KeyFacts(**values | facts)


def ended(outcome: str, number: int) -> Attempt:
    return Attempt(
        run_id=RUN.id,
        number=number,
        token=1,
        outcome=outcome,
        error=None,
        output=None,
        worker="one",
        started_at=at(3),
        finished_at=at(9),
    )


def why(
    wait: WaitFacts | None = None, *, gap: Gap | None = None, last: Attempt | None = None, **run: Any
) -> Why:
    return explain(replace(RUN, **run), wait, gap=gap, last=last, now=at(10))


FIRST, SECOND = map(format_run_id, HOLDERS)
NOTHING = WaitFacts()
FULL = WaitFacts(keys=(key(),), ahead=318)


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        (
            why(state=RunState.SKIPPED, reason="expired", finished_at=at(5)),
            WhyCode.ENDED,
            "It has ended: SKIPPED (expired) at 2026-01-05T12:00:05.000Z.",
        ),
        (
            why(state=RunState.RUNNING, session_id=SessionId(1), started_at=at(3), attempt=2),
            WhyCode.RUNNING,
            "Attempt 2 is under way since 2026-01-05T12:00:03.000Z.",
        ),
        (
            why(state=RunState.RUNNING, started_at=at(3), is_cancel_requested=True),
            WhyCode.RUNNING,
            "Attempt 1 is under way since 2026-01-05T12:00:03.000Z; it was asked to stop.",
        ),
        (
            why(NOTHING, ready_at=at(75.5)),
            WhyCode.NOT_DUE,
            "It may start at 2026-01-05T12:01:15.500Z, in 1m5s.",
        ),
        (
            why(NOTHING, state=RunState.RETRYING, attempt=2, ready_at=at(10.5)),
            WhyCode.BACKING_OFF,
            "Attempt 1 did not succeed; the next one may start at 2026-01-05T12:00:10.500Z, in 1s.",
        ),
        (
            why(NOTHING, state=RunState.RETRYING, attempt=1, ready_at=at(70), last=ended("snoozed", 1)),
            WhyCode.SNOOZED,
            "It was snoozed at 2026-01-05T12:00:09.000Z, and sleeps until 2026-01-05T12:01:10.000Z, in 1m.",
        ),
        (
            why(NOTHING, state=RunState.RETRYING, attempt=1, ready_at=at(70), last=ended("failed", 1)),
            WhyCode.BACKING_OFF,
            "Attempt 1 did not succeed; the next one may start at 2026-01-05T12:01:10.000Z, in 1m.",
        ),
        (
            why(FULL, gap=Offers(()).find_gap("mail", "http", "shop")),
            WhyCode.NO_WORKER,
            "No worker is alive.",
        ),
        (
            why(FULL),
            WhyCode.KEY_FULL,
            f"2 of 2 places under limit crm for '42' are taken by {FIRST}, {SECOND}; 318 wait before it.",
        ),
        (
            why(FULL.without_keys()),
            WhyCode.KEY_FULL,
            f"2 of 2 places under limit crm for its key are taken by {FIRST}, {SECOND}; 318 wait before it.",
        ),
        (
            why(WaitFacts(keys=(key(held=9, limit=own_limit_name(JOB, 0), key=""),)).without_keys()),
            WhyCode.KEY_FULL,
            f"9 of 2 places under the job's limit are taken by {FIRST}, {SECOND} and others; it is the next one.",
        ),
        (
            why(WaitFacts(keys=(key(held=9, limit=own_limit_name(JOB, 0), key=""),))),
            WhyCode.KEY_FULL,
            f"9 of 2 places under the job's limit are taken by {FIRST}, {SECOND} and others; it is the next one.",
        ),
        (
            why(
                WaitFacts(
                    keys=(key(max_running=None, rate=Rate(5, timedelta(seconds=1)), next_permit_at=at(10.2)),)
                )
            ),
            WhyCode.RATE,
            "The rate 5/s of limit crm for '42' allows the next start at 2026-01-05T12:00:10.200Z; it is the next one.",
        ),
        (
            why(WaitFacts(ahead=1), crashes=1),
            WhyCode.QUARANTINED,
            "It crashed a worker, and waits for one that runs nothing else; 1 waits before it.",
        ),
        (
            why(WaitFacts(ahead=MOST_AHEAD)),
            WhyCode.BEHIND,
            "1,000 or more wait before it in queue 'mail' with its priority, LOW, and for the same workers.",
        ),
        (why(NOTHING), WhyCode.READY, "It is the next one, and starts as soon as a worker has a free slot."),
        (
            why(WaitFacts(keys=(key(held=1),))),
            WhyCode.READY,
            "It is the next one, and starts as soon as a worker has a free slot.",
        ),
    ],
)
def test_sentences(given: Why, code: WhyCode, sentence: str) -> None:
    assert (given.code, given.sentence) == (code, sentence)


def test_facts_for_programs() -> None:
    assert (why(FULL).holders, why(FULL).ahead, why(FULL).until) == (HOLDERS, 318, None)
    assert why(NOTHING, ready_at=at(75)).until == at(75)
    assert why(NOTHING).ahead == 0


@pytest.mark.parametrize(
    ("reserved", "running", "has_others", "more"),
    [
        (10, 3, False, " Its tenant has 3 of its 10 reserved slots, and gets the next free one."),
        (10, 3, True, " Its tenant has 3 of its 10 reserved slots, and gets the next free one."),
        (10, 10, True, " Before it come tenants that have fewer slots than are reserved for them."),
        (0, 0, True, " Before it come tenants that have fewer slots than are reserved for them."),
        (10, 12, False, ""),
        (0, 0, False, ""),
    ],
)
def test_reserves_say_who_gets_the_next_slots(
    reserved: int, running: int, has_others: bool, more: str
) -> None:
    facts = ReserveFacts(reserved=reserved, running=running, has_others=has_others)

    def told(wait: WaitFacts) -> str:
        return explain(RUN, wait, gap=None, now=at(10), reserve=facts).sentence

    for wait in (NOTHING, WaitFacts(ahead=2)):
        assert told(wait) == why(wait).sentence + more
    assert told(FULL) == why(FULL).sentence


def test_a_run_that_waits_and_expires_says_when() -> None:
    answer = why(WaitFacts(ahead=2, expires_at=at(90)))
    assert answer.code is WhyCode.BEHIND
    assert (
        answer.sentence
        == f"{why(WaitFacts(ahead=2)).sentence} It is skipped if it has not started by {AT_90}."
    )
    assert "skipped" not in why(WaitFacts(expires_at=at(90)), state=RunState.RUNNING).sentence


AT_90 = at(90).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cap_facts(scope: CapScope, held: int, *, most: int = 2, holders: tuple[RunId, ...] = HOLDERS) -> CapFacts:
    return CapFacts(key=CapKey(scope, "acme"), max_running=most, held=held, holders=holders)


@pytest.mark.parametrize("scope", CapScope)
def test_the_first_cap_that_is_full_is_told(scope: CapScope) -> None:
    caps = [cap_facts(CapScope.QUEUE, 1), cap_facts(scope, 3), cap_facts(CapScope.LABEL, 9)]
    told = explain(RUN, WaitFacts(ahead=4), gap=None, now=at(1), caps=caps)
    assert told.code == f"{scope}_full"
    assert (told.ahead, told.holders) == (4, HOLDERS)
    names = ", ".join(map(format_run_id, HOLDERS))
    assert (
        told.sentence == f"3 of 2 places of {scope} 'acme' are taken by {names} and others; 4 wait before it."
    )


def test_a_full_limit_is_told_before_a_full_cap_and_both_before_quarantine() -> None:
    caps = [cap_facts(CapScope.QUEUE, 2)]
    limited = explain(RUN, WaitFacts(keys=(key(),)), gap=None, now=at(1), caps=caps)
    assert limited.code is WhyCode.KEY_FULL
    crashed = explain(replace(RUN, crashes=1), WaitFacts(), gap=None, now=at(1), caps=caps)
    assert crashed.code is WhyCode.QUEUE_FULL


def test_runs_that_may_not_be_named_are_told_of() -> None:
    caps = [cap_facts(CapScope.QUEUE, 2, holders=())]
    told = explain(RUN, WaitFacts(), gap=None, now=at(1), caps=caps)
    assert "are taken by runs of other tenants; it is the next one." in told.sentence
    shared = key(is_of_cluster=True, holders=())
    told = explain(RUN, WaitFacts(keys=(shared,)), gap=None, now=at(1))
    assert "under the cluster's limit crm for '42' are taken by runs of other tenants" in told.sentence
