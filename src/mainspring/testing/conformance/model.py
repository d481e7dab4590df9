"""The model test: a random walk through the store's verbs, step by step on the store and on `MemoryStore`.

Both must answer alike, and show the same rows every now and then and at the end. Nothing in the walk depends on
what a store may decide for itself: each run has a `ready_at` of its own, each call names a row once, limits do not
bite. A failure names seed and step, and repeats exactly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

import pytest

from mainspring.core import transitions
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import FireRangeKind, Job, JobSpec, LaneKey, RunKind
from mainspring.core.states import RunState
from mainspring.core.transitions import AttemptFacts, Failure, Transition
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, NewRun
from mainspring.ports.store.schedule import NewFireRange
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.model_side import TENANTS, Side
from mainspring.testing.factories import (
    MINUTE,
    START,
    IdSequence,
    make_change,
    make_edit,
    make_fire,
    make_fire_range,
    make_new_job,
    make_new_run,
    make_node,
    make_session,
    make_spec,
)

STEPS = 400
COMPARE_EVERY = 50
T = TypeVar("T")


class AgreesWithMemory:
    """Whatever is done to it, the store answers as the memory store does."""

    __test__ = False

    @pytest.mark.parametrize("seed", range(5))
    async def test_random_walk_agrees_with_the_memory_store(self, store: Store, seed: int) -> None:
        reference = MemoryStore(time=FakeClock().now)
        await Walk(reference, store, seed=seed).run(STEPS)


class Walk:
    """A seeded walk over two stores.

    Args:
        reference: the store that is believed.
        subject: the store that is tested, empty.
        seed: of all decisions of the walk.
    """

    def __init__(self, reference: Store, subject: Store, *, seed: int) -> None:
        self.reference = Side(reference)
        self.subject = Side(subject)
        self.seed = seed
        self.random = Random(seed)
        self.ids = IdSequence(1)
        self.now = START
        self.log: list[str] = []
        self.serial = 0
        self.microseconds = 0
        self.job_ids: list[JobId] = []
        self.seen_jobs: list[Job] = []
        self.seen_epochs: list[dict[int, int]] = [{}]
        self.leases: list[tuple[int, int, int, JobSpec]] = []
        self.lane_keys: dict[LaneKey, None] = {}
        self.numbers: list[int] = []
        self.ends: list[tuple[int, Transition]] = []

    async def run(self, steps: int) -> None:
        """Walk so many steps and compare the whole at the end."""
        actions: dict[Callable[[], Awaitable[None]], int] = {
            self.add_jobs: 4,
            self.edit: 3,
            self.pause: 2,
            self.resume: 3,
            self.delete: 1,
            self.take_shards: 2,
            self.fire: 14,
            self.add_fire_range: 2,
            self.advance_fire_range: 6,
            self.submit: 10,
            self.open_session: 3,
            self.claim: 20,
            self.apply: 16,
            self.repeat_end: 3,
            self.cancel: 4,
            self.expire_runs: 1,
            self.beat: 6,
            self.end_session: 2,
            self.prune: 1,
        }
        await self.open_session()
        await self.add_jobs()
        await self.take_shards()
        for number in range(steps):
            self.now += timedelta(seconds=self.random.choice((0.5, 1, 5, 30)))
            [action] = self.random.choices(list(actions), list(actions.values()))
            self.log.append(f"{number}: {action.__name__}")
            await action()
            if number % COMPARE_EVERY == COMPARE_EVERY - 1:
                await self.compare()
        await self.compare()

    async def agree(self, call: Callable[[Side], Awaitable[T]]) -> T:
        """Do the same on both sides and demand the same answer."""
        expected, answer = await call(self.reference), await call(self.subject)
        assert answer == expected, f"seed {self.seed}, step {self.log[-1]}, after {self.log[-12:-1]}"
        return expected

    async def compare(self) -> None:
        """Demand that both show the same."""
        expected = await self.reference.snapshot(self.job_ids, self.now)
        answer = await self.subject.snapshot(self.job_ids, self.now)
        for name in expected.keys() | answer.keys():
            found, wanted = answer.get(name), expected.get(name)
            assert found == wanted, f"{name}: seed {self.seed}, up to step {self.log[-1]}"

    # -- values ------------------------------------------------------------------------------------------------

    def tick(self) -> datetime:
        """Return an instant right after now that no other run has."""
        self.microseconds += 1
        return self.now + timedelta(microseconds=self.microseconds)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def new_run(self, job: Job, **overrides: Any) -> NewRun:
        """Make a run with a serial number of its own."""
        self.serial += 1
        values: dict[str, Any] = {"payload": str(self.serial).encode(), "due_at": self.tick()}
        if self.chance(0.2):
            values["due_at"] += timedelta(seconds=self.random.randrange(60))
        if self.chance(0.2):
            values["expires_at"] = self.now + timedelta(seconds=self.random.randrange(1, 100), microseconds=1)
        if self.chance(0.1):
            values["skip_reason"] = "misfire"
        run = make_new_run(job, **values | overrides)
        self.lane_keys[run.lane] = None
        return run

    def new_fire_range(self, job: Job, **overrides: Any) -> NewFireRange:
        self.serial += 1
        kind = self.random.choice(list(FireRangeKind))
        values: dict[str, Any] = {
            "kind": kind,
            "from_at": START - MINUTE,
            "reason": f"fire range {self.serial}",
        }
        return make_fire_range(job, **values | overrides)

    async def some_job(self, *, stale: float = 0.15) -> Job | None:
        """Return a job as it is, or as it was at some time."""
        if self.seen_jobs and self.chance(stale):
            return self.random.choice(self.seen_jobs)
        jobs = [job for job in await self.reference.store.get_jobs(self.job_ids) if job is not None]
        if not jobs:
            return None
        job = self.random.choice(jobs)
        self.seen_jobs.append(job)
        return job

    async def some_epochs(self) -> dict[int, int]:
        if self.chance(0.1):
            return self.random.choice(self.seen_epochs)
        return self.seen_epochs[-1]

    async def some_sessions(self, most: int) -> list[int]:
        """Return some sessions, most of them live."""
        live = sorted(await self.reference.counters())
        pool = list(range(len(self.numbers))) if self.chance(0.1) else live
        return self.random.sample(pool, min(len(pool), self.random.randint(1, most)))

    # -- jobs --------------------------------------------------------------------------------------------------

    async def add_jobs(self) -> None:
        jobs = []
        for _ in range(self.random.randint(1, 3)):
            spec = make_spec(
                name=f"name {self.random.randrange(40)}",
                queue=self.random.choice(("default", "mail")),
                poison_limit=self.random.randint(1, 3),
                timeout=timedelta(seconds=self.random.choice((20, 3600))),
            )
            next_fire_at = (
                self.now + timedelta(seconds=self.random.randrange(30)) if self.chance(0.8) else None
            )
            new = make_new_job(spec, tenant=self.random.choice(TENANTS), next_fire_at=next_fire_at)
            jobs.append(replace(new, id=self.ids.new_job_id()))
        await self.agree(lambda side: side.store.add_jobs(jobs, now=self.now))
        self.job_ids += [job.id for job in jobs]

    async def edit(self) -> None:
        job = await self.some_job()
        if job is None:
            return
        name = f"name {self.random.randrange(40)}" if self.chance(0.3) else job.spec.name
        fire_ranges = (self.new_fire_range(job),) if self.chance(0.3) else ()
        next_fire_at = None if job.is_paused else self.now + timedelta(seconds=self.random.randrange(-60, 60))
        spec = make_spec(name=name, queue=job.spec.queue, payload=str(self.serial).encode())
        edit = make_edit(job, spec, next_fire_at=next_fire_at, fire_ranges=fire_ranges)
        await self.agree(lambda side: side.store.edit_jobs([edit], now=self.now))
        await self.learn_fire_ranges(job.id)

    async def pause(self) -> None:
        job = await self.some_job()
        if job is None:
            return
        gap = self.new_fire_range(
            job, kind=FireRangeKind.GAP, from_at=job.next_fire_at or self.now, to_at=None
        )
        change = make_change(job, fire_ranges=(gap,))
        await self.agree(lambda side: side.store.pause_jobs([change], now=self.now))
        await self.learn_fire_ranges(job.id)

    async def resume(self) -> None:
        jobs = [job for job in await self.reference.store.get_jobs(self.job_ids) if job and job.is_paused]
        if not jobs:
            return
        job = self.random.choice(jobs)
        change = make_change(job, next_fire_at=self.now + timedelta(seconds=self.random.randrange(30)))
        if self.chance(0.1):
            change = make_change(job, revision=job.revision - 1)
        await self.agree(lambda side: side.store.resume_jobs([change], now=self.now))

    async def delete(self) -> None:
        job = await self.some_job()
        if job is not None:
            change = make_change(job)
            await self.agree(lambda side: side.store.delete_jobs([change], now=self.now))

    # -- fires and fire ranges ---------------------------------------------------------------------------------------

    async def learn_fire_ranges(self, job_id: JobId) -> None:
        await self.reference.learn_fire_ranges([job_id])
        await self.subject.learn_fire_ranges([job_id])

    async def take_shards(self) -> None:
        node = make_node(self.random.choice(("a", "b")))
        epochs = {lease.shard: lease.epoch for lease in await self.reference.store.read_shards()}
        for shard in epochs:
            if self.chance(0.05):
                epochs[shard] += 1
        await self.agree(lambda side: side.store.beat_node(node, now=self.now))
        taken = await self.agree(lambda side: side.store.take_shards(node.id, epochs, now=self.now))
        self.seen_epochs.append(self.seen_epochs[-1] | taken)
        if self.chance(0.3):
            given_up = {shard: epoch for shard, epoch in self.seen_epochs[-1].items() if self.chance(0.1)}
            await self.agree(lambda side: side.store.release_shards(node.id, given_up, now=self.now))

    async def fire(self) -> None:
        epochs = await self.some_epochs()
        fires = {}
        for _ in range(self.random.randint(1, 4)):
            job = await self.some_job()
            if job is None or job.next_fire_at is None:
                continue
            runs = tuple(
                self.new_run(
                    job, kind=RunKind.SCHEDULED, fire_at=job.next_fire_at + timedelta(milliseconds=number)
                )
                for number in range(self.random.choice((0, 1, 1, 1, 2)))
            )
            fires[job.id] = make_fire(
                job,
                runs=runs,
                next_fire_at=self.now + timedelta(seconds=self.random.randrange(60))
                if self.chance(0.9)
                else None,
                fired_through=job.next_fire_at + timedelta(seconds=1),
                fire_ranges=(self.new_fire_range(job),) if self.chance(0.2) else (),
                skip_if_live=self.chance(0.5),
            )
        await self.agree(lambda side: side.fire(list(fires.values()), epochs, self.now))

    async def add_fire_range(self) -> None:
        job = await self.some_job(stale=0)
        if job is not None:
            fire_range = self.new_fire_range(job)
            await self.agree(lambda side: side.store.add_fire_ranges([fire_range], now=self.now))
            await self.learn_fire_ranges(job.id)

    async def advance_fire_range(self) -> None:
        fire_ranges = await self.agree(lambda side: side.read_fire_ranges())
        if not fire_ranges:
            return
        job_id, _, _, _, _, _, cursor, name, _, _ = self.random.choice(fire_ranges)
        [job] = await self.reference.store.get_jobs([job_id])
        assert job is not None
        step = {
            "job_id": job_id,
            "cursor_from": START if self.chance(0.1) else cursor,
            "cursor_to": self.tick(),
            "runs": tuple(
                self.new_run(job, kind=RunKind.BACKFILL, fire_at=self.tick(), fire_range_id=None)
                for _ in range(self.random.randint(0, 3))
            ),
            "is_done": self.chance(0.3),
            "skip_if_live": self.chance(0.3),
        }
        epochs = await self.some_epochs()
        await self.agree(lambda side: side.advance(name, step, epochs, self.now))

    # -- runs --------------------------------------------------------------------------------------------------

    async def submit(self) -> None:
        runs = []
        for _ in range(self.random.randint(1, 6)):
            job = await self.some_job()
            if job is None:
                return
            key = None
            if self.chance(0.3):
                key = IdempotencyKey(
                    key=f"key {self.random.randrange(4)}",
                    request_hash=self.random.choice((b"a", b"b")),
                    expires_at=self.now + timedelta(seconds=self.random.randrange(1, 300), microseconds=1),
                )
            runs.append(self.new_run(job, submit_key=key, target_key=key and key.key))
        await self.agree(lambda side: side.submit(runs, self.now))

    async def open_session(self) -> None:
        offer = make_session(worker=f"worker {len(self.numbers)}")
        await self.agree(lambda side: side.open_session(offer, self.now))
        self.numbers.append(0)

    async def claim(self) -> None:
        requests = []
        for session in await self.some_sessions(3):
            if not self.chance(0.1) or not self.numbers[session]:
                self.numbers[session] += 1
            keys = list(self.lane_keys)
            self.random.shuffle(keys)
            requests.append(
                {
                    "session": session,
                    "number": self.numbers[session],
                    "keys": keys[: self.random.randint(1, 5)],
                    "limit": self.random.randint(1, 4),
                    "low": self.now - timedelta(seconds=60) if self.chance(0.5) else None,
                    "is_quarantined": self.chance(0.4),
                }
            )
        results = await self.agree(lambda side: side.claim(requests, self.now + timedelta(milliseconds=500)))
        for _, runs in results:
            for serial, token, job_id, version, _, attempt, *_ in runs:
                [spec] = await self.reference.store.read_versions([(job_id, version)])
                assert spec is not None
                self.leases.append((serial, token, attempt, spec))

    async def apply(self) -> None:
        ends: dict[int, Transition] = {}
        for _ in range(self.random.randint(1, 6)):
            if not self.leases:
                return
            serial, token, attempt, spec = self.random.choice(self.leases)
            held = await self.reference.held(serial)
            if (held is None or held.token != token) and self.chance(0.8):
                continue
            if held is None or held.token != token:
                facts = AttemptFacts(
                    run_id=RunId(0),
                    token=token,
                    session_id=SessionId(0),
                    attempt=attempt,
                    is_quarantined=False,
                    quarantined_crashes=0,
                    is_cancel_requested=False,
                )
            else:
                facts = AttemptFacts(
                    run_id=RunId(0),
                    token=token,
                    session_id=SessionId(0),
                    attempt=held.attempt,
                    is_quarantined=held.is_quarantined,
                    quarantined_crashes=held.quarantined_crashes,
                    is_cancel_requested=held.is_cancel_requested and self.chance(0.5),
                )
            ends[serial] = self._end(facts, spec)
        children = []
        job = await self.some_job(stale=0)
        if job is not None and self.chance(0.5):
            children = [(serial, self.new_run(job, kind=RunKind.CHILD)) for serial in list(ends)[:2]]
        batch = list(ends.items())
        await self.agree(lambda side: side.apply(batch, children, self.now))
        self.ends += batch

    def _end(self, facts: AttemptFacts, spec: JobSpec) -> Transition:
        kind = self.random.choice(
            ("succeeded", "succeeded", "failed", "lost", "handed_back", "snoozed", "cancelled")
        )
        instant = self.tick()
        if kind == "succeeded":
            return transitions.succeeded(facts.run_id, facts.token, facts.session_id, b"1", "out")
        if kind == "failed":
            failure = Failure(error="boom", is_retryable=self.chance(0.8), is_timeout=self.chance(0.2))
            return transitions.failed(facts, spec, failure, now=instant, random=self.random.random)
        if kind == "lost":
            return transitions.lost(facts, spec, now=instant)
        if kind == "handed_back":
            return transitions.handed_back(facts, spec, now=instant, was_started=True)
        if kind == "snoozed":
            return transitions.snoozed(facts, until=instant)
        return transitions.cancelled(facts, error="stopped")

    async def repeat_end(self) -> None:
        if self.ends:
            end = self.random.choice(self.ends[-30:])
            await self.agree(lambda side: side.apply([end], [], self.now))

    async def cancel(self) -> None:
        if self.reference.run_ids:
            known = list(self.reference.run_ids)[-40:]
            serials = self.random.sample(known, min(len(known), 3))
            await self.agree(lambda side: side.cancel(serials, self.now))

    async def expire_runs(self) -> None:
        await self.agree(lambda side: side.expire_runs(self.now))

    # -- sessions and upkeep -----------------------------------------------------------------------------------

    async def beat(self) -> None:
        beats = []
        for session in await self.some_sessions(2):
            held = await self.reference.store.get_runs(list(self.reference.serials))
            mine = [
                (self.reference.serials[run.id], run.token)
                for run in held
                if run is not None
                and run.state is RunState.RUNNING
                and run.session_id == self.reference.sessions[session]
                and self.chance(0.7)
            ]
            stray = [(serial, token) for serial, token, _, _ in self.leases[-3:] if self.chance(0.3)]
            last = self.numbers[session]
            answered = self.random.choice((None, last, max(last - 1, 0)))
            beats.append((session, list(dict.fromkeys(mine + stray)), answered))
        await self.agree(lambda side: side.beat(beats, self.now))

    async def end_session(self) -> None:
        counters: dict[int, int] = await self.agree(lambda side: side.counters())
        if len(counters) < 2:
            return
        session = self.random.choice(sorted(counters))
        if self.chance(0.4):
            await self.agree(lambda side: side.store.close_sessions([side.sessions[session]], now=self.now))
        else:
            judged = [(session, counters[session] - self.chance(0.2))]
            await self.agree(lambda side: side.expire_sessions(judged, self.now))

    async def prune(self) -> None:
        past = self.now - timedelta(seconds=60)
        await self.agree(lambda side: side.store.prune_keys(now=self.now, limit=1000))
        await self.agree(lambda side: side.store.prune_sessions(before=past, limit=1000))
        await self.agree(lambda side: side.store.prune_lanes(limit=1000))
