from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.holding import MOST_COMPARED, Candidate, KeyState, admit_to_keys
from mainspring.core.ids import KeyId, RunId
from mainspring.core.limits import Hold
from mainspring.core.rates import Bucket, Rate
from mainspring.testing.factories import at

NOW = at(0)
SECOND = timedelta(seconds=1)
keys = st.lists(st.integers(1, 4).map(KeyId), max_size=3, unique=True).map(tuple)
queues = st.lists(keys, max_size=25).map(
    lambda found: [Candidate(RunId(place + 1), one, one[:1]) for place, one in enumerate(found)]
)
states = st.dictionaries(
    st.integers(1, 4).map(KeyId),
    st.builds(
        KeyState,
        max_running=st.none() | st.integers(1, 4),
        held=st.integers(0, 5),
        bucket=st.none() | st.builds(Bucket, st.just(Rate(1, SECOND)), st.integers(1, 3)),
    ),
)


@given(queues, states, st.integers(0, 20))
def test_no_key_gets_more_than_its_room_and_its_permits(
    queue: list[Candidate], known: dict[KeyId, KeyState], limit: int
) -> None:
    admission = admit_to_keys(queue, known, limit, NOW)
    taken = [queue[place] for place in admission.taken]
    assert len(taken) <= limit
    assert len(set(admission.taken)) == len(taken)
    counts = Counter(key_id for candidate in taken for key_id in candidate.keys)
    for key_id, count in counts.items():
        state = known[key_id]
        assert state.max_running is None or state.held + count <= max(state.max_running, state.held)
        assert state.bucket is None or count <= state.bucket.burst
    assert Counter(key_id for key_id, _ in admission.holds) == counts
    for key_id, bucket in admission.buckets.items():
        assert bucket.level == known[key_id].bucket.at(NOW).level - counts[key_id]  # type: ignore[union-attr,operator]


@given(queues, states)
def test_whoever_is_left_out_was_stopped_by_a_key_or_stands_behind_one_who_was(
    queue: list[Candidate], known: dict[KeyId, KeyState]
) -> None:
    admission = admit_to_keys(queue, known, len(queue), NOW)
    for place, candidate in enumerate(queue):
        if place not in admission.taken:
            assert candidate.line in admission.stopped
    counts = Counter(key_id for place in admission.taken for key_id in queue[place].keys)
    for key_id in admission.stopped.values():
        state = known.get(key_id)
        is_full = state is not None and state.max_running is not None
        is_full = is_full and state.held + counts[key_id] >= state.max_running  # type: ignore[union-attr,operator]
        is_empty = state is not None and state.bucket is not None and counts[key_id] >= state.bucket.burst
        assert state is None or is_full or is_empty


@given(queues, states)
def test_runs_of_a_line_start_in_order(queue: list[Candidate], known: dict[KeyId, KeyState]) -> None:
    admission = admit_to_keys(queue, known, len(queue), NOW)
    for place, candidate in enumerate(queue):
        if place in admission.taken:
            before = [other for other, one in enumerate(queue[:place]) if one.line == candidate.line]
            assert set(before) <= set(admission.taken)


def test_who_kept_a_place_goes_first_and_takes_no_new_one() -> None:
    key = KeyId(1)
    state = KeyState(max_running=1, hold=Hold.RUN, held=1, holders=frozenset({RunId(2)}))
    queue = [Candidate(RunId(1), (key,), "a"), Candidate(RunId(2), (key,), "a")]
    admission = admit_to_keys(queue, {key: state}, 5, NOW)
    assert (admission.taken, admission.holds) == ([1], [])


def test_of_those_who_kept_places_no_more_start_than_the_cap_allows() -> None:
    key = KeyId(1)
    holders = [RunId(place) for place in range(5)]
    state = KeyState(max_running=3, hold=Hold.RUN, held=5, holders=frozenset(holders), under_way=1)
    queue = [Candidate(run_id, (key,), "a") for run_id in holders[1:]]
    assert admit_to_keys(queue, {key: state}, 5, NOW).taken == [0, 1]


def test_a_key_that_is_not_locked_stops_its_line_as_busy() -> None:
    free, busy = KeyId(1), KeyId(2)
    queue = [Candidate(RunId(1), (free, busy), "a"), Candidate(RunId(2), (free,), "a")]
    admission = admit_to_keys(queue, {free: KeyState()}, 5, NOW)
    assert admission.taken == []
    stop = admission.stop_of("a", {free: KeyState()}, NOW)
    assert stop is not None
    assert (stop.key_id, stop.is_busy) == (busy, True)
    assert admission.stop_of("b", {}, NOW) is None


def test_what_stops_one_line_leaves_others_with_the_same_key_alone() -> None:
    shared, own = KeyId(1), KeyId(2)
    queue = [
        Candidate(RunId(1), (shared, own), "a"),
        Candidate(RunId(2), (shared,), "b"),
        Candidate(RunId(3), (shared,), "a"),
    ]
    known = {shared: KeyState(max_running=9), own: KeyState(max_running=1, held=1)}
    admission = admit_to_keys(queue, known, 5, NOW)
    assert admission.taken == [1]
    assert admission.stopped == {"a": own}


def test_who_has_no_room_under_one_key_takes_none_under_the_others() -> None:
    own, cap = KeyId(1), KeyId(2)
    queue = [Candidate(RunId(1), (own, cap), "a"), Candidate(RunId(2), (cap,), "b")]
    known = {own: KeyState(max_running=1, held=1), cap: KeyState(max_running=1)}
    admission = admit_to_keys(queue, known, 5, NOW)
    assert (admission.taken, admission.holds) == ([1], [(cap, RunId(2))])


def test_a_stop_says_until_when() -> None:
    key = KeyId(1)
    queue = [Candidate(RunId(place), (key,), "a") for place in range(3)]
    rated = {key: KeyState(bucket=Bucket(Rate(2, SECOND), 1))}
    stop = admit_to_keys(queue, rated, 5, NOW).stop_of("a", rated, NOW)
    assert stop is not None
    assert stop.until is not None
    assert at(0.5) <= stop.until <= at(0.51)
    full = {key: KeyState(max_running=1, held=1, retry_at=at(9))}
    stop = admit_to_keys(queue, full, 5, NOW).stop_of("a", full, NOW)
    assert stop is not None
    assert stop.until == at(9)


def test_large_caps_are_counted_first_and_compared_only_when_they_seem_full() -> None:
    assert KeyState(max_running=MOST_COMPARED).is_compared_at_once
    assert not KeyState(max_running=MOST_COMPARED + 1).is_compared_at_once
    assert KeyState(max_running=MOST_COMPARED + 1, hold=Hold.RUN).is_compared_at_once
    assert KeyState(max_running=100, held=100).is_full
    assert not KeyState(max_running=100, held=99).is_full
    assert not KeyState(held=99).is_full
