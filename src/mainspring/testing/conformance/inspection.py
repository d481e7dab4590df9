"""Inspection of runs: pages that stay in order while runs move, newest runs, counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from mainspring.core.backfill import Section
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import BackfillId, JobId, RunId, SessionId
from mainspring.core.model import Priority, RunKind
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import ClockChange
from mainspring.testing.conformance import backfills
from mainspring.testing.conformance.completion import UNKNOWN_RUN, fail, snooze, succeed
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    make_spec,
    own_shards,
    read_held,
    running_run,
    submit,
)

_OF_NO_RUN: list[dict[str, Any]] = [
    {"queue": "nobody"},
    {"kind": RunKind.SCHEDULED},
    {"kind": RunKind.BACKFILL, "is_brief": True},
    {"error": "none has this"},
]


class Inspection:
    """Runs are found by id, live or finished, and listed the newest first."""

    __test__ = False

    async def test_get_runs_answers_in_order_wherever_they_are(self, store: Store) -> None:
        job = await add_job(store)
        done, dead, live = [await running_run(store, job) for _ in range(3)]
        await store.apply([succeed(done), fail(dead, now=1, retry=False)], now=at(1))
        run_ids = [live.run_id, UNKNOWN_RUN, dead.run_id, done.run_id]
        found = [run and (run.id, run.state) for run in await store.get_runs(run_ids)]
        assert found == [
            (live.run_id, RunState.RUNNING),
            None,
            (dead.run_id, RunState.FAILED),
            (done.run_id, RunState.SUCCEEDED),
        ]

    async def test_list_runs_gives_the_newest_first_across_states(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(3)]
        await store.apply([fail(held[0], now=1, retry=False), succeed(held[2])], now=at(1))
        [skipped] = await submit(store, job, skip_reason="misfire")
        [waiting] = await submit(store, job)
        expected = [waiting, skipped, *(run.run_id for run in reversed(held))]
        assert [run.id for run in await store.list_runs("default")] == expected

    async def test_list_runs_filters(self, store: Store) -> None:
        one, other = await add_job(store), await add_job(store)
        foreign = await add_job(store, tenant="foreign")
        [done] = [await running_run(store, one)]
        await store.apply([succeed(done)], now=at(1))
        [mine] = await submit(store, one)
        [others] = await submit(store, other)
        [theirs] = await submit(store, foreign)

        async def listed(tenant: str = "default", **filters: Any) -> list[RunId]:
            return [run.id for run in await store.list_runs(tenant, **filters)]

        assert await listed() == [others, mine, done.run_id]
        assert await listed("foreign") == [theirs]
        assert await listed("nobody") == []
        assert await listed(job_id=one.id) == [mine, done.run_id]
        assert await listed("foreign", job_id=one.id) == []
        assert await listed(state=RunState.PENDING) == [others, mine]
        assert await listed(job_id=one.id, state=RunState.SUCCEEDED) == [done.run_id]
        assert await listed(state=RunState.FAILED) == []
        assert await listed(job_id=UNKNOWN) == []

    async def test_each_state_is_found_by_every_filter(self, store: Store) -> None:
        job, other = await add_job(store, make_spec(queue="mail")), await add_job(store)
        found: dict[RunState, list[RunId]] = {}
        for each in (job, other):
            held = [await running_run(store, each) for _ in range(4)]
            ends = [succeed(held[0]), fail(held[1], now=1, retry=False), snooze(held[2], until=50)]
            await store.apply(ends, now=at(1))
            [skipped] = await submit(store, each, skip_reason="misfire")
            [cancelled] = await submit(store, each)
            await store.cancel_runs([cancelled], reason="operator", now=at(1))
            [waiting] = await submit(store, each, due_at=at(1000))
            ids = [*(run.run_id for run in held), skipped, cancelled, waiting]
            states = ["SUCCEEDED", "FAILED", "RETRYING", "RUNNING", "SKIPPED", "CANCELLED", "PENDING"]
            for state, run_id in zip(states, ids, strict=True):
                found.setdefault(RunState(state), []).append(run_id)
        for state, (mine, others) in found.items():
            filters: list[dict[str, Any]] = [
                {"job_id": job.id},
                {"queue": "mail"},
                {"job_id": job.id, "queue": "mail", "kind": RunKind.MANUAL},
                {"before": others, "kind": RunKind.MANUAL, "is_brief": True},
                {"job_id": job.id, "since": START, "until": at(1), "lowest": mine, "before": others},
            ]
            for chosen in filters:
                [run] = await store.list_runs("default", state=state, **chosen)
                assert (run.id, run.state) == (mine, state), chosen
            nothing: list[dict[str, Any]] = [
                {"job_id": job.id, "queue": "default"},
                {"before": mine},
                {"lowest": RunId(others + 1)},
                {"since": at(1)},
                {"until": START},
                *_OF_NO_RUN,
            ]
            for chosen in nothing:
                assert await store.list_runs("default", state=state, **chosen) == [], chosen
            assert [run.id for run in await store.list_runs("default", state=state)] == [others, mine]
        assert await store.list_runs("default", state=RunState.BLOCKED) == []
        assert await store.list_runs("default", queue="nobody") == []

    async def test_runs_that_failed_are_found_by_how_their_error_begins(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(4)]
        errors = ["ValueError: 100%_ of it\nmore", "ValueError: two", "TimeoutError"]
        ends = [fail(run, now=1, error=error, retry=False) for run, error in zip(held, errors, strict=False)]
        await store.apply(ends, now=at(1))
        for job_id in (None, job.id):
            for error, expected in (
                ("ValueError", [1, 0]),
                ("ValueError: 100%_ of it\n", [0]),
                ("valueerror", []),
                ("%", []),
                ("", [2, 1, 0]),
            ):
                for state in (RunState.FAILED, None):
                    found = await store.list_runs("default", job_id=job_id, state=state, error=error)
                    assert [run.id for run in found] == [held[index].run_id for index in expected]
            assert await store.list_runs("default", job_id=job_id, state=RunState.RUNNING, error="") == []

    async def test_brief_runs_lack_payload_result_and_output_only(self, store: Store) -> None:
        job = await add_job(store)
        done, dead = await running_run(store, job), await running_run(store, job)
        await store.apply([succeed(done), fail(dead, now=1, retry=False)], now=at(1))
        await submit(store, job, payload=b"[1]")
        whole = await store.list_runs("default")
        assert [(run.payload, run.result, run.output) for run in whole] == [
            (b"[1]", None, None),
            (None, None, "said something"),
            (None, b"42", "said something"),
        ]
        expected = [replace(run, payload=None, result=None, output=None) for run in whole]
        assert await store.list_runs("default", is_brief=True) == expected
        assert await store.list_runs("default", job_id=job.id, is_brief=True) == expected
        for run in expected:
            assert await store.list_runs("default", state=run.state, is_brief=True) == [run]

    async def test_jobs_have_names_after_their_end(self, store: Store) -> None:
        first, gone = [await add_job(store, make_spec(name=name)) for name in ("first", "gone")]
        change = ClockChange(job_id=gone.id, revision=gone.revision, fire_at=None)
        assert await store.delete_jobs([change], now=at(1)) == [ChangeVerdict.DONE]
        names = await store.read_job_names([gone.id, UNKNOWN, first.id])
        assert names == {first.id: "first", gone.id: "gone"}
        assert await store.read_job_names([]) == {}

    async def test_sessions_are_paged(self, store: Store) -> None:
        sessions = [await add_session(store) for _ in range(5)]
        await store.close_sessions([sessions[1]], now=at(1))
        live = [session for session in sessions if session != sessions[1]]
        first = await store.page_sessions(limit=3)
        assert [session.id for session in first] == live[:3]
        rest = await store.page_sessions(after=first[-1].id, limit=3)
        assert [session.id for session in rest] == live[3:]
        assert await store.page_sessions(after=live[-1]) == []
        assert [*first, *rest] == sorted(await store.list_sessions(), key=lambda session: session.id)

    async def test_list_runs_by_ids_and_creation(self, store: Store) -> None:
        job = await add_job(store)
        ids = [(await submit(store, job, now=at(second)))[0] for second in range(5)]
        for filters in ({"lowest": ids[1], "before": ids[3]}, {"since": at(1), "until": at(3)}):
            for job_id in (None, job.id):
                page = await store.list_runs("default", job_id=job_id, **filters)
                assert [run.id for run in page] == [ids[2], ids[1]]

    async def test_bounds_and_creations_are_those_of_all_runs(self, store: Store) -> None:
        assert await store.read_run_bounds() is None
        assert await store.read_creations([RunId(0)]) == [None]
        job = await add_job(store)
        done, dead = await running_run(store, job), await running_run(store, job)
        [waiting] = await submit(store, job, now=at(5))
        [last] = await submit(store, await add_job(store, tenant="foreign"), now=at(6), skip_reason="misfire")
        await store.apply([succeed(done), fail(dead, now=1, retry=False)], now=at(7))
        assert await store.read_run_bounds() == (done.run_id, last)
        asked = [RunId(0), done.run_id, RunId(dead.run_id + 1), waiting, RunId(waiting + 1), RunId(last + 1)]
        assert await store.read_creations(asked) == [START, START, at(5), at(5), at(6), None]
        assert await store.read_creations([]) == []

    async def test_pages_are_stable_while_runs_move_and_arrive(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, 9)
        session_id = await add_session(store)
        leased = await claim(store, session_id, limit=9)
        held = [await read_held(store, run.run_id) for run in leased]
        ends = [
            [succeed(held[0]), fail(held[4], now=1, retry=False)],
            [succeed(held[3]), snooze(held[8], until=50)],
            [succeed(held[7])],
        ]
        seen: list[RunId] = []
        before = None
        for batch in ends:
            page = await store.list_runs("default", before=before, limit=3)
            seen += [run.id for run in page]
            before = seen[-1]
            await store.apply(batch, now=at(1))
            await submit(store, job)
        assert seen == run_ids[::-1]
        assert await store.list_runs("default", before=before, limit=3) == []

    async def test_pages_of_one_state_and_job(self, store: Store) -> None:
        job, noise = await add_job(store), await add_job(store)
        run_ids = []
        for _ in range(5):
            run_ids += await submit(store, job, skip_reason="misfire")
            await submit(store, noise, skip_reason="misfire")
            await submit(store, job)
        seen: list[RunId] = []
        before = None
        while page := await store.list_runs(
            "default", job_id=job.id, state=RunState.SKIPPED, before=before, limit=2
        ):
            seen += [run.id for run in page]
            before = seen[-1]
        assert seen == run_ids[::-1]

    async def test_count_runs_counts_each_state(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(4)]
        ends = [succeed(held[0]), fail(held[1], now=1, retry=False), snooze(held[2], until=50)]
        await store.apply(ends, now=at(1))
        await submit(store, job, 2)
        await submit(store, job, skip_reason="misfire")
        [cancelled] = await submit(store, job)
        await store.cancel_runs([cancelled], reason="operator", now=at(1))
        counts = await store.count_runs("default")
        assert {state: count for state, count in counts.items() if count} == {
            RunState.SUCCEEDED: 1,
            RunState.FAILED: 1,
            RunState.RETRYING: 1,
            RunState.RUNNING: 1,
            RunState.PENDING: 2,
            RunState.SKIPPED: 1,
            RunState.CANCELLED: 1,
        }
        assert not any((await store.count_runs("nobody")).values())


class NewestRuns:
    """A job's status is that of its newest run that is due or has started."""

    __test__ = False

    async def _newest(self, store: Store, job_id: JobId, *, now: float) -> RunId | None:
        [run] = await store.newest_runs([job_id], now=at(now))
        return run.id if run is not None else None

    async def test_job_without_runs_has_none(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store)
        [run_id] = await submit(store, other)
        newest = await store.newest_runs([job.id, UNKNOWN, other.id], now=START)
        assert [run and run.id for run in newest] == [None, None, run_id]

    async def test_run_that_is_not_due_does_not_count(self, store: Store) -> None:
        job = await add_job(store)
        [due] = await submit(store, job)
        [later] = await submit(store, job, due_at=at(60))
        assert await self._newest(store, job.id, now=59) == due
        assert await self._newest(store, job.id, now=60) == later

    async def test_run_that_was_started_counts_whatever_the_clock_says(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, due_at=at(60))
        assert await claim(store, await add_session(store), now=at(60))
        assert await self._newest(store, job.id, now=59) == run_id

    async def test_newest_is_found_among_live_finished_and_dead(self, store: Store) -> None:
        job = await add_job(store)
        first, second, third = [await running_run(store, job) for _ in range(3)]
        await store.apply([succeed(second)], now=at(1))
        assert await self._newest(store, job.id, now=2) == third.run_id
        await store.apply([fail(third, now=3, retry=False)], now=at(3))
        assert await self._newest(store, job.id, now=4) == third.run_id
        await store.apply([succeed(first)], now=at(5))
        assert await self._newest(store, job.id, now=6) == third.run_id

    async def test_run_that_waits_for_a_retry_counts(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, skip_reason="misfire")
        held = await running_run(store, job)
        await store.apply([snooze(held, until=1000)], now=at(1))
        assert await self._newest(store, job.id, now=2) == held.run_id


