"""Looks take a share of the time, and none is put off for long because an earlier one took long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.engine.common.pacing import SHARE, Pacing

COSTS = st.floats(0, 100)


def test_a_single_slow_look_puts_off_nothing() -> None:
    pacing = Pacing(longest=10)
    pacing.rest(0.002)
    assert pacing.rest(7.0) == pytest.approx(0.04)
    assert pacing.rest(0.002) == pytest.approx(0.04)


def test_the_first_look_may_be_slow_too() -> None:
    assert Pacing(longest=10).rest(7.0) == 0


def test_a_look_that_failed_counts() -> None:
    pacing = Pacing(longest=1000)
    assert pacing.rest(7.0, has_failed=True) == pytest.approx(7 / SHARE)
    assert pacing.rest(7.0) == pytest.approx(7 / SHARE)


def test_looks_that_are_always_slow_have_their_share_of_the_time() -> None:
    pacing = Pacing(longest=10)
    pacing.rest(0.1)
    assert pacing.rest(0.1) == pytest.approx(0.1 / SHARE)


@given(st.lists(COSTS, min_size=1, max_size=20), st.floats(0, 60), st.floats(0.01, 1))
def test_no_rest_is_longer_than_the_bound_nor_than_the_last_look_warrants(
    costs: list[float], longest: float, share: float
) -> None:
    pacing = Pacing(longest=longest, share=share)
    for took in costs:
        assert 0 <= pacing.rest(took) <= min(longest, took / share)


@given(st.floats(0, 100), st.integers(2, 20), st.floats(0.01, 1))
def test_where_looks_cost_the_same_only_the_first_has_no_rest(cost: float, count: int, share: float) -> None:
    pacing = Pacing(longest=1e6, share=share)
    rests = [pacing.rest(cost) for _ in range(count)]
    assert rests == pytest.approx([0, *[cost / share] * (count - 1)])
