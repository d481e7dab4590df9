"""Jobs that fire at a delay after the end of the run before: one run at a time, counted from its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.clock import LoopWaiter
from mainspring.core.definition import read_definition
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.states import RunState
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ends import PERIOD, EndFollower
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput
from mainspring.ports.clock import Clock
from mainspring.ports.store.ends import FollowingFire, FollowVerdict
from mainspring.ports.store.nodes import Epochs
from mainspring.testing.factories import START, at, make_node
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.engine.conftest import Bench

SUCCEEDED, FAILED, SKIPPED, PENDING = RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED, RunState.PENDING


class Worked:
    """A bench with a worker, that works when it is told to."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.jobs = bench.runtime.client.jobs

    async def add(self, **fields: Any) -> JobId:
        self.worker = await self.bench.runtime.worker()
        job_id = await self.bench.add(**fields)
        await self.bench.runtime.plan()
        return job_id

    async def advance(self, seconds: float, *, works: bool = False) -> None:
        """Let time pass; a worker that works ends each run within the second in which it was made."""
        for _ in range(round(seconds)):
            await self.bench.runtime.advance(1)
            await self.worker.beat()
            if works:
                await self.worker.work()

    async def work(self) -> None:
        await self.worker.work()

    async def job(self, job_id: JobId) -> Job:
        return await self.jobs.get(TENANT, job_id)

    async def fires(self, job_id: JobId) -> list[float]:
        """When the job has fired, in seconds after START."""
        runs = await self.bench.runs(job_id)
        return [(run.fire_at - START) / timedelta(seconds=1) for run in runs if run.fire_at is not None]

    async def next(self, job_id: JobId) -> float | None:
        fire_at = (await self.job(job_id)).next_fire_at
        return None if fire_at is None else (fire_at - START) / timedelta(seconds=1)

    async def is_even(self, job_id: JobId) -> bool:
        return (await self.bench.runtime.client.ledgers.read(TENANT, job_id)).balance.is_even


class RoundedClock:
    """Two looks, a second apart but for what rounding took off."""

    def __init__(self, clock: Clock, looks: Sequence[float]) -> None:
        self._clock = clock
        self._looks = list(looks)

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._looks[0]

    def pass_on(self) -> None:
        del self._looks[0]


@pytest.mark.parametrize("first", [373.4355171131925, 0.1, 1e6 / 3])
async def test_wait_that_ends_a_rounding_error_early_is_not_followed_by_one_of_no_time(
    bench: Bench, first: float
) -> None:
    """In the simulator no time passes in such a wait, so that it never ended."""
    second = first + PERIOD
    while second - first >= PERIOD:
        second = math.nextafter(second, 0.0)
    clock = RoundedClock(bench.runtime.clock, [first, second])
    follower = EndFollower(
        bench.runtime.store,
        clock=clock,
        ownership=Ownership({0: 1}),
        wakeups=Wakeups(),
        waiter=LoopWaiter(),
        calendars=CalendarReader(bench.runtime.store),
    )
    assert await follower.tick(START) >= PERIOD
    clock.pass_on()
    assert await follower.tick(START) >= PERIOD


@pytest.fixture
def worked(bench: Bench) -> Worked:
    return Worked(bench)


async def test_first_fire_is_at_once_and_each_next_one_after_the_end(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    assert await worked.fires(job_id) == [0]
    await worked.advance(30)
    assert await worked.fires(job_id) == [0]  # the run waits, and so does the next fire
    await worked.work()
    await worked.advance(1)
    assert await worked.next(job_id) == 40
    await worked.advance(9)
    assert await worked.fires(job_id) == [0, 40]
    await worked.work()
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 40, 50]
    assert await worked.is_even(job_id)