class RunsOfBackfills:
    """The runs of one backfill can be listed: waiting and ended ones, of all its sections."""

    __test__ = False

    async def test_its_runs_are_listed_and_no_others(self, store: Store) -> None:
        job, epochs = await add_job(store), await own_shards(store)
        sections = (Section(1, at(-600), at(-300)), Section(1, at(-299), at(-1)))
        first = await backfills.add_backfill(store, job, sections=sections)
        other = await backfills.add_backfill(store, job, 2, from_at=at(-900), to_at=at(-700))
        await submit(store, job)
        made = []
        for step in (
            backfills.make_step(job, first, -500, -400, is_section_done=True),
            backfills.make_step(job, other, -800),
        ):
            [result] = await store.advance_backfills([step], epochs=epochs, now=at(1))
            made.append(list(result.run_ids))
        second = await backfills.read_work(store, first.id)
        step = backfills.make_step(job, second, -200)
        [result] = await store.advance_backfills([step], epochs=epochs, now=at(2))
        await store.cancel_runs(made[0][:1], reason="cancelled", now=at(3))
        mine = [*result.run_ids, *reversed(made[0])]
        wanted: dict[str, Any] = {"job_id": job.id, "backfill_id": first.id}
        assert await listed_ids(store, **wanted) == mine
        assert await listed_ids(store, **wanted, state=RunState.CANCELLED) == made[0][:1]
        assert await listed_ids(store, **wanted, state=RunState.PENDING) == mine[:2]
        assert await listed_ids(store, **wanted, before=mine[0], limit=1) == mine[1:2]
        assert await listed_ids(store, job_id=job.id, backfill_id=other.id) == made[1]
        assert await listed_ids(store, backfill_id=first.id) == mine
        unknown = BackfillId(UUID(int=5))
        assert await listed_ids(store, job_id=job.id, backfill_id=unknown) == []

    async def test_those_under_way_are_found_by_their_session(self, store: Store) -> None:
        job, epochs = await add_job(store), await own_shards(store)
        work = await backfills.add_backfill(store, job)
        step = backfills.make_step(job, work, -500, -400)
        await store.advance_backfills([step], epochs=epochs, now=at(1))
        await submit(store, job, now=at(1))
        session_id = await add_session(store)
        held = await claim(store, session_id, now=at(2), limit=3)
        assert len(held) == 3
        wanted: dict[str, Any] = {"backfill_id": work.id, "state": RunState.RUNNING}
        assert len(await listed_ids(store, **wanted)) == 2
        assert len(await listed_ids(store, **wanted, job_id=job.id)) == 2


