from collections import Counter
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import JobId
from mainspring.core.planning import jittered
from mainspring.testing.factories import START, IdSequence, at

job_ids = st.uuids().map(JobId)
instants = st.builds(
    lambda offset, zone: (START + offset).astimezone(zone),
    st.timedeltas(timedelta(days=-20_000), timedelta(days=20_000)),
    st.timezones(),
)
jitters = st.timedeltas(timedelta(0), timedelta(days=1))
HALF_MINUTE = timedelta(seconds=30)


@given(job_ids, instants, jitters)
def test_jitter_stays_within_bounds_and_is_the_same_every_time(
    job_id: JobId, fire_at: datetime, jitter: timedelta
) -> None:
    start = jittered(job_id, fire_at, jitter)
    assert timedelta(0) <= start - fire_at <= jitter
    assert jittered(job_id, fire_at, jitter) == start


def test_jitter_of_nothing_moves_nothing() -> None:
    assert jittered(IdSequence().new_job_id(), START, timedelta(0)) is START


def test_jitter_does_not_depend_on_how_the_instant_is_written() -> None:
    job_id = IdSequence().new_job_id()
    elsewhere = START.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert jittered(job_id, elsewhere, HALF_MINUTE) == jittered(job_id, START, HALF_MINUTE)


def test_jitter_known_values() -> None:
    """Nodes of two releases must agree: these change only with a reason and a note in the changelog."""
    ids = IdSequence(1)
    delays = [jittered(ids.new_job_id(), START, HALF_MINUTE) - START for _ in range(3)]
    assert [delay.total_seconds() for delay in delays] == [11.7593, 25.130959, 6.10605]


def test_jitter_differs_from_fire_to_fire() -> None:
    job_id = IdSequence().new_job_id()
    delays = {jittered(job_id, at(60 * n), HALF_MINUTE) - at(60 * n) for n in range(100)}
    assert len(delays) == 100


def test_jitter_spreads_a_hundred_thousand_jobs_evenly() -> None:
    ids = IdSequence()
    number = 100_000
    starts = [jittered(ids.new_job_id(), START, HALF_MINUTE) - START for _ in range(number)]
    per_second = Counter(int(delay.total_seconds()) for delay in starts)
    assert len(per_second) == 30
    assert number / max(per_second.values()) > 27  # the peak of 100,000 in one second falls about 30 times
    assert number / min(per_second.values()) < 33
