"""Failed logins are all told, and never often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.logins import FAILURES_PERIOD, MOST_FAILURES, FailureLog

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
FAILURES = st.lists(
    st.tuples(st.one_of(st.none(), st.sampled_from("ab")), st.integers(0, 300), st.integers(0, 400)),
    max_size=300,
)


@given(failures=FAILURES)
def test_no_failure_is_lost_and_none_is_told_twice(failures: list[tuple[str | None, int, int]]) -> None:
    log, now, told = FailureLog(), START, []
    for account, address, seconds in failures:
        now += timedelta(seconds=seconds)
        told += log.note(account, str(address), now=now)
    assert sum(each.count for each in told) + log.untold == len(failures)


@given(addresses=st.lists(st.integers(0, 1000), max_size=500))
def test_an_attack_from_many_addresses_fills_nothing(addresses: list[int]) -> None:
    log = FailureLog()
    told = [each for number in addresses for each in log.note("ann", str(number), now=START)]
    assert len(told) <= MOST_FAILURES + 1
    later = log.take_due(START + FAILURES_PERIOD)
    assert sum(each.count for each in [*told, *later]) == len(addresses)
