"""Which runs are ready, and how many of them a session may be given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.claiming import Turn, allowance, is_expired, is_ready, judge_turn, must_be_alone
from mainspring.core.states import RunState
from mainspring.testing.factories import START, at


@given(state=st.sampled_from(RunState), is_parked=st.booleans())
def test_ready_is_what_waits_for_its_time_only(state: RunState, is_parked: bool) -> None:
    waits = state in {RunState.PENDING, RunState.RETRYING}
    assert is_ready(state, is_parked=is_parked) is (waits and not is_parked)


def test_run_that_crashed_a_worker_is_alone() -> None:
    assert [must_be_alone(crashes) for crashes in (0, 1, 7)] == [False, True, True]


def test_run_expires_at_its_instant() -> None:
    assert [is_expired(instant, START) for instant in (None, at(1), START, at(-1))] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("number", "turn"), [(4, Turn.LATE), (5, Turn.REPEAT), (6, Turn.NEW), (9, Turn.NEW)])
def test_number_tells_new_repeated_and_late_claims_apart(number: int, turn: Turn) -> None:
    assert judge_turn(number, 5) is turn


@given(
    limit=st.integers(0, 9),
    is_quarantined=st.booleans(),
    is_busy=st.booleans(),
    is_busy_with_quarantined=st.booleans(),
)
def test_who_carries_out_a_run_alone_has_no_other(
    limit: int, is_quarantined: bool, is_busy: bool, is_busy_with_quarantined: bool
) -> None:
    most = allowance(
        limit,
        is_quarantined=is_quarantined,
        is_busy=is_busy or is_busy_with_quarantined,
        is_busy_with_quarantined=is_busy_with_quarantined,
    )
    assert 0 <= most <= limit
    if is_busy_with_quarantined:
        assert most == 0
    elif is_quarantined:
        assert most == (0 if is_busy else min(limit, 1))
    else:
        assert most == limit
