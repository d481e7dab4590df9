from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.retry import Backoff, RetryPolicy, has_attempts_left, retry_delay

EXACT = RetryPolicy(jitter=0.0)
US = timedelta(microseconds=1)
seconds = st.integers(0, 10 * 86_400).map(lambda value: timedelta(seconds=value))

policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 50),
    backoff=st.sampled_from(Backoff),
    delay=seconds,
    cap=seconds,
    delays=st.lists(seconds, min_size=1, max_size=5).map(tuple),
    jitter=st.floats(0, 1),
)


def middle() -> float:
    return 0.5


def waits(policy: RetryPolicy, number: int) -> list[float]:
    return [retry_delay(policy, attempt, middle).total_seconds() for attempt in range(1, number + 1)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EXACT, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]),
        (RetryPolicy(jitter=0.0, backoff=Backoff.FIXED), [5, 5, 5]),
        (RetryPolicy(jitter=0.0, backoff=Backoff.FIXED, cap=timedelta(seconds=3)), [3, 3]),
        (RetryPolicy(jitter=0.0, backoff=Backoff.LINEAR, cap=timedelta(seconds=18)), [5, 10, 15, 18, 18]),
        (
            RetryPolicy(
                jitter=0.0,
                backoff=Backoff.LIST,
                delays=(timedelta(seconds=1), timedelta(hours=2), timedelta(seconds=7)),
            ),
            [1, 3600, 7, 7, 7],
        ),
        (RetryPolicy(jitter=0.0, delay=timedelta(0)), [0, 0, 0]),
    ],
)
def test_delay_follows_its_shape(policy: RetryPolicy, expected: list[float]) -> None:
    assert waits(policy, len(expected)) == expected


def test_default_is_three_retries_with_a_fifth_of_jitter() -> None:
    policy = RetryPolicy()
    assert [has_attempts_left(policy, attempt) for attempt in range(1, 6)] == [True, True, True, False, False]
    assert retry_delay(policy, 1, lambda: 0.0) == timedelta(seconds=4)
    assert retry_delay(policy, 1, lambda: 0.5) == timedelta(seconds=5)
    assert timedelta(seconds=5.999) < retry_delay(policy, 1, lambda: 1 - 2**-53) <= timedelta(seconds=6)


@given(st.integers(0, 1000))
def test_attempts_are_at_most_one_more_than_retries(max_retries: int) -> None:
    policy = RetryPolicy(max_retries=max_retries)
    attempt = 1
    while has_attempts_left(policy, attempt):
        attempt += 1
    assert attempt == max_retries + 1


@given(policies, st.integers(1, 2000), st.floats(0, 1, exclude_max=True))
def test_delay_stays_within_jitter_of_its_base_and_the_cap(
    policy: RetryPolicy, attempt: int, chance: float
) -> None:
    plain = RetryPolicy(
        backoff=policy.backoff, delay=policy.delay, cap=policy.cap, delays=policy.delays, jitter=0.0
    )
    base = retry_delay(plain, attempt, middle)
    wait = retry_delay(policy, attempt, lambda: chance)
    assert timedelta(0) <= base <= policy.cap
    assert base * (1 - policy.jitter) - US <= wait <= base * (1 + policy.jitter) + US


@given(policies, st.integers(1, 200))
def test_delay_never_shrinks_from_one_retry_to_the_next_unless_listed(
    policy: RetryPolicy, attempt: int
) -> None:
    if policy.backoff is not Backoff.LIST:
        assert retry_delay(policy, attempt, middle) <= retry_delay(policy, attempt + 1, middle) + US


@pytest.mark.parametrize("backoff", [Backoff.LINEAR, Backoff.EXPONENTIAL])
def test_patient_policy_does_not_overflow(backoff: Backoff) -> None:
    policy = RetryPolicy(backoff=backoff, delay=timedelta(days=365), cap=timedelta(days=3650), jitter=0.0)
    assert retry_delay(policy, 2**31, middle) == policy.cap


def test_delay_without_jitter_draws_nothing() -> None:
    def refuse() -> float:
        raise AssertionError

    assert retry_delay(EXACT, 1, refuse) == timedelta(seconds=5)
