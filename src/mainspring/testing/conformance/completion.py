"""The ends of attempts: what each transition leaves behind, and that only the lease's holder may write it."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core import outcomes
from mainspring.core.ids import RunId
from mainspring.core.model import INLINE_LIMIT, Delivery, JobSpec, Run
from mainspring.core.outcomes import Failure, Transition
from mainspring.core.results import keep, leave_out, read_mark
from mainspring.core.retry import Backoff, RetryPolicy, RetryRule, Then
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    make_change,
    make_spec,
    read_held,
    running_run,
)

APPLIED, STALE, MISSING = [ApplyResult.APPLIED], [ApplyResult.STALE], [ApplyResult.MISSING]
POLICY = RetryPolicy(max_retries=2, backoff=Backoff.FIXED, delay=timedelta(seconds=10), jitter=0.0)
SPEC = make_spec(name="endings", retry=POLICY)
UNKNOWN_RUN = RunId(10**15)


def succeed(held: HeldRun, result: bytes | None = b"42") -> Transition:
    """The attempt succeeded."""
    return outcomes.succeeded(held.run_id, held.token, held.session_id, result, "said something")


def fail(
    held: HeldRun, spec: JobSpec = SPEC, *, now: float, error: str = "boom", retry: bool = True
) -> Transition:
    """The attempt failed."""
    failure = Failure(error=error, output="said something", is_retryable=retry)
    return outcomes.failed(facts_of(held), spec, failure, now=at(now), random=lambda: 0.5)


def lose(held: HeldRun, spec: JobSpec = SPEC, *, now: float) -> Transition:
    """The worker died."""
    return outcomes.lost(facts_of(held), spec, now=at(now))


def give_back(held: HeldRun, spec: JobSpec = SPEC, *, now: float, was_started: bool = True) -> Transition:
    """The worker hands the run back."""
    return outcomes.handed_back(facts_of(held), spec, now=at(now), was_started=was_started)


def snooze(held: HeldRun, *, until: float) -> Transition:
    """The job asks to be called again."""
    return outcomes.snoozed(facts_of(held), until=at(until))


async def read_run(store: Store, run_id: RunId) -> Run:
    """Return a run that exists."""
    [run] = await store.get_runs([run_id])
    assert run is not None
    return run


async def take_again(store: Store, run_id: RunId, *, now: float, is_quarantined: bool = False) -> HeldRun:
    """Claim a run once more, with a session of its own."""
    leased = await claim(store, await add_session(store), now=at(now), is_quarantined=is_quarantined)
    assert [run.run_id for run in leased] == [run_id]
    return await read_held(store, run_id)


class Completion:
    """Each end of an attempt leaves the run in its next state, with everything that the next claim needs."""

    __test__ = False

    async def test_success_ends_the_run_with_its_result(self, store: Store) -> None:
        held = await running_run(store)
        assert await store.apply([succeed(held)], now=at(9)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.error) == (RunState.SUCCEEDED, None, None)
        assert (run.result, run.output) == (b"42", "said something")
        assert (run.started_at, run.finished_at, run.attempt) == (START, at(9), 1)
        assert await store.read_held([held.run_id]) == [None]

    async def test_first_try_success_writes_no_attempt_row(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([succeed(held)], now=at(9))
        assert await store.list_attempts(held.run_id) == []

    async def test_results_and_outputs_up_to_the_limit_are_kept_whole(self, store: Store) -> None:
        job = await add_job(store)
        for second, size in enumerate((60_000, 60_001, INLINE_LIMIT)):
            result, output = b'"' + b"r" * (size - 2) + b'"', "o" * size
            first, again, dead = [await running_run(store, job, now=at(second)) for _ in range(3)]
            await store.apply([give_back(again, now=second)], now=at(second))
            again = await take_again(store, again.run_id, now=second)
            failure = Failure(error="boom", result=result, output=output, is_retryable=False)
            ends = [
                *(
                    outcomes.succeeded(held.run_id, held.token, held.session_id, result, output)
                    for held in (first, again)
                ),
                outcomes.failed(facts_of(dead), make_spec(), failure, now=at(second), random=lambda: 0.5),
            ]
            assert await store.apply(ends, now=at(second)) == [ApplyResult.APPLIED] * 3
            for held in (first, again, dead):
                run = await read_run(store, held.run_id)
                assert (run.result, run.output) == (result, output)

    async def test_failure_that_a_rule_snoozes_counts_no_attempt(self, store: Store) -> None:
        rule = RetryRule(on=("any",), then=Then.SNOOZE, delay=timedelta(seconds=10), max_snoozes=2)
        spec = make_spec(name="snoozing", retry=RetryPolicy(rules=(rule,)))
        held = await running_run(store, await add_job(store, spec=spec))
        for calls in range(2):
            assert facts_of(held).uncounted == calls
            end = fail(held, spec, now=20 * calls)
            assert await store.apply([end], now=at(20 * calls)) == APPLIED
            assert await store.apply([end], now=at(20 * calls)) == APPLIED  # a repeat
            run = await read_run(store, held.run_id)
            assert (run.state, run.attempt, run.ready_at) == (RunState.RETRYING, 1, at(20 * calls + 10))
            held = await take_again(store, held.run_id, now=20 * calls + 10)
        assert await store.apply([fail(held, spec, now=40)], now=at(40)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "snoozes_exhausted", 1)
        attempts = await store.list_attempts(held.run_id)
        assert [(one.number, one.outcome) for one in attempts] == [(1, "failed")] * 3

    async def test_crash_that_a_rule_retries_waits_and_counts(self, store: Store) -> None:
        rule = RetryRule(on=("crash",), max_retries=1, delay=timedelta(seconds=10), jitter=0.0)
        spec = make_spec(name="crashing", retry=RetryPolicy(rules=(rule,)))
        held = await running_run(store, await add_job(store, spec=spec))
        assert await store.apply([lose(held, spec, now=1)], now=at(1)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.attempt, run.crashes, run.ready_at) == (RunState.RETRYING, 2, 1, at(11))
        held = await take_again(store, held.run_id, now=11, is_quarantined=True)
        assert held.is_quarantined
        assert await store.apply([lose(held, spec, now=12)], now=at(12)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "retries_exhausted", 2)

    async def test_mark_in_place_of_a_result_is_kept(self, store: Store) -> None:
        first, again, dead = [await running_run(store) for _ in range(3)]
        await store.apply([give_back(again, now=1)], now=at(1))
        again = await take_again(store, again.run_id, now=1)
        for held, mark in ((first, keep(b"1" * (INLINE_LIMIT + 1))), (again, leave_out("\u2603"))):
            ended = outcomes.succeeded(held.run_id, held.token, held.session_id, mark)
            assert await store.apply([ended], now=at(1)) == APPLIED
            assert read_mark((await read_run(store, held.run_id)).result) == read_mark(mark)
        failure = Failure(error="boom", result=leave_out("no"), is_retryable=False)
        ended = outcomes.failed(facts_of(dead), make_spec(), failure, now=at(1), random=lambda: 0.5)
        assert await store.apply([ended], now=at(1)) == APPLIED
        assert read_mark((await read_run(store, dead.run_id)).result) is not None

    async def test_failure_with_attempts_left_waits_for_its_backoff(self, store: Store) -> None:
        held = await running_run(store)
        assert await store.apply([fail(held, now=5)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.ready_at, run.due_at) == (RunState.RETRYING, at(15), START)
        assert run.finished_at is None
        assert run.token > held.token
        session_id = await add_session(store)
        assert await claim(store, session_id, now=at(14)) == ()
        [leased] = await claim(store, session_id, now=at(15))
        assert (leased.run_id, leased.attempt) == (held.run_id, 2)
        assert leased.token > run.token

    async def test_failure_writes_an_attempt_row(self, store: Store) -> None:
        session_id = await add_session(store, worker="w-7")
        held = await running_run(store, session_id=session_id)
        await store.apply([fail(held, now=5)], now=at(5))
        [attempt] = await store.list_attempts(held.run_id)
        assert (attempt.run_id, attempt.token, attempt.number) == (held.run_id, held.token, 1)
        assert (attempt.outcome, attempt.worker, attempt.host) == ("failed", "w-7", "host-1")
        assert (attempt.started_at, attempt.finished_at) == (START, at(5))
        assert (attempt.error, attempt.output) == ("boom", "said something")

    async def test_success_after_a_failure_writes_its_row_too(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([fail(held, now=5)], now=at(5))
        again = await take_again(store, held.run_id, now=15)
        await store.apply([succeed(again)], now=at(20))
        attempts = await store.list_attempts(held.run_id)
        assert [(row.number, row.outcome) for row in attempts] == [(1, "failed"), (2, "succeeded")]
        assert [row.token for row in attempts] == [held.token, again.token]
        run = await read_run(store, held.run_id)
        assert (run.state, run.attempt, run.error) == (RunState.SUCCEEDED, 2, None)

    async def test_run_out_of_attempts_is_dead(self, store: Store) -> None:
        held = await running_run(store)
        for second in (10, 30, 50):
            assert await store.apply([fail(held, now=second, error=f"e{second}")], now=at(second)) == APPLIED
            if second < 50:
                held = await take_again(store, held.run_id, now=second + 10)
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.error) == (RunState.FAILED, "retries_exhausted", "e50")
        assert (run.attempt, run.finished_at, run.output) == (3, at(50), "said something")
        assert [row.number for row in await store.list_attempts(held.run_id)] == [1, 2, 3]

    async def test_failure_that_must_not_be_retried_is_dead_at_once(self, store: Store) -> None:
        held = await running_run(store, payload=b"[7]")
        assert await store.apply([fail(held, now=5, retry=False)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.payload) == (RunState.FAILED, "not_retryable", b"[7]")

    async def test_snooze_waits_for_its_instant_and_counts_no_attempt(self, store: Store) -> None:
        held = await running_run(store)
        assert await store.apply([snooze(held, until=40)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.ready_at) == (RunState.RETRYING, at(40))
        assert run.token > held.token
        again = await take_again(store, held.run_id, now=40)
        assert again.attempt == 1
        assert [row.outcome for row in await store.list_attempts(held.run_id)] == ["snoozed"]

    async def test_hand_back_is_ready_at_once_and_counts_no_attempt(self, store: Store) -> None:
        held = await running_run(store)
        assert await store.apply([give_back(held, now=5)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.ready_at, run.crashes) == (RunState.PENDING, at(5), 0)
        again = await take_again(store, held.run_id, now=5)
        assert again.attempt == 1
        assert again.token > run.token > held.token

    async def test_loss_is_ready_at_once_and_counts_a_crash(self, store: Store) -> None:
        held = await running_run(store)
        assert await store.apply([lose(held, now=5)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.ready_at, run.crashes) == (RunState.PENDING, at(5), 1)
        again = await take_again(store, held.run_id, now=5, is_quarantined=True)
        assert again.attempt == 1
        assert [row.outcome for row in await store.list_attempts(held.run_id)] == ["lost"]

    async def test_lost_at_most_once_run_never_runs_again(self, store: Store) -> None:
        spec = make_spec(delivery=Delivery.AT_MOST_ONCE)
        held = await running_run(store, await add_job(store, spec))
        assert await store.apply([lose(held, spec, now=5)], now=at(5)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "lost", 1)
        session_id = await add_session(store)
        for is_quarantined in (True, False):
            assert await claim(store, session_id, now=at(10**6), is_quarantined=is_quarantined) == ()

    async def test_ready_at_in_the_past_is_written_as_now(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([snooze(held, until=-100)], now=at(5))
        assert (await read_run(store, held.run_id)).ready_at == at(5)

    async def test_batch_answers_in_order(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(3)]
        batch = [
            fail(held[2], now=5),
            outcomes.succeeded(UNKNOWN_RUN, 1, held[0].session_id),
            outcomes.succeeded(held[1].run_id, held[1].token + 1, held[1].session_id),
            succeed(held[0]),
        ]
        applied, stale, missing = ApplyResult.APPLIED, ApplyResult.STALE, ApplyResult.MISSING
        assert await store.apply(batch, now=at(5)) == [applied, missing, stale, applied]
        states = [(await read_run(store, run.run_id)).state for run in held]
        assert states == [RunState.SUCCEEDED, RunState.RUNNING, RunState.RETRYING]

    async def test_one_run_twice_in_a_batch_ends_once(self, store: Store) -> None:
        held = await running_run(store)
        batch = [succeed(held), succeed(held)]
        assert await store.apply(batch, now=at(5)) == [ApplyResult.APPLIED] * 2
        assert await store.count_runs("default") == {RunState.SUCCEEDED: 1}

    async def test_run_of_a_deleted_job_still_ends(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.delete_jobs([make_change(job)], now=at(1))
        assert await store.apply([succeed(held)], now=at(5)) == APPLIED