async def listed_ids(store: Store, **filters: Any) -> list[RunId]:
    """Return the ids of a list."""
    return [run.id for run in await store.list_runs("default", **filters)]


class Overview:
    """What a glance at the cluster needs: what sessions hold, jobs by state, fires that are overdue."""

    __test__ = False

    async def test_held_runs_are_counted_by_session(self, store: Store) -> None:
        held = await running_run(store, await add_job(store))
        busy, idle = held.session_id, await add_session(store)
        assert await store.count_held([idle, busy, SessionId(10**9), busy]) == [0, 1, 0, 1]
        await store.apply([succeed(held)], now=at(1))
        assert await store.count_held([busy]) == [0]
        assert await store.count_held([]) == []

    async def test_job_states_are_counted_up_to_a_limit(self, store: Store) -> None:
        jobs = [await add_job(store) for _ in range(3)]
        await add_job(store, tenant="foreign")
        change = ClockChange(job_id=jobs[0].id, revision=jobs[0].revision, fire_at=None)
        assert await store.pause_jobs([change], now=at(1)) == [ChangeVerdict.DONE]
        assert await store.count_job_states("default", limit=10) == (2, 1)
        assert sum(await store.count_job_states("default", limit=2)) == 2
        assert await store.count_job_states("nobody", limit=10) == (0, 0)

    async def test_overdue_fires_are_counted_in_every_tier(self, store: Store) -> None:
        assert await store.count_overdue(before=at(100), limit=10) == (0, None)
        for number, priority in enumerate(Priority):
            await add_job(store, make_spec(priority=priority), next_fire_at=at(10 + number))
        await add_job(store)  # without a fire
        assert await store.count_overdue(before=at(10), limit=10) == (0, None)
        assert await store.count_overdue(before=at(12), limit=10) == (2, at(10))
        assert await store.count_overdue(before=at(100), limit=10) == (3, at(10))
        assert (await store.count_overdue(before=at(100), limit=2)).clocks == 2
