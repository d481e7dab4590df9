"""Jobs with a maximum of fires: what counts, when they are finished, and what edits and pauses do to the count."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.ledger_check import EVERY
from mainspring.core.model import FireRangeKind, Job
from mainspring.core.states import RunState
from mainspring.engine.scheduling import planner
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.store.schedule import Fire, FireResult
from mainspring.testing.factories import at
from mainspring.testing.manual import TENANT
from tests.unit.engine.claiming.test_pauses import pause, resume
from tests.unit.engine.conftest import Bench
from tests.unit.engine.scheduling.test_ledger_check import check


async def job_of(bench: Bench, job_id: JobId) -> Job:
    return await bench.runtime.client.jobs.get(TENANT, job_id)


async def edit(bench: Bench, job_id: JobId, **patch: Any) -> Job:
    return await bench.runtime.client.jobs.edit(TENANT, job_id, patch)


async def made(bench: Bench, job_id: JobId) -> list[datetime | None]:
    """Return the fires that run."""
    return [run.fire_at for run in await bench.runs(job_id) if run.state is not RunState.SKIPPED]


async def is_even(bench: Bench, job_id: JobId) -> bool:
    return (await bench.runtime.client.ledgers.read(TENANT, job_id)).balance.is_even


def every_ten(*numbers: int) -> list[datetime]:
    return [at(10 * number) for number in numbers]


async def assert_finished(bench: Bench, job_id: JobId, *fires: datetime) -> None:
    """Assert that these fires were all, that nothing is owed, and that nothing else ever comes."""
    await bench.runtime.advance(120)
    assert sorted(at for at in await made(bench, job_id) if at is not None) == list(fires)
    job = await job_of(bench, job_id)
    assert (job.next_fire_at, job.fires_left) == (None, 0)
    assert await is_even(bench, job_id)


async def test_job_fires_so_many_times_and_is_finished(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=3)
    assert (await job_of(bench, job_id)).fires_left == 3
    await bench.runtime.advance(20)
    assert (await job_of(bench, job_id)).fires_left == 1
    await assert_finished(bench, job_id, *every_ten(1, 2, 3))
    assert (await bench.runtime.client.jobs.status(TENANT, job_id)).next_fire_at is None


async def test_fires_of_two_seconds_in_one_window_are_counted_each(bench: Bench) -> None:
    """The next fire is pushed into the window with what is left, not read again."""
    job_id = await bench.add(every="1s", max_fires=3)
    await assert_finished(bench, job_id, at(1), at(2), at(3))


async def test_daily_check_of_ledgers_finds_nothing_missing_after_the_last_fire(bench: Bench) -> None:
    await bench.add(every="10s", max_fires=3)
    await bench.runtime.advance(120)
    bench.runtime.clock.advance(EVERY.total_seconds())
    found = await check(bench)
    assert (found.jobs, found.expected, found.missing, found.surplus) == (1, 3, 0, 0)


@pytest.mark.parametrize(
    ("policy", "fires"), [("skip", (11, 12)), ("fire_latest", (10, 11)), ("fire_all", (1, 2))]
)
async def test_what_the_misfire_policy_leaves_out_does_not_count(
    bench: Bench, policy: str, fires: tuple[int, ...]
) -> None:
    job_id = await bench.add(every="10s", max_fires=2, misfire={"policy": policy, "grace": "1s"})
    bench.runtime.clock.advance(105)
    await bench.runtime.tick()
    await bench.runtime.plan()
    await assert_finished(bench, job_id, *every_ten(*fires))


async def test_catch_up_range_uses_up_what_it_takes_when_it_is_made(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=5, misfire={"policy": "fire_all", "grace": "1s"})
    bench.runtime.clock.advance(38)
    await bench.runtime.tick("planner")
    assert ((await job_of(bench, job_id)).fires_left, await made(bench, job_id)) == (2, [])
    await assert_finished(bench, job_id, *every_ten(1, 2, 3, 4, 5))


async def test_fires_that_a_calendar_keeps_out_do_not_count(bench: Bench) -> None:
    body = {"rules": [{"date": "2026-01-07"}]}
    await bench.runtime.client.calendars.put(TENANT, "off", body)
    job_id = await bench.add(cron="0 12 * * *", max_fires=2, calendars={"exclude": ["off"]})
    await bench.runtime.advance(4 * 86400, step=3600)
    assert await made(bench, job_id) == [at(86400), at(3 * 86400)]
    assert (await job_of(bench, job_id)).fires_left == 0
    assert await is_even(bench, job_id)


async def test_fires_that_fall_into_a_pause_of_the_job_do_not_count(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=3)
    await bench.runtime.advance(11)
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    await bench.runtime.advance(40)
    paused = await job_of(bench, job_id)
    assert (paused.next_fire_at, paused.fires_left) == (None, 2)
    await bench.runtime.client.jobs.resume(TENANT, job_id)
    await assert_finished(bench, job_id, *every_ten(1, 6, 7))


async def test_fires_that_a_pause_of_their_queue_skips_do_not_count(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=2, queue="mail")
    await pause(bench, mode="skip", until=at(25).isoformat())
    await bench.runtime.advance(26)
    assert (await job_of(bench, job_id)).fires_left == 2
    await resume(bench)
    await assert_finished(bench, job_id, *every_ten(3, 4))


async def test_caught_up_fires_that_fell_into_such_a_pause_do_not_count(bench: Bench) -> None:
    misfire = {"policy": "fire_all", "grace": "1s"}
    job_id = await bench.add(every="10s", max_fires=3, queue="mail", misfire=misfire)
    await bench.runtime.advance(11)
    await pause(bench, mode="skip", until=at(35).isoformat())
    bench.runtime.clock.advance(60)
    await bench.runtime.tick()
    await bench.runtime.plan()
    await assert_finished(bench, job_id, *every_ten(1, 4, 5))


async def test_fire_that_is_skipped_since_the_run_before_still_runs_counts(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=3, overlap="skip")
    await assert_finished(bench, job_id, at(10))
    assert [run.reason for run in await bench.runs(job_id)] == [None, "overlap", "overlap"]


async def test_runs_by_hand_and_backfills_do_not_count(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=2)
    await bench.runtime.advance(11)
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    body = {"from": at(-100).isoformat(), "to": at(5).isoformat()}
    await bench.runtime.client.backfills.create(TENANT, job_id, body)
    await bench.runtime.advance(5)
    assert (await job_of(bench, job_id)).fires_left == 1
    scheduled = [run.fire_at for run in await bench.runs(job_id) if run.kind.value == "scheduled"]
    assert scheduled == every_ten(1)


async def test_fire_that_is_lost_uses_up_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit comes in between the plan and its write: another node would lose the same way."""
    job_id = await bench.add(every="10s", max_fires=2)
    record_fires = bench.runtime.store.record_fires

    async def edit_first(fires: list[Fire], **options: Any) -> list[FireResult]:
        monkeypatch.setattr(bench.runtime.store, "record_fires", record_fires)
        await edit(bench, job_id, payload={"n": 1})
        return await record_fires(fires, **options)

    monkeypatch.setattr(bench.runtime.store, "record_fires", edit_first)
    await assert_finished(bench, job_id, *every_ten(1, 2))


