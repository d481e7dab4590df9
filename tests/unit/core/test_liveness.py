from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.liveness import PERIODS_OF_SILENCE, Pulse, Watch, forget, list_settled, observe

PERIOD = 10.0
Look = tuple[float, dict[str, int]]


def pulses_of(counters: dict[str, int]) -> dict[str, Pulse]:
    return {key: Pulse(counter, PERIOD) for key, counter in counters.items()}


def watch_all(looks: list[Look]) -> list[list[str]]:
    """Take all looks, one after another; return who was declared silent at each."""
    watch: Watch[str] | None = None
    declared = []
    for moment, counters in looks:
        watch, silent = observe(watch, pulses_of(counters), at=moment)
        declared.append(silent)
    return declared


def still(*moments: float) -> list[Look]:
    return [(moment, {"a": 1}) for moment in moments]


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([0.0], [False]),
        ([0.0, 10.0, 20.0, 29.9], [False] * 4),
        ([0.0, 10.0, 20.0, 30.0], [False] * 3 + [True]),
        ([0.0, 15.0, 30.0], [False, False, True]),  # the longest gap that still counts as watching
        ([0.0, 15.1, 30.2, 45.3, 60.4], [False] * 5),  # reads too rare to judge by
        ([0.0, 10.0, 20.0, 36.0, 46.0, 56.0, 65.9], [False] * 7),  # a gap restarts the watch
        ([0.0, 10.0, 20.0, 36.0, 46.0, 56.0, 66.0], [False] * 6 + [True]),
        ([0.0, 1000.0], [False, False]),  # the judge was suspended
    ],
)
def test_silence_is_judged_after_three_watched_periods(moments: list[float], expected: list[bool]) -> None:
    assert [bool(silent) for silent in watch_all(still(*moments))] == expected


def test_silent_stays_silent_until_it_is_gone() -> None:
    assert watch_all(still(0.0, 10.0, 20.0, 30.0, 40.0))[3:] == [["a"], ["a"]]


def test_any_change_of_the_counter_is_a_sign_of_life() -> None:
    looks: list[Look] = [(10.0 * n, {"a": 5 - n}) for n in range(9)]  # falls: the row was written anew
    assert not any(watch_all(looks))


def test_a_beat_in_the_last_moment_restarts_the_count() -> None:
    looks = [*still(0.0, 10.0, 20.0), (29.9, {"a": 2}), (39.9, {"a": 2}), (49.9, {"a": 2}), (59.8, {"a": 2})]
    assert not any(watch_all(looks))


def test_key_that_was_away_is_new_again() -> None:
    looks: list[Look] = [*still(0.0, 10.0), (20.0, {}), *still(30.0, 40.0, 50.0)]
    assert not any(watch_all(looks))


def test_everybody_is_judged_alone_and_told_in_order() -> None:
    looks: list[Look] = [
        (10.0 * n, {"dead": 1, "alive": n, "late": 1} if n else {"dead": 1, "alive": n}) for n in range(5)
    ]
    looks.append((50.0, {"late": 1, "alive": 5, "dead": 1}))
    assert watch_all(looks)[3:] == [["dead"], ["dead", "late"], ["late", "dead"]]


def test_each_is_judged_by_the_period_that_it_has_named() -> None:
    watch: Watch[str] | None = None
    declared = {}
    pulses = {"quick": Pulse(1, 1.0), "slow": Pulse(1, 10.0)}
    for moment in range(33):
        watch, silent = observe(watch, pulses, at=float(moment))
        declared[moment] = silent
    assert [declared[moment] for moment in (2, 3, 29, 30)] == [[], ["quick"], ["quick"], ["quick", "slow"]]


def test_reads_too_rare_for_one_may_do_for_another() -> None:
    watch: Watch[str] | None = None
    pulses = {"quick": Pulse(1, 1.0), "slow": Pulse(1, 10.0)}
    for moment in range(0, 36, 2):
        watch, silent = observe(watch, pulses, at=float(moment))
        assert silent == (["slow"] if moment >= 30 else [])


