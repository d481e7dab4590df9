"""The moves of the model walk that change jobs, their clocks and their fire ranges."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mainspring.core.clocks import NextFire
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, Overlap, Priority, RunKind
from mainspring.core.triggers import Once
from mainspring.testing.conformance.model_side import TENANTS
from mainspring.testing.conformance.model_walk import WalkBase
from mainspring.testing.factories import (
    START,
    make_change,
    make_edit,
    make_fire,
    make_new_job,
    make_next_fire,
    make_node,
    make_spec,
)


class JobMoves(WalkBase):
    """Adding, editing, pausing, resuming, deleting; firing, and draining fire ranges."""

    # -- jobs --------------------------------------------------------------------------------------------------

    async def add_jobs(self) -> None:
        jobs = []
        for _ in range(self.random.randint(1, 3)):
            spec = make_spec(
                name=f"name {self.random.randrange(40)}",
                queue=self.random.choice(("default", "mail")),
                priority=self.random.choice(list(Priority)),
                poison_limit=self.random.randint(1, 3),
                trigger=Once(self.now) if self.chance(0.6) else None,
                timeout=timedelta(seconds=self.random.choice((20, 3600))),
                max_fires=(None, None, 3)[self.serial % 3],
            )
            new = make_new_job(spec, tenant=self.random.choice(TENANTS))
            jobs.append(replace(new, id=self.ids.new_job_id(), next_fire=self.some_next_fire(0, 30)))
        await self.agree(lambda side: side.store.add_jobs(jobs, now=self.now))
        self.job_ids.extend(job.id for job in jobs)

    def some_next_fire(self, earliest: int, latest: int) -> NextFire | None:
        """Choose where a clock goes: so many seconds from now, and sometimes held back by a jitter."""
        if self.chance(0.1):
            return None
        fire_at = self.now + timedelta(seconds=self.random.randrange(earliest, latest))
        return make_next_fire(fire_at, jitter=timedelta(seconds=self.random.choice((0, 0, 1, 20))))

    async def edit(self) -> None:
        job = await self.some_job()
        if job is None:
            return
        name = f"name {self.random.randrange(40)}" if self.chance(0.3) else job.spec.name
        fire_ranges = (self.new_fire_range(job),) if self.chance(0.3) else ()
        # For a paused job, too: the caller may have read it before it was paused.
        spec = make_spec(
            name=name,
            queue=job.spec.queue,
            priority=self.random.choice(list(Priority)),
            payload=str(self.serial).encode(),
            trigger=Once(self.now) if self.chance(0.6) else None,
            jitter=timedelta(seconds=self.random.choice((0, 0, 20))),
            expires_after=timedelta(seconds=30) if self.chance(0.2) else None,
        )
        edit = make_edit(
            job,
            spec,
            next_fire=self.some_next_fire(-60, 60),
            fire_ranges=fire_ranges,
            ends_gap=self.chance(0.3),
            fires_left=(job.fires_left, None, 0, 5)[self.serial % 4],
        )
        edits = [edit, edit] if self.chance(0.1) else [edit]
        await self.agree(lambda side: side.store.edit_jobs(edits, now=self.now))
        await self.learn_fire_ranges(job.id)

    async def pause(self) -> None:
        job = await self.some_job()
        if job is None:
            return
        gap = self.new_fire_range(
            job, kind=FireRangeKind.GAP, from_at=job.next_fire_at or self.now, to_at=None
        )
        change = make_change(job, fire_ranges=(gap,), next_fire_at=self.now if self.chance(0.1) else None)
        changes = [change, change] if self.chance(0.1) else [change]
        await self.agree(lambda side: side.store.pause_jobs(changes, now=self.now))
        await self.learn_fire_ranges(job.id)

    async def resume(self) -> None:
        jobs = [job for job in await self.reference.store.get_jobs(self.job_ids) if job and job.is_paused]
        job = self.random.choice(jobs) if jobs and self.chance(0.7) else await self.some_job()
        if job is None:
            return
        fire_ranges = (self.new_fire_range(job),) if self.chance(0.2) else ()
        change = make_change(job, next_fire=self.some_next_fire(0, 30), fire_ranges=fire_ranges)
        if self.chance(0.1):
            change = make_change(job, revision=job.revision - 1)
        changes = [change, change] if self.chance(0.1) else [change]
        await self.agree(lambda side: side.store.resume_jobs(changes, now=self.now))
        await self.learn_fire_ranges(job.id)

    async def delete(self) -> None:
        job = await self.some_job()
        if job is not None:
            fire_ranges = (self.new_fire_range(job),) if self.chance(0.5) else ()
            change = make_change(job, fire_ranges=fire_ranges)
            changes = [change, change] if self.chance(0.2) else [change]
            await self.agree(lambda side: side.store.delete_jobs(changes, now=self.now))
            await self.learn_fire_ranges(job.id)

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
                next_fire=self.some_next_fire(0, 60),
                fired_through=job.next_fire_at + timedelta(seconds=1),
                fire_ranges=(self.new_fire_range(job),) if self.chance(0.2) else (),
                overlap=self.random.choice(tuple(Overlap)),
                fires_left=(job.fires_left, None, 2)[self.serial % 3],
            )
        await self.agree(lambda side: side.fire(list(fires.values()), epochs, self.now))

    async def fire_set(self) -> None:
        """Fire clocks that have an outline, as they stand now or as they stood when some were read last."""
        epochs = await self.some_epochs()
        due = await self.reference.store.read_due(
            range(256), until=self.now + timedelta(seconds=30), limit=1000
        )
        clocks = [clock for clock in due if clock.outline is not None]
        for clock in clocks:
            if clock.job_id not in self.seen_clocks or self.chance(0.5):
                self.seen_clocks[clock.job_id] = clock
        chosen = [
            self.seen_clocks[clock.job_id] if self.chance(0.15) else clock
            for clock in clocks
            if self.chance(0.7)
        ]
        await self.agree(lambda side: side.fire_set(chosen, epochs, self.now))

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
            "level": self.random.choice([0.0, 0.25, 7.0]),
            "level_at": self.now,
            "overlap": self.random.choice(tuple(Overlap)),
        }
        epochs = await self.some_epochs()
        await self.agree(lambda side: side.advance(name, step, epochs, self.now))
