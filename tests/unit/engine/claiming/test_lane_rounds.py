"""When slices of the lanes are looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import LaneId
from mainspring.engine.claiming.lane_rounds import POLL_PERIOD, LaneRounds
from mainspring.engine.common.pacing import SHARE


def go_round(rounds: LaneRounds, at: float, slices: int, cost: float) -> tuple[float, float]:
    """Look at so many slices. Return when the last one ended, and how long they took together."""
    spent = 0.0
    for number in range(1, slices + 1):
        at += max(rounds.due_in(at, POLL_PERIOD), 0.0)
        rounds.begin(at)
        at += cost
        spent += cost
        rounds.end(at - cost, at, None if number == slices else LaneId(number * 1000))
    return at, spent


def test_the_first_round_is_not_held_back() -> None:
    at, spent = go_round(LaneRounds(), 0.0, 30, 0.003)
    assert at == pytest.approx(spent)


@given(st.integers(2, 60), st.floats(0.0001, 0.02))
def test_later_rounds_take_a_twentieth_of_the_time(slices: int, cost: float) -> None:
    rounds = LaneRounds()
    begin, _ = go_round(rounds, 0.0, slices, cost)
    end, spent = go_round(rounds, begin, slices, cost)
    assert spent <= (end - begin) * SHARE * 1.1 + cost


@given(st.integers(1, 5), st.floats(0.0001, 0.3))
def test_no_slice_waits_for_longer_than_a_period(slices: int, cost: float) -> None:
    rounds = LaneRounds()
    at, _ = go_round(rounds, 0.0, slices, cost)
    assert rounds.due_in(at, POLL_PERIOD) <= POLL_PERIOD + 1e-9
    end, spent = go_round(rounds, at, slices, cost)
    assert end - at - spent <= (slices + 1) * POLL_PERIOD


def test_a_round_that_failed_begins_anew_and_less_deep() -> None:
    rounds = LaneRounds()
    assert rounds.begin(0.0) is None
    rounds.end(0.0, 1.0, LaneId(1000))
    assert rounds.after == 1000
    rounds.begin(1.0)
    rounds.fail(1.0, 31.0)
    assert rounds.after is None
    assert rounds.begin(31.0) is not None