async def test_answer_that_gets_lost_after_the_write_counts_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await bench.add(every="10s", max_fires=2)
    record_fires = bench.runtime.store.record_fires

    async def record_and_fail(fires: list[Fire], **options: Any) -> list[FireResult]:
        monkeypatch.setattr(bench.runtime.store, "record_fires", record_fires)
        await record_fires(fires, **options)
        raise ConnectionError("the answer got lost")

    monkeypatch.setattr(bench.runtime.store, "record_fires", record_and_fail)
    bench.runtime.clock.advance(10)
    with pytest.raises(ConnectionError):
        await bench.runtime.tick("planner")
    await assert_finished(bench, job_id, *every_ten(1, 2))


async def test_edit_of_something_else_keeps_the_count(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=3)
    await bench.runtime.advance(11)
    await edit(bench, job_id, payload={"n": 1}, overlap="skip", every="10s", max_fires=3)
    assert (await job_of(bench, job_id)).fires_left == 2
    body = {"name": "job", "function": "work", "every": "10s", "max_fires": 3}
    await bench.runtime.client.jobs.upsert(TENANT, body)  # an app that starts again
    await assert_finished(bench, job_id, *every_ten(1, 2, 3))


async def test_another_maximum_counts_anew(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=4)
    await bench.runtime.advance(11)
    assert (await edit(bench, job_id, max_fires=2)).fires_left == 2
    await assert_finished(bench, job_id, *every_ten(1, 2, 3))


async def test_another_schedule_counts_anew(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=2)
    await bench.runtime.advance(11)
    assert (await edit(bench, job_id, every="20s")).fires_left == 2
    await assert_finished(bench, job_id, at(10), at(31), at(51))


async def test_finished_job_fires_again_when_its_maximum_changes(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=1)
    await assert_finished(bench, job_id, at(10))
    edited = await edit(bench, job_id, max_fires=2)
    assert (edited.next_fire_at, edited.fires_left) == (at(130), 2)
    await edit(bench, job_id, max_fires=None)
    await bench.runtime.advance(41)
    assert len(await made(bench, job_id)) == 5
    assert (await job_of(bench, job_id)).fires_left is None