async def test_first_fire_waits_for_the_beginning(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", starts_at=at(5).isoformat())
    assert await worked.fires(job_id) == []
    await worked.advance(20, works=True)
    assert await worked.fires(job_id) == [5, 15]


async def test_after_the_end_of_its_window_it_fires_no_more(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", ends_at=at(25).isoformat())
    await worked.advance(60, works=True)
    assert await worked.fires(job_id) == [0, 11, 21]
    assert await worked.next(job_id) is None
    assert not await worked.bench.runtime.store.watches_ends(range(256))
    await worked.jobs.edit(TENANT, job_id, {"ends_at": None})
    await worked.advance(1)
    assert await worked.fires(job_id) == [0, 11, 21, 60]


async def test_after_its_maximum_of_fires_it_fires_no_more(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", max_fires=2)
    await worked.work()
    found = await worked.jobs.fires(TENANT, job_id, after=None, count=5)
    assert [one.fire_at for one in found.fires] == [at(10)]  # the last one
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 10]
    found = await worked.jobs.fires(TENANT, job_id, after=None, count=5)
    assert (found.fires, found.waits_for) == ([], None)
    await worked.advance(30, works=True)
    assert await worked.fires(job_id) == [0, 10]
    assert not await worked.bench.runtime.store.watches_ends(range(256))
    await worked.jobs.pause(TENANT, job_id)
    await worked.jobs.resume(TENANT, job_id)
    assert await worked.next(job_id) is None
    await worked.jobs.edit(TENANT, job_id, {"max_fires": 3})  # it counts from the beginning
    await worked.advance(1, works=True)
    await worked.advance(30, works=True)
    assert await worked.fires(job_id) == [0, 10, 40, 51, 61]


async def test_shortest_delay_is_kept(worked: Worked) -> None:
    job_id = await worked.add(after_end="1s")
    await worked.advance(4, works=True)
    assert await worked.fires(job_id) == [0, 2, 3, 4]  # the first run ended in the next second


async def test_retries_belong_to_the_run(worked: Worked) -> None:
    retry = {"max_retries": 1, "backoff": "fixed", "delay": "20s", "jitter": 0}
    job_id = await worked.add(after_end="10s", retry=retry)
    worked.bench.failures += [ValueError("no")] * 2
    await worked.work()
    await worked.advance(19)
    assert await worked.bench.states(job_id) == [RunState.RETRYING]
    assert await worked.next(job_id) is None
    await worked.advance(1, works=True)
    assert await worked.bench.states(job_id) == [FAILED]
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 30]


async def test_cancelled_run_is_an_end(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.advance(5)
    [run] = await worked.bench.runs(job_id)
    await worked.bench.runtime.client.runs.cancel(TENANT, run.id)
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 15]


async def test_runs_by_hand_do_not_move_it(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    await worked.advance(5)
    await worked.bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    await worked.advance(5, works=True)
    assert await worked.fires(job_id) == [0, 10]
    await worked.bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    await worked.advance(30)
    assert await worked.fires(job_id) == [0, 10, 20]


async def test_fire_that_overlaps_a_run_by_hand_counts_from_its_record(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", overlap="skip")
    await worked.work()
    await worked.bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    await worked.advance(12)
    states = [run.state for run in await worked.bench.runs(job_id) if run.fire_at is not None]
    assert states == [SUCCEEDED, SKIPPED]
    await worked.work()
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 10, 20]


async def test_fires_that_a_calendar_keeps_out_are_records_a_delay_apart(worked: Worked) -> None:
    rules = [{"from": "2026-01-05T12:00:05", "to": "2026-01-05T12:00:25"}]
    await worked.bench.runtime.client.calendars.put(TENANT, "off", {"rules": rules})
    job_id = await worked.add(after_end="10s", calendars={"exclude": ["off"]})
    await worked.work()
    await worked.advance(40, works=True)
    runs = await worked.bench.runs(job_id)
    assert await worked.fires(job_id) == [0, 10, 20, 30, 40]
    assert [(run.state, run.reason) for run in runs[1:3]] == [(SKIPPED, "calendar")] * 2
    assert await worked.is_even(job_id)


async def test_new_version_of_a_calendar_leaves_the_count(worked: Worked) -> None:
    calendars = worked.bench.runtime.client.calendars
    await calendars.put(TENANT, "off", {"rules": [{"date": "2026-12-24"}]})
    job_id = await worked.add(after_end="10s", calendars={"exclude": ["off"]})
    await worked.work()
    await worked.advance(2)
    rules = [{"from": "2026-01-05T12:00:05", "to": "2026-01-05T12:00:15"}]
    await calendars.put(TENANT, "off", {"rules": rules})
    assert await worked.next(job_id) == 10
    await worked.advance(20)
    states = await worked.bench.states(job_id)
    assert states[:2] == [SUCCEEDED, SKIPPED]
    assert await worked.fires(job_id) == [0, 10, 20]


async def test_late_fire_goes_by_the_misfire_policy_and_counts_from_its_record(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", misfire={"policy": "skip", "grace": "5s"})
    await worked.work()
    worked.bench.runtime.clock.advance(100)  # nobody was there
    await worked.advance(1)
    runs = await worked.bench.runs(job_id)
    assert [(run.state, run.reason) for run in runs] == [(SUCCEEDED, None), (SKIPPED, "misfire")]
    assert await worked.fires(job_id) == [0, 10]
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 10, 111]


async def test_late_fire_is_made_up_for_once(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s", misfire={"policy": "fire_all", "grace": "5s"})
    await worked.work()
    worked.bench.runtime.clock.advance(100)
    await worked.advance(2)
    assert await worked.fires(job_id) == [0, 10]
    assert await worked.bench.states(job_id) == [SUCCEEDED, PENDING]


async def test_run_that_is_no_longer_kept_counts_as_one_that_ends_now(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    worked.bench.runtime.clock.advance(100)
    await worked.bench.runtime.store.prune_history(before=at(99), limit=10)
    await worked.advance(11)
    assert await worked.fires(job_id) == [111]


async def test_pause_keeps_fires_out_and_the_count_goes_on(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    await worked.advance(2)
    await worked.jobs.pause(TENANT, job_id)
    await worked.advance(23)
    assert await worked.fires(job_id) == [0]
    await worked.jobs.resume(TENANT, job_id)
    assert await worked.next(job_id) == 30
    [gap] = await worked.jobs.fire_ranges(TENANT, job_id)
    assert (gap.from_at, gap.to_at, gap.reason) == (at(10), at(25), "paused")
    await worked.advance(5)
    assert await worked.fires(job_id) == [0, 30]
    assert await worked.is_even(job_id)


async def test_pause_during_a_run_waits_for_its_end(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.jobs.pause(TENANT, job_id)
    await worked.advance(3)
    await worked.jobs.resume(TENANT, job_id)
    assert await worked.next(job_id) is None
    await worked.advance(3)
    await worked.work()
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 16]


async def test_run_that_ends_in_a_pause_counts_from_its_end(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.jobs.pause(TENANT, job_id)
    await worked.advance(4)
    await worked.work()
    await worked.advance(1)
    assert await worked.next(job_id) is None
    await worked.jobs.resume(TENANT, job_id)
    assert await worked.next(job_id) == 14


@pytest.mark.parametrize(("delay", "following"), [("5s", 8), ("20s", 20), ("8s", 8)])
async def test_edit_counts_the_new_delay_from_the_last_end(
    worked: Worked, delay: str, following: float
) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    await worked.advance(8)
    await worked.jobs.edit(TENANT, job_id, {"after_end": delay})
    assert await worked.next(job_id) == following


async def test_other_edits_leave_the_count(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.jobs.edit(TENANT, job_id, {"payload": {"a": 1}})
    assert await worked.next(job_id) is None
    await worked.work()
    await worked.advance(1)
    await worked.jobs.edit(TENANT, job_id, {"payload": {"a": 2}})
    assert await worked.next(job_id) == 10
    await worked.advance(9)
    assert await worked.fires(job_id) == [0, 10]


async def test_edit_while_the_run_lives_waits_for_its_end(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.advance(5)
    await worked.jobs.edit(TENANT, job_id, {"after_end": "3s"})
    await worked.advance(2)
    assert await worked.fires(job_id) == [0]
    await worked.work()
    await worked.advance(3)
    assert await worked.fires(job_id) == [0, 10]


async def test_edit_that_meets_a_fire_that_is_due_leaves_it(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    await worked.advance(2)
    worked.bench.runtime.clock.advance(8)
    await worked.jobs.edit(TENANT, job_id, {"after_end": "20s"})
    assert await worked.next(job_id) == 10
    await worked.advance(30)
    assert await worked.fires(job_id) == [0, 10]
    assert await worked.jobs.fire_ranges(TENANT, job_id) == []


async def test_other_trigger_becomes_one_after_the_end_of_its_run(worked: Worked) -> None:
    job_id = await worked.add(every="10s")
    await worked.advance(10)
    assert await worked.fires(job_id) == [10]
    await worked.jobs.edit(TENANT, job_id, {"after_end": "5s"})
    await worked.advance(20)
    assert await worked.fires(job_id) == [10]
    await worked.work()
    await worked.advance(5)
    assert await worked.fires(job_id) == [10, 35]
    await worked.jobs.edit(TENANT, job_id, {"every": "10s"})
    await worked.advance(10)
    assert await worked.fires(job_id) == [10, 35, 45]


async def test_job_without_a_trigger_gets_one_and_fires_at_once(worked: Worked) -> None:
    job_id = await worked.add()
    await worked.advance(3)
    await worked.jobs.edit(TENANT, job_id, {"after_end": "5s"})
    await worked.advance(1)
    assert await worked.fires(job_id) == [3]


async def test_edit_of_a_paused_job_goes_on_after_the_pause(worked: Worked) -> None:
    job_id = await worked.add(every="10s")
    await worked.advance(10)
    await worked.work()
    await worked.jobs.pause(TENANT, job_id)
    await worked.jobs.edit(TENANT, job_id, {"after_end": "7s"})
    await worked.advance(10)
    await worked.jobs.resume(TENANT, job_id)
    assert await worked.next(job_id) == 24
    await worked.advance(10)
    assert await worked.fires(job_id) == [10, 24]


async def test_jobs_of_files_keep_their_count(worked: Worked) -> None:
    body = {"name": "job", "function": "work", "after_end": "10s"}
    applying = worked.bench.runtime.client.applying
    worked.worker = await worked.bench.runtime.worker()
    await applying.apply(TENANT, [body])
    await worked.bench.runtime.plan()
    await worked.work()
    await worked.advance(4)
    await applying.apply(TENANT, [body])
    job = await worked.jobs.find(TENANT, "job")
    assert await worked.next(job.id) == 10
    await applying.apply(TENANT, [{**body, "after_end": "6s"}])
    assert await worked.next(job.id) == 6


async def test_backfill_is_refused_with_a_reason(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    asked = {"from": at(-3600).isoformat(), "to": START.isoformat()}
    with pytest.raises(InvalidInput, match="no rule tells"):
        await worked.bench.runtime.client.backfills.create(TENANT, job_id, asked)


async def test_next_fire_is_told_or_the_run_that_it_waits_for(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    [run] = await worked.bench.runs(job_id)
    found = await worked.jobs.fires(TENANT, job_id, after=None, count=5)
    assert found.fires == []
    assert found.waits_for is not None
    assert (found.waits_for.run_id, found.waits_for.state) == (run.id, PENDING)
    await worked.work()
    for _ in range(2):  # before and after the clock is set
        found = await worked.jobs.fires(TENANT, job_id, after=None, count=5)
        assert ([one.fire_at for one in found.fires], found.waits_for) == ([at(10)], None)
        assert (await worked.jobs.fires(TENANT, job_id, after=at(10), count=5)).fires == []
        await worked.advance(1)
    await worked.jobs.pause(TENANT, job_id)
    assert (await worked.jobs.fires(TENANT, job_id, after=None, count=5)).fires == []


async def test_preview_of_a_new_job_has_its_first_fire(worked: Worked) -> None:
    async def first(**body: Any) -> list[Any]:
        preview = await worked.jobs.preview(TENANT, body, after=None, count=5)
        return [one.fire_at for one in preview.fires]

    assert await first(after_end="10s") == [START]
    assert await first(after_end="10s", starts_at=at(60).isoformat()) == [at(60)]
    await worked.add(after_end="10s")
    assert await first(name="job", function="work", after_end="20s") == []


async def test_deleted_job_leaves_nothing(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.jobs.delete(TENANT, job_id)
    assert not await worked.bench.runtime.store.watches_ends(range(256))


# -- the service ------------------------------------------------------------------------------------------------


class Looks:
    """Counts what the service asks of the store."""

    def __init__(self, runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watches = self.reads = 0
        store = runtime.store
        watches_ends, read_ended = store.watches_ends, store.read_ended

        async def watch(shards: Sequence[int]) -> bool:
            self.watches += 1
            return await watches_ends(shards)

        async def read(shards: Sequence[int], *, limit: int) -> list[JobId]:
            self.reads += 1
            return await read_ended(shards, limit=limit)

        monkeypatch.setattr(store, "watches_ends", watch)
        monkeypatch.setattr(store, "read_ended", read)


async def test_jobs_are_found_within_a_period_without_a_hint(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints may be lost, and a fire would be late (seed 310082)."""
    runtime, looks = bench.runtime, Looks(bench.runtime, monkeypatch)
    service = runtime.services["ends"]
    assert await service.tick(runtime.clock.now()) == PERIOD
    assert (looks.watches, looks.reads) == (1, 0)
    await bench.add(after_end="10s")
    assert 0 < await service.tick(runtime.clock.now()) <= PERIOD  # at most one look a second
    runtime.clock.advance(PERIOD)
    assert await service.tick(runtime.clock.now()) == PERIOD
    assert (looks.watches, looks.reads) == (2, 1)


async def test_hints_do_not_make_looks_more_frequent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, looks = bench.runtime, Looks(bench.runtime, monkeypatch)
    for _ in range(20):
        runtime.clock.advance(0.1)
        runtime.wakeups.clocks_changed()
        await runtime.tick("ends")
    assert looks.watches == 2


async def test_looks_that_take_a_while_make_no_fire_late(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks of 0.1 s in a row were followed by a rest of two seconds (seed 294 on SQLite)."""
    runtime = bench.runtime
    read_ended = runtime.store.read_ended

    async def read_slowly(shards: Sequence[int], *, limit: int) -> list[JobId]:
        runtime.clock.advance(0.2)
        return await read_ended(shards, limit=limit)

    monkeypatch.setattr(runtime.store, "read_ended", read_slowly)
    await bench.add(after_end="10s")
    service = runtime.services["ends"]
    for _ in range(3):
        runtime.clock.advance(PERIOD)
        assert await service.tick(runtime.clock.now()) == PERIOD


async def test_fire_that_is_long_due_when_its_end_is_found_is_read_at_once(worked: Worked) -> None:
    """The planner reads that far back once a minute at worst, so the follower says from where on (seed 9933)."""
    runtime, told = worked.bench.runtime, list[datetime]()
    runtime.wakeups.subscribe_late_clocks(told.append)
    await worked.add(after_end="10s")
    await worked.advance(1)
    await worked.work()
    runtime.clock.advance(300)  # nobody looks for so long
    await runtime.tick("ends")
    assert told == [START + timedelta(seconds=11)]


async def test_node_without_shards_looks_at_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, looks = bench.runtime, Looks(bench.runtime, monkeypatch)
    runtime.ownership.update({})
    await runtime.tick("ends")
    assert looks.watches == 0


async def test_lost_shard_is_noticed_and_nothing_set(worked: Worked) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    runtime = worked.bench.runtime
    await runtime.store.beat_node(make_node("other"), now=at(1))
    expected = {lease.shard: lease.epoch for lease in await runtime.store.read_shards()}
    await runtime.store.take_shards("other", expected, now=at(1))
    runtime.clock.advance(1)
    await runtime.tick("ends")
    assert await worked.next(job_id) is None
    assert runtime.ownership.fenced == 1


async def test_job_that_cannot_be_read_holds_up_no_other(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = await worked.add(name="broken", after_end="10s")
    whole = await worked.bench.add(name="whole", after_end="10s")
    await worked.bench.runtime.plan()
    await worked.work()
    reader: Any = worked.bench.runtime.services["ends"]
    apply = reader._calendars.apply_to_jobs

    async def apply_to_jobs(jobs: Any) -> Any:
        if any(job_id == broken for job_id, _, _ in jobs):
            raise ValueError("a zone is unknown here")
        return await apply(jobs)

    monkeypatch.setattr(reader._calendars, "apply_to_jobs", apply_to_jobs)
    worked.bench.runtime.clock.advance(1)
    await worked.bench.runtime.tick("ends")
    assert (await worked.next(broken), await worked.next(whole)) == (None, 10)


async def test_end_that_another_node_follows_first_is_followed_once(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await worked.add(after_end="10s")
    await worked.work()
    store = worked.bench.runtime.store
    follow = store.follow_ends

    async def follow_ends(
        following: Sequence[FollowingFire], *, epochs: Epochs, now: Any
    ) -> list[FollowVerdict]:
        await follow(following, epochs=epochs, now=now)
        verdicts = await follow(following, epochs=epochs, now=now)
        assert verdicts == [FollowVerdict.MOVED] * len(following)
        return verdicts

    monkeypatch.setattr(store, "follow_ends", follow_ends)
    await worked.advance(10)
    assert await worked.fires(job_id) == [0, 10]


def test_definition_of_a_job_is_read_alike_in_all_forms() -> None:
    forms: list[Mapping[str, Any]] = [
        {"after_end": "10m"},
        {"trigger": {"type": "after_end", "delay_seconds": 600}},
        {"schedule": "10 minutes after the end"},
    ]
    read = {read_definition({"name": "a", "function": "f", **form}, now=START).trigger for form in forms}
    assert len(read) == 1
