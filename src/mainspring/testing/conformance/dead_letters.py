"""Dead letters: found by what they have in common, and settled once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

from mainspring.core import outcomes
from mainspring.core.admission import SubmissionVerdict
from mainspring.core.dead_letters import DeadFilter, DeadGroup, SettledLetter, Settlement, group_of
from mainspring.core.ids import RunId
from mainspring.core.model import Job, RunKind
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, NewRun, SubmitResult
from mainspring.testing.conformance.completion import snooze, succeed
from mainspring.testing.conformance.upkeep import prune_all
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    facts_of,
    make_new_run,
    make_spec,
    read_held,
    running_run,
    submit,
)

OPEN = DeadFilter()
SETTLED = DeadFilter(is_settled=True)


async def bury(store: Store, job: Job, error: str = "boom", *, seconds: float = 1, **fields: Any) -> RunId:
    """Make a run of a job that fails for good, so many seconds after the start."""
    held = await running_run(store, job, **fields)
    failure = Failure(error=error, is_retryable=False)
    end = outcomes.failed(
        facts_of(await read_held(store, held.run_id)),
        job.spec,
        failure,
        now=at(seconds),
        random=lambda: 0.5,
    )
    await store.apply([end], now=at(seconds))
    return held.run_id


def redrive_of(job: Job, run_id: RunId, *, key: str | None = None) -> NewRun:
    """Return a run that repeats another one."""
    submit_key = IdempotencyKey(
        key=key or f"redrive {run_id}", request_hash=b"same", expires_at=START + timedelta(days=30)
    )
    return make_new_run(job, kind=RunKind.REDRIVE, submit_key=submit_key, redrive_of=run_id)


async def ids(store: Store, wanted: DeadFilter, *, tenant: str = "default", limit: int = 100) -> list[RunId]:
    """Return the ids of dead letters, as they are listed."""
    return [dead.run.id for dead in await store.list_dead(tenant, wanted, limit=limit)]


class DeadLettersAreFound:
    """What FAILED for good is listed until it is settled."""

    __test__ = False

    async def test_only_what_failed_for_good_is_a_dead_letter(self, store: Store) -> None:
        job = await add_job(store)
        waiting, ended = [await running_run(store, job) for _ in range(2)]
        await store.apply([snooze(waiting, until=5), succeed(ended)], now=at(1))
        dead = await bury(store, job, "Traceback (most recent call last):\nValueError: 12 is odd")
        await submit(store, job)
        [letter] = await store.list_dead("default", OPEN)
        [run] = await store.get_runs([dead])
        assert run is not None
        assert (letter.run.id, letter.run.state, letter.run.error) == (dead, RunState.FAILED, run.error)
        assert (letter.run.job_id, letter.run.lane, letter.run.finished_at) == (job.id, run.lane, at(1))
        assert (letter.error_group, letter.settled) == ("ValueError: # is odd", None)
        assert await store.list_dead("other", OPEN) == []

    async def test_a_list_is_brief(self, store: Store) -> None:
        job = await add_job(store)
        await bury(store, job, payload=b"[1]")
        [letter] = await store.list_dead("default", OPEN)
        assert (letter.run.payload, letter.run.result, letter.run.output) == (None, None, None)

    async def test_pages_are_the_newest_first(self, store: Store) -> None:
        job = await add_job(store)
        dead = [await bury(store, job) for _ in range(5)]
        assert await ids(store, OPEN, limit=2) == [dead[4], dead[3]]
        page = await store.list_dead("default", OPEN, before=dead[3], limit=2)
        assert [letter.run.id for letter in page] == [dead[2], dead[1]]
        of_job = DeadFilter(job_id=job.id)
        page = await store.list_dead("default", of_job, before=dead[3], limit=2)
        assert [letter.run.id for letter in page] == [dead[2], dead[1]]

    async def test_every_filter_means_what_the_core_says(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(name=f"job-{n}", queue=f"queue-{n}")) for n in range(2)]
        dead = []
        for number, (job, error) in enumerate(product(jobs, ("exit status 1", "a % b\n_", "no 7"))):
            dead.append(await bury(store, job, error, seconds=number + 1))
        await store.discard_dead("default", DeadFilter(run_ids=(dead[0],)), reason="gone", now=at(9), limit=9)
        runs = [run for run in await store.get_runs(dead) if run is not None]
        filters = [
            DeadFilter(job_id=jobs[0].id),
            DeadFilter(queue="queue-1"),
            DeadFilter(reason=runs[0].reason),
            DeadFilter(reason="other"),
            DeadFilter(error="%"),
            DeadFilter(error="_"),
            DeadFilter(error="A"),
            DeadFilter(error_group="no #"),
            DeadFilter(since=at(3)),
            DeadFilter(until=at(3)),
            DeadFilter(since=at(2), until=at(5), error="no"),
            DeadFilter(run_ids=(dead[0], dead[3], dead[5])),
            DeadFilter(run_ids=(dead[0], dead[3]), job_id=jobs[1].id),
            DeadFilter(run_ids=()),
        ]
        for wanted, is_settled in product(filters, (False, True)):
            asked = replace(wanted, is_settled=is_settled)
            meant = [
                run.id
                for run in reversed(runs)
                if asked.admits(run, group_of(run.error), is_settled=run.id == dead[0])
            ]
            assert await ids(store, asked) == meant, asked
            if not is_settled:
                assert await store.count_dead("default", asked) == len(meant), asked

    async def test_groups_are_those_of_a_job_that_failed_alike(self, store: Store) -> None:
        one, two = [await add_job(store, make_spec(name=name)) for name in ("one", "two")]
        dead = [await bury(store, one, f"no {n}", seconds=n) for n in range(1, 4)]
        other = await bury(store, one, "timeout", seconds=4)
        third = await bury(store, two, "no 9", seconds=5)
        settled = await bury(store, two, "no 9", seconds=6)
        await store.discard_dead("default", DeadFilter(run_ids=(settled,)), reason="gone", now=at(9), limit=9)
        groups = await store.group_dead("default", OPEN, limit=10)
        assert groups == [
            DeadGroup(
                job_id=one.id,
                error_group="no #",
                count=3,
                first_at=at(1),
                last_at=at(3),
                newest=dead[2],
            ),
            DeadGroup(
                job_id=two.id, error_group="no #", count=1, first_at=at(5), last_at=at(5), newest=third
            ),
            DeadGroup(
                job_id=one.id, error_group="timeout", count=1, first_at=at(4), last_at=at(4), newest=other
            ),
        ]
        assert await store.group_dead("default", OPEN, limit=1) == groups[:1]
        found = await store.group_dead("default", DeadFilter(error="no", since=at(4)), limit=9)
        assert [(group.job_id, group.count) for group in found] == [(two.id, 1)]
        assert await store.group_dead("other", OPEN, limit=9) == []


class DeadLettersAreSettledOnce:
    """A dead letter is redriven by one run or discarded, and not both."""

    __test__ = False

    async def test_discarding_settles_what_is_open(self, store: Store) -> None:
        job = await add_job(store)
        dead = [await bury(store, job) for _ in range(3)]
        wanted = DeadFilter(run_ids=(dead[0], dead[1]))
        done = await store.discard_dead("default", wanted, reason="gone", now=at(5), limit=9)
        assert sorted(done) == dead[:2]
        assert await store.discard_dead("default", wanted, reason="again", now=at(6), limit=9) == []
        assert await ids(store, OPEN) == [dead[2]]
        settled = SettledLetter(settlement=Settlement.DISCARDED, at=at(5), reason="gone")
        assert await store.read_settled([*dead, RunId(7)]) == [settled, settled, None, None]
        listed = await store.list_dead("default", SETTLED)
        assert [(letter.run.id, letter.settled) for letter in listed] == [
            (dead[1], settled),
            (dead[0], settled),
        ]
        [run] = await store.get_runs([dead[0]])
        assert run is not None
        assert run.state is RunState.FAILED

    async def test_a_discard_keeps_to_its_limit_and_its_tenant(self, store: Store) -> None:
        job = await add_job(store)
        dead = [await bury(store, job) for _ in range(5)]
        assert await store.discard_dead("other", OPEN, reason="gone", now=at(5), limit=9) == []
        sizes = [
            len(await store.discard_dead("default", OPEN, reason="gone", now=at(5), limit=2))
            for _ in range(4)
        ]
        assert sizes == [2, 2, 1, 0]
        assert await store.count_dead("default", OPEN) == 0
        assert await ids(store, SETTLED) == dead[::-1]

    async def test_a_redrive_settles_the_run_that_it_repeats(self, store: Store) -> None:
        job = await add_job(store)
        dead = await bury(store, job)
        new = redrive_of(job, dead)
        [made] = await store.submit_runs([new], now=at(5))
        assert made.status is SubmissionVerdict.SUBMITTED
        settled = SettledLetter(settlement=Settlement.REDRIVEN, at=at(5), redriven_as=made.run_id)
        assert await store.read_settled([dead]) == [settled]
        assert (await ids(store, OPEN), await ids(store, SETTLED)) == ([], [dead])
        again = await store.submit_runs([new], now=at(6))
        assert again == [SubmitResult(SubmissionVerdict.DUPLICATE, made.run_id)]
        other = await store.submit_runs([redrive_of(job, dead, key="forgotten")], now=at(7))
        assert other == [SubmitResult(SubmissionVerdict.SETTLED, made.run_id)]
        assert await store.read_settled([dead]) == [settled]
        assert len(await store.list_runs("default")) == 2

    async def test_what_was_discarded_is_not_redriven_and_the_other_way_round(self, store: Store) -> None:
        job = await add_job(store)
        first, second = [await bury(store, job) for _ in range(2)]
        await store.discard_dead("default", DeadFilter(run_ids=(first,)), reason="gone", now=at(5), limit=9)
        results = await store.submit_runs([redrive_of(job, first), redrive_of(job, second)], now=at(6))
        assert results[0] == SubmitResult(SubmissionVerdict.SETTLED)
        assert results[1].status is SubmissionVerdict.SUBMITTED
        assert await store.discard_dead("default", OPEN, reason="gone", now=at(7), limit=9) == []
        kept = await store.read_settled([first, second])
        assert [settled and settled.settlement for settled in kept] == [
            Settlement.DISCARDED,
            Settlement.REDRIVEN,
        ]
        # The refused redrive has not used up its key.
        assert await store.submit_runs([redrive_of(job, first)], now=at(8)) == results[:1]

    async def test_a_redrive_of_an_earlier_release_is_noted_when_it_is_asked_for_again(
        self, store: Store
    ) -> None:
        job = await add_job(store)
        dead = await bury(store, job)
        new = redrive_of(job, dead)
        # An earlier release inserts the run under its key, and leaves the dead letter as it is.
        [made] = await store.submit_runs(
            [make_new_run(job, kind=RunKind.REDRIVE, submit_key=new.submit_key)], now=at(5)
        )
        assert await ids(store, OPEN) == [dead]
        again = await store.submit_runs([new], now=at(6))
        assert again == [SubmitResult(SubmissionVerdict.DUPLICATE, made.run_id)]
        settled = SettledLetter(settlement=Settlement.REDRIVEN, at=at(6), redriven_as=made.run_id)
        assert await store.read_settled([dead]) == [settled]

    async def test_of_redrives_and_discards_at_the_same_time_one_takes_effect(self, store: Store) -> None:
        job = await add_job(store)
        for turn in range(10):
            dead = await bury(store, job)
            by_id = DeadFilter(run_ids=(dead,))
            redriven, discarded = await asyncio.gather(
                store.submit_runs([redrive_of(job, dead)], now=at(5)),
                store.discard_dead("default", by_id, reason="gone", now=at(5), limit=9),
            )
            was_redriven = redriven[0].status is SubmissionVerdict.SUBMITTED
            assert was_redriven is (discarded == []), turn
            [settled] = await store.read_settled([dead])
            assert settled is not None
            assert (settled.redriven_as is not None) is was_redriven

    async def test_a_cancelled_run_is_redriven_without_a_dead_letter(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job)
        await store.cancel_runs([run_id], reason="operator", now=at(1))
        [made] = await store.submit_runs([redrive_of(job, run_id)], now=at(2))
        assert made.status is SubmissionVerdict.SUBMITTED
        assert await store.read_settled([run_id]) == [None]

    async def test_prune_dead_removes_what_was_settled_before(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        dead = [await bury(store, job) for _ in range(4)]
        await prune_all(store, at(3 * 86_400))  # their attempts are kept elsewhere from now on
        for run_id, seconds in zip(dead[:3], (10, 20, 30), strict=True):
            await store.discard_dead(
                "default", DeadFilter(run_ids=(run_id,)), reason="gone", now=at(seconds), limit=1
            )
        assert await store.prune_dead(before=at(10), limit=9) == 0
        assert await store.prune_dead(before=at(25), limit=1) == 1
        assert await store.prune_dead(before=at(25), limit=9) == 1
        assert await store.prune_dead(before=at(25), limit=9) == 0
        left = await store.get_runs(dead)
        assert [run is not None for run in left] == [False, False, True, True]
        kept = [len(await store.list_attempts(run_id)) for run_id in dead]
        assert kept == [0, 0, 1, 1]
        assert (await store.count_runs("default"))[RunState.FAILED] == 2