looks_strategy = st.lists(
    st.tuples(
        st.one_of(st.floats(0.1, 15.0), st.sampled_from([2.5, 10.0, 15.0, 15.5, 40.0])),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(looks_strategy)
def test_declared_exactly_when_watched_in_silence_for_three_periods(
    steps: list[tuple[float, dict[str, int]]],
) -> None:
    moment = 0.0
    looks: list[Look] = []
    for gap, counters in steps:
        moment += gap
        looks.append((moment, counters))
    for number, silent in enumerate(watch_all(looks)):
        for key in looks[number][1]:
            assert (key in silent) is has_been_silent(looks[: number + 1], key)


def has_been_silent(looks: list[Look], key: str) -> bool:
    """Walk back over the looks that were close together and showed the same counter."""
    latest, counters = looks[-1]
    since = latest
    for (before, earlier), (after, _) in reversed(list(pairwise(looks))):
        if after - before > 1.5 * PERIOD or earlier.get(key) != counters[key]:
            break
        since = before
    return latest - since >= PERIODS_OF_SILENCE * PERIOD


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=100), st.floats(0.0, 4.9))
def test_moving_counter_is_never_declared_whatever_the_rhythm(gaps: list[float], delay: float) -> None:
    """A worker beats every period, up to half a period late; the judge looks as it may."""
    moment = 0.0
    looks: list[Look] = []
    for gap in gaps:
        moment += gap
        looks.append((moment, {"a": int((moment + delay) // PERIOD)}))
    assert not any(watch_all(looks))


def settle(looks: list[Look]) -> list[list[str]]:
    """Take all looks; return who had settled after each."""
    watch: Watch[str] | None = None
    settled = []
    for moment, counters in looks:
        watch, _ = observe(watch, pulses_of(counters), at=moment)
        settled.append(list_settled(watch))
    return settled


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0.0, 1), (10.0, 2), (20.0, 3), (29.0, 3)], [False] * 4),
        ([(0.0, 1), (10.0, 2), (20.0, 3), (30.0, 4)], [False] * 3 + [True]),
        ([(0.0, 1), (10.0, 1), (20.0, 1), (29.0, 1)], [False] * 4),  # may be dead since the first look
        ([(0.0, 1), (10.0, 2), (20.0, 3), (30.0, 4), (45.1, 5)], [False] * 3 + [True, False]),  # not watched
        ([(0.0, 1), (10.0, 2), (20.0, 2), (30.0, 2)], [False] * 4),  # may be dead since the second look
        (
            [(10.0 * n, max(1, n - 2)) for n in range(7)] + [(69.9, 5), (70.0, 6)],
            [False] * 8 + [True],  # silent in between: as new
        ),
        ([(10.0 * n, min(n, 3)) for n in range(7)], [False] * 3 + [True] * 3 + [False]),  # silent again
    ],
)
def test_settled_is_who_was_seen_alive_for_three_periods(
    looks: list[tuple[float, int]], expected: list[bool]
) -> None:
    found = settle([(moment, {"a": counter}) for moment, counter in looks])
    assert [bool(settled) for settled in found] == expected


def test_forgotten_key_is_watched_anew_and_the_others_go_on() -> None:
    watch: Watch[str] | None = None
    pulses = pulses_of({"asked": 1, "dead": 1})
    for moment in (0.0, 10.0, 20.0):
        watch, _ = observe(watch, pulses, at=moment)
    assert watch is not None
    watch = forget(watch, ["asked", "unknown"])
    declared = []
    for moment in (30.0, 40.0, 50.0, 60.0):
        watch, silent = observe(watch, pulses, at=moment)
        declared.append(silent)
    assert declared == [["dead"], ["dead"], ["dead"], ["asked", "dead"]]


@given(looks_strategy)
def test_nobody_is_settled_and_silent(steps: list[tuple[float, dict[str, int]]]) -> None:
    moment = 0.0
    looks: list[Look] = []
    for gap, counters in steps:
        moment += gap
        looks.append((moment, counters))
    for silent, settled in zip(watch_all(looks), settle(looks), strict=True):
        assert not set(silent) & set(settled)
