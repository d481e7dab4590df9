from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.shares import MOST_LEAD, MOST_LEAD_STEPS, Shares

UNIT = 0.01
"""What serving takes, in seconds."""
weightings = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10), min_size=2)


def make(weights: Mapping[str, float] | None = None) -> Shares:
    return Shares(dict(weights or {}))


def serve(shares: Shares, waiting: str, *, times: int, amount: float = 1) -> Counter[str]:
    """Let the party that is furthest behind be served again and again; all of them always wait."""
    total: Counter[str] = Counter()
    for _ in range(times):
        shares.advance(min(map(shares.time, waiting)))
        first = min(waiting, key=shares.time)
        shares.charge(first, amount, UNIT)
        total[first] += 1
    return total


@given(weightings, st.integers(1, 50), st.integers(0, 400))
def test_parties_that_wait_are_never_further_apart_than_one_serving(
    weights: dict[str, int], amount: int, times: int
) -> None:
    shares = make(weights)
    serve(shares, "".join(weights), times=times, amount=amount)
    apart = [shares.time(party) for party in weights]
    assert max(apart) - min(apart) <= UNIT * amount / min(weights.values()) + 1e-9


@given(weightings)
def test_in_the_long_run_shares_are_those_of_the_weights(weights: dict[str, int]) -> None:
    total = serve(make(weights), "".join(weights), times=1000)
    for party, weight in weights.items():
        assert total[party] / 1000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


@pytest.mark.parametrize("idle", [1, 10, 10_000])
def test_idleness_earns_no_credit(idle: int) -> None:
    shares = make()
    serve(shares, "ab", times=20)
    serve(shares, "b", times=idle)
    shares.welcome("a", UNIT)
    total = serve(shares, "ab", times=20)
    assert abs(total["a"] - total["b"]) <= 2


def test_leaving_for_a_moment_does_not_pay() -> None:
    """A party that leaves whenever it was served, and comes back at once, gets no more than the one that stays."""
    shares = make()
    total: Counter[str] = Counter()
    for _ in range(100):
        total += serve(shares, "ab", times=1, amount=5)
        shares.welcome("a", UNIT)
    assert abs(total["a"] - total["b"]) <= 1


def test_a_newcomer_starts_level() -> None:
    shares = make()
    serve(shares, "a", times=1000)
    shares.welcome("b", UNIT)
    total = serve(shares, "ab", times=20)
    assert abs(total["a"] - total["b"]) <= 2


def test_lead_is_bounded() -> None:
    """A party that had workers for itself waits for a bounded time when it meets the others."""
    shares = make()
    for _ in range(10_000):
        shares.charge("b", 10, UNIT)
    assert shares.time("b") == MOST_LEAD
    total = serve(shares, "ab", times=int(MOST_LEAD / UNIT) + 20)
    assert total["b"] >= 9


@pytest.mark.parametrize(("count", "seconds"), [(100, 60.0), (100, 2.0), (4000, 0.01), (10, 3600.0)])
def test_bound_of_the_lead_leaves_room_for_large_claims_and_long_attempts(count: int, seconds: float) -> None:
    weights = {"seven": 7.0, "two": 2.0, "one": 1.0}
    shares = make(weights)
    for _ in range(MOST_LEAD_STEPS):
        for party, weight in weights.items():
            shares.charge(party, count * weight / 10, seconds)
    times = [shares.time(party) for party in weights]
    assert max(times) == pytest.approx(min(times))


def test_newcomers_do_not_starve_who_was_there_before() -> None:
    """Each of them waits for one thing, gets it and is gone, and the next one comes."""
    shares = make()
    shares.welcome("base", UNIT)
    waiting = ["base"]
    served = 0
    for number in range(1000):
        waiting.append(f"newcomer-{number}")
        shares.welcome(waiting[-1], UNIT)
        shares.advance(min(map(shares.time, waiting)))
        first = min(waiting, key=shares.time)
        shares.charge(first, 1, UNIT)
        if first == "base":
            served += 1
        else:
            waiting.remove(first)
    assert served >= 30  # each time, one newcomer more waits beside it


def test_parties_are_charged_by_weight() -> None:
    shares = make({"a": 3})
    shares.charge("a", 6, 0.5)
    shares.charge("b", 6, 0.5)
    assert (shares.time("a"), shares.time("b")) == (1.0, 3.0)


def test_visitors_are_forgotten_and_those_that_wait_or_owe_are_not() -> None:
    shares = make()
    shares.charge("waiting", 4, 1.0)
    shares.charge("ahead", 8, 1.0)
    for number in range(20_000):
        shares.advance(number * 1e-4)
        visitor = f"visitor-{number}"
        shares.welcome(visitor, 1e-6)
        shares.charge(visitor, 1, 1e-6)
        shares.prune({"waiting"})
    assert len(shares._times) <= 4000
    assert shares.time("waiting") == 4.0