@pytest.mark.parametrize("patch", [{"payload": {"n": 1}}, {"calendars": {"exclude": ["off"]}}])
async def test_finished_job_stays_finished_by_other_edits(bench: Bench, patch: dict[str, Any]) -> None:
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-07"}]})
    job_id = await bench.add(every="10s", max_fires=1)
    await bench.runtime.advance(21)
    await edit(bench, job_id, **patch)
    await assert_finished(bench, job_id, at(10))
    written = await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-08"}]})
    assert written.replanned.moved == 0
    await assert_finished(bench, job_id, at(10))


async def test_finished_job_that_was_paused_stays_finished_and_has_no_gap(bench: Bench) -> None:
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-07"}]})
    job_id = await bench.add(every="10s", max_fires=1, calendars={"exclude": ["off"]})
    await bench.runtime.advance(21)
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-08"}]})
    await edit(bench, job_id, calendars={"exclude": []})
    await bench.runtime.advance(30)
    await bench.runtime.client.jobs.resume(TENANT, job_id)
    assert await bench.runtime.store.list_fire_ranges(job_id) == []
    await assert_finished(bench, job_id, at(10))


async def test_maximum_of_a_paused_job_counts_from_its_resume(bench: Bench) -> None:
    job_id = await bench.add(every="10s", max_fires=1)
    await bench.runtime.advance(11)
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    edited = await edit(bench, job_id, max_fires=2)
    assert (edited.next_fire_at, edited.fires_left) == (None, 2)
    await bench.runtime.advance(30)
    await bench.runtime.client.jobs.resume(TENANT, job_id)
    await bench.runtime.advance(60)
    assert await made(bench, job_id) == every_ten(1, 5, 6)
    [gap] = await bench.runtime.store.list_fire_ranges(job_id)
    assert (gap.kind, gap.from_at) == (FireRangeKind.GAP, at(20))


@pytest.mark.parametrize(
    ("patch", "left"),
    [({"max_fires": 9}, 9), ({"every": "60s"}, 2), ({"calendars": {"exclude": ["off"]}}, 0)],
)
async def test_edit_settles_no_more_fires_than_the_old_count_has_left(
    bench: Bench, patch: dict[str, Any], left: int
) -> None:
    """The fires were due while no server ran; the first thing that comes in is the edit."""
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-07"}]})
    job_id = await bench.add(every="10s", max_fires=2, misfire={"policy": "fire_all", "grace": "1s"})
    bench.runtime.clock.advance(45)
    edited = await edit(bench, job_id, **patch)
    assert (edited.fires_left, edited.next_fire_at is None) == (left, left == 0)
    [owed] = await bench.runtime.store.list_fire_ranges(job_id)
    assert (owed.kind, owed.from_at, owed.to_at) == (FireRangeKind.CATCH_UP, at(10), at(20))
    await bench.runtime.advance(3)
    assert (await made(bench, job_id))[:2] == every_ten(1, 2)


async def test_new_version_of_a_calendar_settles_no_more_than_is_left(bench: Bench) -> None:
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-07"}]})
    misfire = {"policy": "fire_all", "grace": "1s"}
    fields: dict[str, Any] = {"every": "10s", "calendars": {"exclude": ["off"]}, "misfire": misfire}
    two = await bench.add(name="two", max_fires=2, **fields)
    nine = await bench.add(name="nine", max_fires=9, **fields)
    bench.runtime.clock.advance(45)
    await bench.runtime.client.calendars.put(TENANT, "off", {"rules": [{"date": "2026-02-08"}]})
    assert (await job_of(bench, nine)).fires_left == 5
    await assert_finished(bench, two, *every_ten(1, 2))
    await assert_finished(bench, nine, *every_ten(1, 2, 3, 4, 5, 6, 7, 8, 9))


async def test_previews_show_no_more_than_is_left(bench: Bench) -> None:
    jobs = bench.runtime.client.jobs
    job_id = await bench.add(every="10s", max_fires=3)
    await bench.runtime.advance(11)
    for after, left in ((None, every_ten(2, 3)), (at(25), every_ten(3))):
        found = await jobs.fires(TENANT, job_id, after=after, count=9)
        assert [one.fire_at for one in found.fires] == left
    body = {"name": "job", "function": "work", "every": "10s", "max_fires": 3}
    for changed, count in ((body, 2), (body | {"max_fires": 4}, 4), (body | {"name": "other"}, 3)):
        shown = await jobs.preview(TENANT, changed, after=None, count=9)
        assert len(shown.fires) == count
    await bench.runtime.advance(60)
    assert (await jobs.fires(TENANT, job_id, after=None, count=9)).fires == []


async def test_plan_without_a_maximum_has_no_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that do not use it pay nothing for it."""
    monkeypatch.delattr(planner, "limit_plan")
    job_id = await bench.add(every="10s")
    await bench.runtime.advance(21)
    assert len(await made(bench, job_id)) == 2
