"""Edge cases: precision, sizes, odd text, empty and very long lists, and the atomicity of batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from mainspring.core import outcomes
from mainspring.core.admission import SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.ids import LaneId, SessionId
from mainspring.core.model import INLINE_LIMIT, LaneKey, Priority
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.jobs import AddResult
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.ports.store.schedule import FireStatus
from mainspring.testing.conformance.completion import APPLIED, fail, read_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    lane_of,
    make_change,
    make_fire,
    make_new_job,
    make_new_run,
    make_spec,
    own_shards,
    read_job,
    running_run,
    submit,
)

ODD_TEXT = "Grüße, 你好, 🛠️, \"quotes\", 'single', back\\slash, %s :name $1 ?, tab\t, line\nbreak, \u202eright to left"
MANY = 10_000


class Precision:
    """Instants come back as they were stored, to the precision that the store claims, aware and in UTC."""

    __test__ = False

    async def _round_trip(self, store: Store, instant: datetime) -> datetime:
        job = await add_job(store, next_fire_at=instant)
        assert job.next_fire_at is not None
        [due] = await store.read_due(range(256), until=instant + timedelta(seconds=1), limit=1)
        assert due.fire_at == job.next_fire_at
        return job.next_fire_at

    async def test_store_claims_microseconds_or_says_less(self, store: Store) -> None:
        assert timedelta(0) < store.capabilities.time_precision <= timedelta(milliseconds=1)

    async def test_instants_keep_their_precision(self, store: Store) -> None:
        for microsecond in (1, 999_999, 123_457):
            instant = START.replace(microsecond=microsecond)
            kept = await self._round_trip(store, instant)
            assert abs(kept - instant) < store.capabilities.time_precision
            job = (await store.list_jobs("default"))[-1]
            await store.delete_jobs([make_change(job)], now=START)

    async def test_instants_far_away_are_kept(self, store: Store) -> None:
        job = await add_job(store)
        for instant in (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)):
            [run_id] = await submit(store, job, due_at=instant)
            assert (await read_run(store, run_id)).due_at == instant
        distant = await add_job(store, next_fire_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
        assert distant.next_fire_at is not None
        assert distant.next_fire_at.year == 9999

    async def test_instants_come_back_in_utc(self, store: Store) -> None:
        kept = await self._round_trip(store, START)
        assert kept == START
        assert kept.utcoffset() == timedelta(0)

    async def test_read_time_is_aware_utc(self, store: Store) -> None:
        first, second = await store.read_time(), await store.read_time()
        assert first.utcoffset() == timedelta(0)
        assert first <= second


class SizesAndText:
    """Payloads, results and text come back byte by byte."""

    __test__ = False

    async def test_payloads_of_all_bytes_and_sizes(self, store: Store) -> None:
        job = await add_job(store)
        payloads = [None, b"", b"null", bytes(range(256)) * (INLINE_LIMIT // 256), b"x" * (INLINE_LIMIT - 1)]
        session_id = await add_session(store)
        for second, payload in enumerate(payloads):
            [run_id] = await submit(store, job, payload=payload)
            [leased] = await claim(store, session_id, now=at(second))
            assert leased.payload == payload
            await store.apply([outcomes.succeeded(run_id, leased.token, session_id, payload)], now=at(second))
            run = await read_run(store, run_id)
            assert (run.payload, run.result) == (payload, payload)

    async def test_definitions_keep_a_full_payload(self, store: Store) -> None:
        payload = b'"' + b"y" * (INLINE_LIMIT - 2) + b'"'
        job = await add_job(store, make_spec(payload=payload))
        assert (await read_job(store, job.id)).spec.payload == payload

    async def test_odd_text_everywhere(self, store: Store) -> None:
        job = await add_job(store, make_spec(name=ODD_TEXT), tenant=ODD_TEXT)
        lane = LaneKey(ODD_TEXT, ODD_TEXT, ODD_TEXT, Priority.LOW)
        session_id = await add_session(store, worker=ODD_TEXT, host=ODD_TEXT, labels=(ODD_TEXT, ""))
        [run_id] = await submit(store, job, lane=lane, target_key=ODD_TEXT)
        [leased] = await claim(store, session_id)
        assert (leased.tenant, leased.target_key) == (ODD_TEXT, ODD_TEXT)
        held = (await store.read_held([run_id]))[0]
        assert held is not None
        await store.apply([fail(held, now=1, error=ODD_TEXT, retry=False)], now=at(1))
        run = await read_run(store, run_id)
        assert (run.lane, run.tenant, run.error) == (lane, ODD_TEXT, ODD_TEXT)
        [attempt] = await store.list_attempts(run_id)
        assert (attempt.worker, attempt.error) == (ODD_TEXT, ODD_TEXT)
        [found] = await store.find_jobs(ODD_TEXT, [ODD_TEXT])
        assert found == job
        [session] = await store.list_sessions()
        assert session.labels == (ODD_TEXT, "")

    async def test_long_text(self, store: Store) -> None:
        held = await running_run(store)
        long = "ö" * 100_000
        await store.apply(
            [outcomes.succeeded(held.run_id, held.token, held.session_id, None, long)], now=at(1)
        )
        assert (await read_run(store, held.run_id)).output == long

    async def test_names_differ_by_case_and_form(self, store: Store) -> None:
        names = ["name", "Name", "name ", "na\u0301me", "n\u00e1me"]
        jobs = [make_new_job(make_spec(name=name)) for name in names]
        assert await store.add_jobs(jobs, now=START) == [AddResult.ADDED] * len(names)
        found = await store.find_jobs("default", names)
        assert [job and job.id for job in found] == [job.id for job in jobs]


class EmptyLists:
    """Nothing in, nothing out."""

    __test__ = False

    async def test_every_verb_takes_an_empty_list(self, store: Store) -> None:
        assert await store.add_jobs([], now=START) == []
        assert await store.edit_jobs([], now=START) == []
        assert await store.pause_jobs([], now=START) == []
        assert await store.resume_jobs([], now=START) == []
        assert await store.delete_jobs([], now=START) == []
        assert await store.get_jobs([]) == []
        assert await store.find_jobs("default", []) == []
        assert await store.read_versions([]) == []
        assert await store.read_due([], until=START, limit=10) == []
        assert await store.record_fires([], epochs={}, now=START) == []
        await store.add_fire_ranges([], now=START)
        assert await store.read_fire_ranges([], limit=10) == []
        assert await store.advance_fire_ranges([], epochs={}, now=START) == []
        assert await store.submit_runs([], now=START) == []
        assert await store.claim_runs([], now=START) == []
        assert await store.apply([], now=START) == []
        assert await store.cancel_runs([], reason="none", now=START) == []
        assert await store.read_held([]) == []
        assert await store.get_runs([]) == []
        assert await store.newest_runs([], now=START) == []
        assert await store.add_sessions([], now=START) == []
        assert await store.beat_sessions([], now=START) == []
        await store.close_sessions([], now=START)
        assert await store.expire_sessions([], now=START) == []
        assert await store.take_shards("nobody", {}, now=START) == {}
        assert await store.expire_nodes([], now=START) == []
        await store.release_shards("nobody", {}, now=START)

    async def test_every_read_of_an_empty_store_is_empty(self, store: Store) -> None:
        assert await store.list_jobs("default") == []
        assert await store.list_runs("default") == []
        assert not any((await store.count_runs("default")).values())
        assert await store.read_lanes([]) == []
        assert await store.read_lanes(["default"]) == []
        assert await store.list_sessions() == []
        assert await store.list_orphans(limit=10) == []
        assert await store.list_overdue(now=START, limit=10) == []
        assert await store.expire_runs(now=START, limit=10) == []
        assert await store.prune_history(before=START, limit=10) == 0
        assert await store.prune_keys(now=START, limit=10) == 0
        assert await store.prune_sessions(before=START, limit=10) == 0
        assert await store.prune_lanes(limit=10) == 0


class LargeBatches:
    """Ten thousand rows go through each verb of the hot path in one call."""

    __test__ = False

    async def test_ten_thousand_runs_from_submit_to_history(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, MANY)
        assert len(set(run_ids)) == MANY
        session_id = await add_session(store)
        leased = await claim(store, session_id, limit=MANY)
        assert sorted(run.run_id for run in leased) == run_ids
        ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
        assert await store.apply(ends, now=at(1)) == [ApplyResult.APPLIED] * MANY
        assert await store.count_runs("default") == {RunState.SUCCEEDED: MANY}
        assert all(await store.get_runs(run_ids))

    async def test_ten_thousand_jobs_and_fires(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [make_new_job(next_fire_at=at(60)) for _ in range(MANY)]
        assert await store.add_jobs(jobs, now=START) == [AddResult.ADDED] * MANY
        read = await store.get_jobs([job.id for job in jobs])
        fires = [make_fire(job) for job in read if job is not None]
        results = await store.record_fires(fires, epochs=epochs, now=at(60))
        assert {(result.status, len(result.run_ids)) for result in results} == {(FireStatus.FIRED, 1)}
        due = await store.read_due(range(256), until=at(120), limit=2 * MANY)
        assert len(due) == MANY

    async def test_ten_thousand_cancels(self, store: Store) -> None:
        run_ids = await submit(store, await add_job(store), MANY, due_at=at(5))
        results = await store.cancel_runs(run_ids, reason="operator", now=at(1))
        assert results == [CancelVerdict.CANCELLED] * MANY


class Atomicity:
    """A call whose caller is cancelled in the middle takes effect as a whole, or not at all."""

    __test__ = False

    async def _stop_after(self, steps: int, start: Callable[[], Awaitable[object]]) -> None:
        """Start a call, and cancel it after this many turns of the event loop."""
        task = asyncio.ensure_future(start())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # it had ended; its error must not be lost

    async def test_stopped_submit_leaves_a_whole_batch_or_none(self, store: Store) -> None:
        job = await add_job(store)
        runs = [make_new_run(job) for _ in range(20)]
        for steps in range(8):
            await self._stop_after(steps, lambda: store.submit_runs(runs, now=START))
            assert sum((await store.count_runs("default")).values()) % 20 == 0
        results = await store.submit_runs(runs, now=START)
        assert [result.status for result in results] == [SubmissionVerdict.SUBMITTED] * 20

    async def test_stopped_apply_ends_all_runs_or_none(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        for steps in range(8):
            await submit(store, job, 10)
            leased = await claim(store, session_id, lanes=[await self._lane(store, lane_of(job))], limit=10)
            ends: list[Transition] = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
            before = (await store.count_runs("default")).get(RunState.SUCCEEDED, 0)
            await self._stop_after(steps, lambda: store.apply(ends, now=START))  # noqa: B023
            after = (await store.count_runs("default")).get(RunState.SUCCEEDED, 0)
            assert after - before in {0, 10}
            # A repeat, as a worker would send it, is APPLIED either way.
            assert await store.apply(ends, now=START) == [ApplyResult.APPLIED] * 10

    async def test_stopped_claim_hides_no_lease(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, 40)
        lanes = await all_lanes(store)
        for steps in range(8):
            session_id = await add_session(store)
            await self._stop_after(steps, lambda: claim(store, session_id, lanes=lanes, limit=5))  # noqa: B023
            await store.close_sessions([session_id], now=START)
        orphans = [held.run_id for held in await store.list_orphans(limit=100)]
        assert len(orphans) % 5 == 0
        rest = await claim(store, await add_session(store), lanes=lanes, limit=100)
        assert sorted(orphans + [run.run_id for run in rest]) == run_ids

    async def test_stopped_fire_moves_the_clock_with_its_run_or_not_at_all(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        epochs = await own_shards(store)
        for steps in range(8):
            job = await read_job(store, job.id)
            fire = make_fire(job)
            await self._stop_after(steps, lambda: store.record_fires([fire], epochs=epochs, now=at(60)))  # noqa: B023
            await store.record_fires([fire], epochs=epochs, now=at(60))
        runs = await store.list_runs("default")
        instants = sorted(run.fire_at for run in runs if run.fire_at is not None)
        assert instants == [at(60 * number) for number in range(1, 9)]

    async def _lane(self, store: Store, key: LaneKey) -> LaneId:
        [lane] = [lane for lane in await store.read_lanes([]) if lane.key == key]
        return lane.id


class OppositeLockOrdersLaw6:
    """Batches that name the same rows in opposite orders neither deadlock nor lose a step."""

    __test__ = False

    async def test_opposite_applies(self, store: Store) -> None:
        job = await add_job(store)
        for _ in range(5):
            await submit(store, job, 50)
            session_id = await add_session(store)
            leased = await claim(store, session_id, limit=50)
            ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
            answers = await asyncio.gather(store.apply(ends, now=START), store.apply(ends[::-1], now=START))
            assert list(answers) == [[ApplyResult.APPLIED] * 50] * 2

    async def test_opposite_cancels_and_applies(self, store: Store) -> None:
        job = await add_job(store)
        for _ in range(5):
            await submit(store, job, 50)
            session_id = await add_session(store)
            leased = await claim(store, session_id, limit=50)
            ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
            run_ids = [run.run_id for run in leased]
            cancels, applied = await asyncio.gather(
                store.cancel_runs(run_ids[::-1], reason="operator", now=START), store.apply(ends, now=START)
            )
            assert applied == [ApplyResult.APPLIED] * 50
            assert set(cancels) <= {CancelVerdict.REQUESTED, CancelVerdict.FINISHED}
        assert await store.count_runs("default") == {RunState.SUCCEEDED: 250}

    async def test_opposite_fires(self, store: Store) -> None:
        epochs = await own_shards(store)
        jobs = [await add_job(store, next_fire_at=at(60)) for _ in range(30)]
        fires = [make_fire(job) for job in jobs]
        forth, back = await asyncio.gather(
            store.record_fires(fires, epochs=epochs, now=at(60)),
            store.record_fires(fires[::-1], epochs=epochs, now=at(60)),
        )
        for one, other in zip(forth, back[::-1], strict=True):
            assert {one.status, other.status} == {FireStatus.FIRED, FireStatus.LOST}

    async def test_opposite_submits_of_the_same_keys_and_lanes(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(queue=f"q{number}")) for number in range(20)]
        runs = [
            make_new_run(
                job, submit_key=IdempotencyKey(key=f"k{number}", request_hash=b"", expires_at=at(60))
            )
            for number, job in enumerate(jobs)
        ]
        await asyncio.gather(store.submit_runs(runs, now=START), store.submit_runs(runs[::-1], now=START))
        assert len(await store.list_runs("default")) == 20
        assert len(await store.read_lanes([])) == 20

    async def test_everything_at_once(self, store: Store) -> None:
        job = await add_job(store)
        sessions = [await add_session(store) for _ in range(4)]

        async def work(session_id: SessionId) -> None:
            for _ in range(10):
                leased = await claim(store, session_id, limit=5)
                ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
                assert await store.apply(ends[::-1], now=START) == [ApplyResult.APPLIED] * len(ends)

        async def produce() -> None:
            for _ in range(10):
                run_ids = await submit(store, job, 10)
                await store.cancel_runs(run_ids[::-3], reason="operator", now=START)
                await store.prune_lanes(limit=10)
                await store.expire_runs(now=START, limit=10)

        await asyncio.gather(produce(), *(work(session_id) for session_id in sessions))
        session_id = sessions[0]
        while leased := await claim(store, session_id, limit=50):
            ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]
            assert await store.apply(ends, now=START) == APPLIED * len(ends)
        finished = await store.list_runs("default", limit=1000)
        assert len(finished) == 100
        assert {run.state for run in finished} <= {RunState.SUCCEEDED, RunState.CANCELLED}
