"""Calendars: versions never change, writes are decided by what was read, and no job is left behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.model import FireRangeKind, Job
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarDeletion, CalendarUse, CalendarUses, Replan
from mainspring.ports.store.jobs import AddResult, NewJob
from mainspring.testing.factories import (
    MINUTE,
    START,
    at,
    make_change,
    make_edit,
    make_fire_range,
    make_new_job,
    make_next_fire,
    make_pause,
    make_spec,
    read_job,
)


def make_calendar(name: str = "holidays", version: int = 1, **overrides: Any) -> CalendarVersion:
    """Make a version of a calendar: one date, which tells versions apart."""
    body = {"tz": "Europe/Berlin", "rules": [{"date": f"2026-01-{version:02}", "note": "a day off"}]}
    values: dict[str, Any] = {
        "tenant": DEFAULT_TENANT,
        "name": name,
        "version": version,
        "spec": read_calendar(body),
        "resolved": {},
        "created_at": START,
    }
    return CalendarVersion(**values | overrides)


async def write(store: Store, *versions: CalendarVersion) -> int:
    """Keep versions; return the revision after that."""
    revision = await store.read_calendar_revision()
    assert await store.write_calendars(versions, revision=revision)
    return await store.read_calendar_revision()


async def uses(store: Store, *names: str, version: int = 1, is_pinned: bool = False) -> CalendarUses:
    """Return uses of calendars as of now."""
    revision = await store.read_calendar_revision()
    return CalendarUses(revision, tuple(CalendarUse(name, version, is_pinned) for name in names))


async def add_user(store: Store, *names: str, tenant: str = DEFAULT_TENANT, **given: Any) -> Job:
    """Add a job that uses calendars."""
    new = make_new_job(next_fire_at=at(60), tenant=tenant)
    calendars = await uses(store, *names, **given)
    user = NewJob(id=new.id, tenant=tenant, spec=new.spec, next_fire=new.next_fire, calendars=calendars)
    assert await store.add_jobs([user], now=START) == [AddResult.ADDED]
    return await read_job(store, new.id)


def make_replan(job: Job, calendars: CalendarUses, **overrides: Any) -> Replan:
    """Make a plan for a clock as it was read: a minute later than it stood."""
    fire_at = job.next_fire_at
    values: dict[str, Any] = {
        "job_id": job.id,
        "revision": job.revision,
        "fire_at": fire_at,
        "next_fire": make_next_fire(None if fire_at is None else fire_at + MINUTE),
        "calendars": calendars,
        "fires_left": job.fires_left,
    }
    return Replan(**values | overrides)


class CalendarVersions:
    """Versions are kept, found by name and number, and never change."""

    __test__ = False

    async def test_what_was_written_is_read_again(self, store: Store) -> None:
        first = make_calendar()
        second = make_calendar(version=2, resolved={"bridge-days": 7}, created_at=at(5))
        await write(store, first)
        await write(store, second)
        keys = [("holidays", 1), ("holidays", None), ("holidays", 3), ("other", None), ("holidays", 2)]
        assert await store.read_calendars(DEFAULT_TENANT, keys) == [first, second, None, None, second]
        assert await store.read_calendars("other", keys[:2]) == [None, None]
        assert await store.read_calendars(DEFAULT_TENANT, []) == []

    async def test_the_newest_versions_are_listed_by_name(self, store: Store) -> None:
        await write(store, make_calendar("b"), make_calendar("a"), make_calendar("c", tenant="other"))
        await write(store, make_calendar("b", 2), make_calendar("d"))
        found = await store.list_calendars(DEFAULT_TENANT)
        assert [one.label for one in found] == ["a@1", "b@2", "d@1"]
        page = await store.list_calendars(DEFAULT_TENANT, after="a", limit=1)
        assert [one.label for one in page] == ["b@2"]

    async def test_versions_are_listed_from_the_newest(self, store: Store) -> None:
        await write(store, *(make_calendar(version=number) for number in (1, 2, 3)), make_calendar("other"))
        found = await store.list_calendar_versions(DEFAULT_TENANT, "holidays", limit=2)
        assert [one.version for one in found] == [3, 2]
        rest = await store.list_calendar_versions(DEFAULT_TENANT, "holidays", before=2)
        assert [one.version for one in rest] == [1]

    async def test_a_write_by_an_old_revision_changes_nothing(self, store: Store) -> None:
        old = await store.read_calendar_revision()
        await write(store, make_calendar())
        assert not await store.write_calendars([make_calendar("other")], revision=old)
        assert await store.read_calendars(DEFAULT_TENANT, [("other", None)]) == [None]
        assert await store.write_calendars([], revision=old)

    async def test_every_write_and_delete_raises_the_revision(self, store: Store) -> None:
        seen = [await store.read_calendar_revision()]
        seen += [await write(store, make_calendar()), await write(store, make_calendar("other"))]
        await store.delete_calendar(DEFAULT_TENANT, "other", revision=seen[-1])
        seen.append(await store.read_calendar_revision())
        assert seen == sorted(set(seen))


class CalendarDeletes:
    """A calendar goes only when no job uses it; its versions stay readable."""

    __test__ = False

    async def test_versions_of_a_deleted_calendar_stay_readable(self, store: Store) -> None:
        revision = await write(store, make_calendar(), make_calendar(version=2))
        result = await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=revision)
        assert result is CalendarDeletion.DELETED
        assert await store.list_calendars(DEFAULT_TENANT) == []
        found = await store.read_calendars(DEFAULT_TENANT, [("holidays", None), ("holidays", 1)])
        assert [(one.version, one.is_deleted) for one in found if one is not None] == [(2, True), (1, True)]

    async def test_a_name_may_come_back_with_the_next_number(self, store: Store) -> None:
        revision = await write(store, make_calendar())
        await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=revision)
        again = make_calendar(version=2)
        await write(store, again)
        assert await store.list_calendars(DEFAULT_TENANT) == [again]
        found = await store.list_calendar_versions(DEFAULT_TENANT, "holidays")
        assert [(one.version, one.is_deleted) for one in found] == [(2, False), (1, True)]

    async def test_what_a_job_uses_stays(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar(tenant="other"))
        job = await add_user(store, "holidays")
        revision = await store.read_calendar_revision()
        result = await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=revision)
        assert result is CalendarDeletion.IN_USE
        revision = await store.read_calendar_revision()
        assert await store.delete_calendar("other", "holidays", revision=revision) is CalendarDeletion.DELETED
        await store.delete_jobs([make_change(job)], now=START)
        revision = await store.read_calendar_revision()
        result = await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=revision)
        assert result is CalendarDeletion.DELETED

    async def test_what_is_not_there_or_has_changed_is_not_deleted(self, store: Store) -> None:
        old = await store.read_calendar_revision()
        assert (
            await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=old) is CalendarDeletion.MISSING
        )
        old = await store.read_calendar_revision()
        await write(store, make_calendar())
        assert await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=old) is CalendarDeletion.MOVED


class CalendarsOfJobs:
    """Which versions a clock goes by is kept with the clock, and is never older than it was decided by."""

    __test__ = False

    async def test_uses_are_kept_with_the_job(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar("office", 4))
        job = await add_user(store, "holidays")
        plain = make_new_job()
        await store.add_jobs([plain], now=START)
        pinned = await add_user(store, "office", version=4, is_pinned=True)
        found = await store.read_calendar_uses([job.id, plain.id, pinned.id])
        kept = CalendarUse("holidays", 1, is_pinned=False)
        assert found == [(kept,), (), (CalendarUse("office", 4, is_pinned=True),)]
        assert await store.list_jobs_of_calendar(DEFAULT_TENANT, "office", limit=9) == [pinned.id]
        assert await store.list_jobs_of_calendar("other", "office", limit=9) == []

    async def test_a_job_is_not_added_by_calendars_of_an_old_revision(self, store: Store) -> None:
        await write(store, make_calendar())
        old = await uses(store, "holidays")
        await write(store, make_calendar(version=2))
        new, plain = make_new_job(), make_new_job()
        user = NewJob(id=new.id, tenant=new.tenant, spec=new.spec, next_fire=None, calendars=old)
        assert await store.add_jobs([user, plain], now=START) == [AddResult.CALENDARS_MOVED, AddResult.ADDED]
        assert (await store.get_jobs([new.id]))[0] is None
        assert await store.read_calendar_uses([new.id]) == [()]

    async def test_an_edit_replaces_uses_or_leaves_them(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar("office"))
        job = await add_user(store, "holidays")
        await store.edit_jobs([make_edit(job)], now=START)
        assert await store.read_calendar_uses([job.id]) == [(CalendarUse("holidays", 1, is_pinned=False),)]
        job = await read_job(store, job.id)
        other = await uses(store, "office")
        await store.edit_jobs([make_edit(job, calendars=other)], now=START)
        assert await store.read_calendar_uses([job.id]) == [(CalendarUse("office", 1, is_pinned=False),)]
        job = await read_job(store, job.id)
        none = await uses(store)
        assert await store.edit_jobs([make_edit(job, calendars=none)], now=START) == [ChangeVerdict.DONE]
        assert await store.read_calendar_uses([job.id]) == [()]

    async def test_an_edit_by_calendars_of_an_old_revision_moves_nothing(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        old = await uses(store, "holidays")
        await write(store, make_calendar(version=2))
        edit = make_edit(job, make_spec(), calendars=old)
        assert await store.edit_jobs([edit], now=START) == [ChangeVerdict.MOVED]
        assert await read_job(store, job.id) == job


class Replans:
    """A new version finds its jobs, and sets their clocks under the same conditions as an edit."""

    __test__ = False

    async def test_jobs_that_follow_a_calendar_are_found_until_they_go_by_it(self, store: Store) -> None:
        await write(store, make_calendar())
        follower = await add_user(store, "holidays")
        await add_user(store, "holidays", is_pinned=True)
        await store.settle_calendars()
        assert await store.list_unsettled_jobs(limit=9) == []
        await write(store, make_calendar(version=2))
        assert await store.list_unsettled_jobs(limit=9) == [follower.id]
        await store.settle_calendars()
        assert await store.list_unsettled_jobs(limit=9) == [follower.id]
        newest = await uses(store, "holidays", version=2)
        assert await store.replan_jobs([make_replan(follower, newest)], now=at(9)) == [ChangeVerdict.DONE]
        assert await store.list_unsettled_jobs(limit=9) == []
        await store.settle_calendars()
        await write(store, make_calendar(version=3))
        assert await store.list_unsettled_jobs(limit=9) == [follower.id]

    async def test_unsettled_jobs_come_some_at_a_time(self, store: Store) -> None:
        await write(store, make_calendar(), make_calendar("office"))
        jobs = [await add_user(store, "holidays", "office") for _ in range(3)]
        await write(store, make_calendar(version=2), make_calendar("office", 2))
        found = await store.list_unsettled_jobs(limit=2)
        assert found == sorted(job.id for job in jobs)[:2]

    async def test_a_replan_moves_the_clock_and_raises_its_revision(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        gap = make_fire_range(job, kind=FireRangeKind.GAP, reason="calendar")
        plan = make_replan(job, await uses(store, "holidays"), fire_ranges=(gap,))
        assert await store.replan_jobs([plan], now=at(9)) == [ChangeVerdict.DONE]
        moved = await read_job(store, job.id)
        assert (moved.revision, moved.version, moved.updated_at) == (job.revision + 1, job.version, at(9))
        assert moved.next_fire_at == at(120)
        assert [one.reason for one in await store.list_fire_ranges(job.id)] == ["calendar"]
        assert await store.replan_jobs([plan], now=at(9)) == [ChangeVerdict.MOVED]

    async def test_a_replan_by_an_old_revision_moves_nothing(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        old = await uses(store, "holidays")
        await write(store, make_calendar("other"))
        assert await store.replan_jobs([make_replan(job, old)], now=at(9)) == [ChangeVerdict.MOVED]
        assert await read_job(store, job.id) == job

    async def test_a_paused_job_stays_stopped(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        await store.pause_jobs([make_pause(job)], now=START)
        job = await read_job(store, job.id)
        plan = make_replan(job, await uses(store, "holidays"), next_fire=make_next_fire(at(60)))
        assert await store.replan_jobs([plan], now=at(9)) == [ChangeVerdict.DONE]
        paused = await read_job(store, job.id)
        assert (paused.is_paused, paused.next_fire_at) == (True, None)
        assert [one.is_open for one in await store.list_fire_ranges(job.id)] == [True]

    async def test_a_replan_of_a_paused_job_may_end_its_gap_and_open_another(self, store: Store) -> None:
        await write(store, make_calendar())
        begun, to_come = [await add_user(store, "holidays") for _ in range(2)]
        pauses = [make_pause(begun, from_at=at(5)), make_pause(to_come, from_at=at(20))]
        await store.pause_jobs(pauses, now=START)
        calendars = await uses(store, "holidays")
        plans = []
        for job in (await read_job(store, begun.id), await read_job(store, to_come.id)):
            new = make_pause(job, from_at=at(12)).fire_ranges
            plans.append(make_replan(job, calendars, fire_ranges=new, ends_gap=True))
        assert await store.replan_jobs(plans, now=at(10)) == [ChangeVerdict.DONE] * 2
        gaps = [
            [(gap.from_at, gap.to_at, gap.is_open) for gap in await store.list_fire_ranges(job.id)]
            for job in (begun, to_come)
        ]
        assert gaps == [[(at(12), None, True), (at(5), at(10), False)], [(at(12), None, True)]]

    async def test_a_deleted_job_is_missing(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        await store.delete_jobs([make_change(job)], now=START)
        plan = make_replan(job, await uses(store, "holidays"))
        assert await store.replan_jobs([plan], now=at(9)) == [ChangeVerdict.MISSING]
        assert await store.read_calendar_uses([job.id]) == [()]
        assert await store.replan_jobs([], now=at(9)) == []

    async def test_of_two_replans_of_one_job_the_first_takes_effect(self, store: Store) -> None:
        await write(store, make_calendar())
        job = await add_user(store, "holidays")
        calendars = await uses(store, "holidays")
        later = make_replan(job, calendars, next_fire=make_next_fire(START + timedelta(hours=1)))
        verdicts = await store.replan_jobs([make_replan(job, calendars), later], now=at(9))
        assert verdicts == [ChangeVerdict.DONE, ChangeVerdict.MOVED]
        assert (await read_job(store, job.id)).next_fire_at == at(120)
