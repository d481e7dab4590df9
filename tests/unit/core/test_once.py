"""What becomes of a submission with a key: decided alone, and over many submissions, as properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import RunId
from mainspring.core.once import (
    DebounceRule,
    HeldKey,
    Holder,
    OnConflict,
    ThrottleRule,
    UniqueRule,
    UniqueScope,
    decide_once,
)

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
_V = SubmissionVerdict


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def held(
    *, is_running: bool = False, is_live: bool = True, ready: float = 0, until: float | None = None
) -> HeldKey:
    holder = Holder(is_running=is_running, ready_at=at(ready), created_at=START, expires_at=None)
    return HeldKey(RunId(256), None if until is None else at(until), holder if is_live else None)


@pytest.mark.parametrize(
    ("scope", "known", "counts"),
    [
        (UniqueScope.LIVE, held(), True),
        (UniqueScope.LIVE, held(is_running=True), True),
        (UniqueScope.LIVE, held(is_live=False), False),
        (UniqueScope.QUEUED, held(), True),
        (UniqueScope.QUEUED, held(is_running=True), False),
        (UniqueScope.QUEUED, held(is_live=False), False),
        (UniqueScope.PERIOD, held(until=1), True),
        (UniqueScope.PERIOD, held(is_live=False, until=1), True),
        (UniqueScope.PERIOD, held(until=0), False),
        (UniqueScope.PERIOD, held(), False),
    ],
)
@pytest.mark.parametrize(
    ("on_conflict", "verdict"), [(OnConflict.EXISTING, _V.EXISTING), (OnConflict.REJECT, _V.REJECTED)]
)
def test_holder_counts_within_its_scope(
    scope: UniqueScope, known: HeldKey, counts: bool, on_conflict: OnConflict, verdict: _V
) -> None:
    period = SECOND if scope is UniqueScope.PERIOD else None
    rule = UniqueRule(scope=scope, period=period, on_conflict=on_conflict)
    decision = decide_once(rule, known, now=START)
    assert decision.verdict is (verdict if counts else _V.SUBMITTED)
    if not counts:
        assert decision.expires_at == (at(1) if period else None)


@given(
    wait=st.integers(1, 20),
    most=st.integers(1, 60),
    gaps=st.lists(st.floats(0, 30), max_size=30),
)
def test_debounced_run_is_put_off_to_the_last_submission_and_no_further(
    wait: int, most: int, gaps: list[float]
) -> None:
    rule = DebounceRule(wait=timedelta(seconds=wait), max_wait=timedelta(seconds=max(wait, most)))
    now, ready_at = START, START + rule.wait
    last = now
    for gap in gaps:
        now += timedelta(seconds=gap)
        known = HeldKey(
            RunId(256), None, Holder(is_running=False, ready_at=ready_at, created_at=START, expires_at=None)
        )
        decision = decide_once(rule, known, now=now)
        assert decision.verdict is _V.DEBOUNCED
        assert decision.shift >= timedelta(0)
        ready_at += decision.shift
        last = now
    assert ready_at == min(last + rule.wait, START + rule.longest)
    assert ready_at <= START + rule.longest


@given(
    limit=st.integers(1, 50),
    per=st.integers(1, 3600),
    gaps=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=200),
)
def test_throttle_lets_no_more_through_than_its_limit_and_the_permits_that_came_back(
    limit: int, per: int, gaps: list[int]
) -> None:
    rule = ThrottleRule(limit=limit, per=timedelta(seconds=per))
    known: HeldKey | None = None
    now = START
    let_through: list[datetime] = []
    dropped: list[datetime] = []
    for gap in gaps:
        now += timedelta(microseconds=gap)
        decision = decide_once(rule, known, now=now)
        if decision.verdict is _V.SUBMITTED:
            known = HeldKey(RunId(256), decision.expires_at, None)
            let_through.append(now)
        else:
            assert decision.verdict is _V.THROTTLED
            dropped.append(now)
    for first, begin in enumerate(let_through):
        for last in range(first, len(let_through)):
            elapsed = let_through[last] - begin
            assert last - first + 1 <= limit + elapsed // rule.step
    for instant in dropped:  # never fewer than the limit in a window that ends with a drop
        window = [one for one in let_through if instant - limit * rule.step < one <= instant]
        assert len(window) >= limit


def test_throttle_of_one_is_exact() -> None:
    rule = ThrottleRule(limit=1, per=timedelta(hours=1))
    first = decide_once(rule, None, now=START)
    known = HeldKey(RunId(256), first.expires_at, None)
    assert decide_once(rule, known, now=at(3599.999999)).verdict is _V.THROTTLED
    assert decide_once(rule, known, now=at(3600)).verdict is _V.SUBMITTED


@pytest.mark.parametrize(("limit", "per"), [(3, 1), (7, 10), (99_999, 1), (100_000, 1)])
def test_throttle_gives_its_whole_limit_at_once_however_it_divides(limit: int, per: int) -> None:
    rule = ThrottleRule(limit=limit, per=timedelta(seconds=per))
    known: HeldKey | None = None
    for _ in range(limit):
        decision = decide_once(rule, known, now=START)
        assert decision.verdict is _V.SUBMITTED
        known = HeldKey(RunId(256), decision.expires_at, None)
    assert decide_once(rule, known, now=START).verdict is _V.THROTTLED


def test_throttle_that_an_edit_made_shorter_waits_no_longer_than_its_own_time() -> None:
    known = HeldKey(RunId(256), at(86_400), None)
    rule = ThrottleRule(limit=1, per=timedelta(seconds=10))
    assert decide_once(rule, known, now=START).verdict is _V.THROTTLED
    assert decide_once(rule, HeldKey(RunId(256), at(10), None), now=at(10)).verdict is _V.SUBMITTED
