"""Jobs with calendars: which fires make runs, what is recorded of the others, and what a new version moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.calendars.resolved import CalendarVersion, resolve
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.cron import Cron
from mainspring.core.failures import pause_note
from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.core.states import RunState
from mainspring.engine.scheduling.calendars import make_replan
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.store.calendars import CalendarUses
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

HOUR = 3600.0
DAY = 24 * HOUR


def day(number: int, hour: int = 0) -> datetime:
    """An hour of a day in January 2026; the clock starts on Monday, the 5th, at noon."""
    return datetime(2026, 1, number, hour, tzinfo=UTC)


async def put(bench: Bench, name: str = "off", **body: Any) -> Any:
    return await bench.runtime.client.calendars.put(TENANT, name, body)


async def made(bench: Bench, job_id: JobId) -> list[datetime | None]:
    return [run.fire_at for run in await bench.runs(job_id) if run.state is not RunState.SKIPPED]


async def left_out(bench: Bench, job_id: JobId) -> list[tuple[datetime | None, str | None]]:
    return [(run.fire_at, run.reason) for run in await bench.runs(job_id) if run.state is RunState.SKIPPED]


async def gaps(bench: Bench, job_id: JobId) -> list[tuple[datetime, datetime | None, str]]:
    found = await bench.runtime.store.list_fire_ranges(job_id)
    return [(one.from_at, one.to_at, one.reason) for one in found if one.kind is FireRangeKind.GAP][::-1]


async def is_even(bench: Bench, job_id: JobId) -> bool:
    return (await bench.runtime.client.ledgers.read(TENANT, job_id)).balance.is_even


async def test_a_single_fire_that_is_kept_out_is_a_skipped_run(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.advance(4 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(8, 9), day(9, 9)]
    assert await left_out(bench, job_id) == [(day(7, 9), "calendar")]
    assert await is_even(bench, job_id)


async def test_several_fires_in_a_row_are_one_gap_once_they_have_passed(bench: Bench) -> None:
    await put(bench, rules=[{"from": "2026-01-07", "to": "2026-01-08"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.advance(2 * DAY, step=HOUR)  # the 7th, at noon
    assert await gaps(bench, job_id) == []
    await bench.runtime.advance(DAY, step=HOUR)
    assert await gaps(bench, job_id) == [(day(7, 9), day(8, 9), "calendar:off@1")]
    await bench.runtime.advance(DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(9, 9)]
    assert await is_even(bench, job_id)


async def test_include_lets_only_its_hours_through(bench: Bench) -> None:
    await put(bench, rules=[{"weekly": ["MON-FRI"], "from": "09:00", "to": "11:00"}])
    job_id = await bench.add(cron="0 * * * *", calendars={"include": ["off"]})
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(6, 10), day(7, 9), day(7, 10)]
    assert await is_even(bench, job_id)


@pytest.mark.parametrize(("roll", "expected"), [("next", [6, 7, 9, 10]), ("previous", [6, 7, 10])])
async def test_fires_move_to_another_date_and_meet(bench: Bench, roll: str, expected: list[int]) -> None:
    await put(bench, rules=[{"date": "2026-01-08"}])
    job_id = await bench.add(cron="0 9 6,7,8,10 * *", calendars={"exclude": ["off"], "roll": roll})
    await bench.runtime.advance(5 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(number, 9) for number in expected]
    assert await left_out(bench, job_id) == []
    assert await is_even(bench, job_id)


async def test_the_last_working_day_of_a_month(bench: Bench) -> None:
    await put(bench, "weekend", rules=[{"weekly": ["SAT", "SUN"]}])
    await put(bench, "days-off", rules=[{"union": ["weekend"]}, {"date": "2026-01-30"}])
    job_id = await bench.add(cron="0 9 L * *", calendars={"exclude": ["days-off"], "roll": "previous"})
    fires = (await bench.runtime.client.jobs.fires(TENANT, job_id, after=None, count=2)).fires
    assert [one.fire_at for one in fires] == [day(29, 9), datetime(2026, 2, 27, 9, tzinfo=UTC)]
    assert [one.rolled_from for one in fires] == [day(31, 9), datetime(2026, 2, 28, 9, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("policy", "caught"), [("skip", []), ("fire_latest", [day(9, 9)]), ("fire_all", [day(6, 9), day(9, 9)])]
)
async def test_misfires_pass_over_what_is_kept_out(bench: Bench, policy: str, caught: list[datetime]) -> None:
    await put(bench, rules=[{"from": "2026-01-07", "to": "2026-01-08"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]}, misfire=policy)
    bench.runtime.clock.advance(4 * DAY)
    await bench.runtime.advance(10)
    assert await made(bench, job_id) == caught
    assert await is_even(bench, job_id)


async def test_a_new_version_moves_what_is_still_to_come(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    other = await bench.add(name="other", cron="0 9 * * *", calendars={"exclude": ["off@1"]})
    await bench.runtime.advance(1.5 * DAY, step=HOUR)
    written = await put(bench, rules=[{"date": "2026-01-08"}])
    assert (written.version.version, written.is_new) == (2, False)
    assert (written.replanned.jobs, written.replanned.moved) == (1, 1)
    await bench.runtime.advance(2.5 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(7, 9), day(9, 9)]
    assert await made(bench, other) == [day(6, 9), day(8, 9), day(9, 9)]
    assert await left_out(bench, job_id) == [(day(8, 9), "calendar")]
    assert await is_even(bench, job_id)
    assert await is_even(bench, other)


async def test_a_new_version_in_the_middle_of_a_gap_records_what_has_passed(bench: Bench) -> None:
    await put(bench, rules=[{"from": "2026-01-06", "to": "2026-01-09"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.advance(2 * DAY, step=HOUR)
    await put(bench, rules=[{"date": "2026-01-06"}])
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await gaps(bench, job_id) == [(day(6, 9), day(7, 9), "calendar:off@1")]
    assert await made(bench, job_id) == [day(8, 9), day(9, 9)]
    assert await is_even(bench, job_id)


async def next_fire(bench: Bench, job_id: JobId) -> datetime | None:
    return (await bench.runtime.client.jobs.status(TENANT, job_id)).next_fire_at


async def test_what_a_calendar_keeps_out_for_good_is_on_record_when_another_version_opens_it(
    bench: Bench,
) -> None:
    await put(bench, rules=[{"from": "2026-01-05", "to": "2026-01-06"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"include": ["off"]})
    await bench.runtime.advance(4 * DAY, step=HOUR)  # the 9th, at noon
    assert await made(bench, job_id) == [day(6, 9)]
    assert await next_fire(bench, job_id) is None
    assert await is_even(bench, job_id)
    await put(bench, rules=[{"from": "2026-01-10", "to": "2026-01-11"}])
    assert await gaps(bench, job_id) == [(day(7, 9), day(9, 9), "calendar:off@1")]
    assert await next_fire(bench, job_id) == day(10, 9)
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(10, 9), day(11, 9)]
    assert await is_even(bench, job_id)


@pytest.mark.parametrize("change", ["pause", "delete", "edit"])
async def test_what_a_calendar_keeps_out_for_good_is_on_record_when_the_job_is_changed(
    bench: Bench, change: str
) -> None:
    await put(bench, rules=[{"date": "2026-01-06"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await put(bench, rules=[{"weekly": ["MON-SUN"]}])
    await bench.runtime.advance(3 * DAY, step=HOUR)
    jobs = bench.runtime.client.jobs
    if change == "edit":
        await jobs.edit(TENANT, job_id, {"calendars": {"exclude": []}})
    else:
        await getattr(jobs, change)(TENANT, job_id)
    found = await gaps(bench, job_id)
    assert found[0] == (day(6, 9), day(8, 9), "calendar:off@2")
    assert found[1:] == ([(day(9, 9), None, "paused")] if change == "pause" else [])


async def test_a_calendar_that_names_another_follows_it(bench: Bench) -> None:
    await put(bench, "base", rules=[{"date": "2026-01-07"}])
    await put(bench, rules=[{"union": ["base"]}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    written = await put(bench, "base", rules=[{"date": "2026-01-06"}])
    assert written.followers == ("off@2",)
    assert written.replanned.jobs == 1
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(7, 9)]


async def test_the_same_definition_again_makes_no_version(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    again = await put(bench, rules=[{"date": "2026-01-07"}])
    assert (again.version.version, again.is_new, again.replanned.jobs) == (1, False, 0)


async def test_what_a_dead_server_left_undone_is_done_by_another(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    store = bench.runtime.store
    (kept,) = await store.read_calendars(TENANT, [("off", None)])
    assert kept is not None
    body = {"rules": [{"date": "2026-01-06"}]}
    new = CalendarVersion(TENANT, "off", 2, read_calendar(body), {}, START)
    assert await store.write_calendars([new], revision=await store.read_calendar_revision())
    await bench.runtime.tick("calendars")
    assert await store.list_unsettled_jobs(limit=9) == []
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(7, 9)]


async def test_a_one_off_job_may_move_or_be_skipped(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    run_at = day(7, 9).isoformat()
    with pytest.raises(InvalidInput, match="let no fire"):
        await bench.add(run_at=run_at, calendars={"exclude": ["off"]})
    moved = await bench.add(run_at=run_at, calendars={"exclude": ["off"], "roll": "next"})
    await put(bench, "later", rules=[{"date": "2026-01-20"}])
    skipped = await bench.add(name="skipped", run_at=run_at, calendars={"exclude": ["later"]})
    await put(bench, "later", rules=[{"date": "2026-01-07"}])
    await bench.runtime.advance(4 * DAY, step=HOUR)
    assert await made(bench, moved) == [day(8, 9)]
    assert await left_out(bench, skipped) == [(day(7, 9), "calendar")]


async def test_pause_resume_and_edit_keep_to_the_calendar(bench: Bench) -> None:
    await put(bench, rules=[{"from": "2026-01-07", "to": "2026-01-08"}])
    jobs = bench.runtime.client.jobs
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.advance(DAY, step=HOUR)
    await jobs.pause(TENANT, job_id)
    await jobs.resume(TENANT, job_id)
    (trigger,) = await jobs.triggers([await jobs.get(TENANT, job_id)])
    assert (await jobs.status(TENANT, job_id)).next_fire_at == day(9, 9)
    assert trigger is not None
    await bench.runtime.advance(DAY, step=HOUR)
    await jobs.edit(TENANT, job_id, {"calendars": {"exclude": []}})
    assert await left_out(bench, job_id) == []
    assert await gaps(bench, job_id) == [(day(7, 9), day(7, 9), "calendar")]
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(6, 9), day(8, 9), day(9, 9)]
    assert await bench.runtime.store.read_calendar_uses([job_id]) == [()]
    await bench.runtime.client.calendars.delete(TENANT, "off")


async def test_a_catch_up_goes_by_the_versions_of_when_it_was_planned(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    body = {"exclude": ["off"]}
    job_id = await bench.add(cron="0 9 * * *", calendars=body, misfire="fire_all")
    bench.runtime.clock.advance(4 * DAY)
    await bench.runtime.tick("planner")
    assert await made(bench, job_id) == []
    await put(bench, rules=[{"date": "2026-01-08"}])
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"calendars": {"exclude": []}})
    await bench.runtime.advance(10)
    assert await made(bench, job_id) == [day(6, 9), day(8, 9), day(9, 9)]
    assert await is_even(bench, job_id)


async def test_what_was_kept_out_before_a_delete_or_a_pause_is_on_record_as_such(bench: Bench) -> None:
    await put(bench, rules=[{"from": "2026-01-06", "to": "2026-01-08"}])
    deleted = await bench.add(name="deleted", cron="0 9 * * *", calendars={"exclude": ["off"]})
    paused = await bench.add(name="paused", cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.advance(2 * DAY, step=HOUR)  # the 7th, at noon
    kept_out = (day(6, 9), day(7, 9), "calendar:off@1")
    await bench.runtime.client.jobs.delete(TENANT, deleted)
    assert await gaps(bench, deleted) == [kept_out]
    await bench.runtime.client.jobs.pause(TENANT, paused)
    assert await gaps(bench, paused) == [kept_out, (day(8, 9), None, "paused")]
    await bench.runtime.advance(2 * DAY, step=HOUR)
    await bench.runtime.client.jobs.resume(TENANT, paused)
    assert await gaps(bench, paused) == [kept_out, (day(8, 9), day(9, 12), "paused")]


async def test_a_new_version_moves_the_fires_of_a_paused_job_and_all_are_on_record(bench: Bench) -> None:
    await put(bench, rules=[{"from": "2026-01-06", "to": "2026-01-08"}])
    calendars = {"exclude": ["off"], "roll": "next"}
    job_id = await bench.add(cron="0 9 5-8 * *", calendars=calendars)
    jobs = bench.runtime.client.jobs
    await jobs.pause(TENANT, job_id)
    assert await gaps(bench, job_id) == [(day(9, 9), None, "paused")]
    await put(bench, rules=[{"date": "2026-01-08"}])  # the fires of the 6th and 7th are to be made after all
    assert await gaps(bench, job_id) == [(day(6, 9), None, "paused")]
    await bench.runtime.advance(DAY, step=HOUR)
    await put(bench, rules=[{"date": "2026-01-07"}])
    assert await gaps(bench, job_id) == [(day(6, 9), day(6, 12), "paused"), (day(8, 9), None, "paused")]
    await bench.runtime.advance(DAY, step=HOUR)
    await put(bench, rules=[{"from": "2026-01-07", "to": "2026-01-08"}])
    await jobs.resume(TENANT, job_id)
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await gaps(bench, job_id) == [(day(6, 9), day(6, 12), "paused")]
    assert await made(bench, job_id) == [day(9, 9)]
    assert await is_even(bench, job_id)


async def test_a_pause_after_failures_keeps_its_reason_when_a_calendar_changes(bench: Bench) -> None:
    job = await bench.runtime.client.jobs.get(TENANT, await bench.add(cron="0 9 * * *"))
    stopped = replace(job, is_paused=True, next_fire_at=None, pause_note=pause_note(3))
    later = replace(job.spec, trigger=Cron("0 10 * * *"))
    plan = make_replan(stopped, job.spec, later, CalendarUses(0, ()), START)
    assert [(one.from_at, one.reason) for one in plan.fire_ranges] == [(day(6, 10), "failures")]
    assert plan.ends_gap


async def test_a_new_version_that_moves_nothing_leaves_the_gap_of_a_paused_job_alone(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    await bench.runtime.advance(DAY, step=HOUR)
    await put(bench, rules=[{"date": "2026-01-08"}])
    assert await gaps(bench, job_id) == [(day(6, 9), None, "paused")]


async def test_what_is_used_is_not_deleted(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    calendars = bench.runtime.client.calendars
    await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    with pytest.raises(Conflict, match="used by the job 'job'"):
        await calendars.delete(TENANT, "off")
    await put(bench, "base", rules=[{"date": "2026-01-07"}])
    await put(bench, "over", rules=[{"union": ["base"]}])
    with pytest.raises(Conflict, match="named by the calendar 'over'"):
        await calendars.delete(TENANT, "base")
    await calendars.delete(TENANT, "over")
    await calendars.delete(TENANT, "base")
    with pytest.raises(NotFound):
        await calendars.get(TENANT, "base")
    with pytest.raises(NotFound):
        await calendars.delete(TENANT, "base")


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"calendars": {"exclude": ["nope"]}}, "calendars.exclude", "there is no calendar 'nope'"),
        ({"calendars": {"include": ["off@9"]}}, "calendars.include", "there is no calendar 'off@9'"),
        ({"calendars": {"exclude": ["off", "off@1"]}}, "calendars", "names 'off' twice"),
        ({"calendars": {"roll": "next"}}, "calendars.roll", "goes with include or exclude"),
        ({"calendars": {"include": ["off"]}, "cron": "0 9 * 2 *"}, "calendars", "let no fire"),
        (
            {"calendars": {"exclude": ["off"], "roll": "next"}, "cron": "* * * * *"},
            "calendars.roll",
            "24 times",
        ),
        ({"calendars": {"exclude": ["off"]}, "cron": None}, "calendars", "needs a trigger"),
    ],
)
async def test_what_cannot_be_right_is_refused(
    bench: Bench, fields: dict[str, Any], field: str, message: str
) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    with pytest.raises(InvalidInput, match=message) as caught:
        await bench.add(**{"cron": "0 9 * * *"} | fields)
    assert caught.value.field == field
    assert await bench.runtime.store.list_jobs(TENANT) == []


async def test_a_preview_stores_nothing_and_says_what_becomes_of_each_fire(bench: Bench) -> None:
    await put(bench, tz="Europe/Berlin", rules=[{"date": "2026-03-29"}])
    body = {"cron": "30 2 * * *", "tz": "Europe/Berlin", "calendars": {"exclude": ["off"]}}
    start = datetime(2026, 3, 28, tzinfo=UTC)
    fires = (await bench.runtime.client.jobs.preview(TENANT, body, after=start, count=3)).fires
    assert [(one.local.isoformat(), one.excluded_by, one.dst) for one in fires] == [
        ("2026-03-28T02:30:00+01:00", None, None),
        ("2026-03-29T03:00:00+02:00", "off@1", "gap"),
        ("2026-03-30T02:30:00+02:00", None, None),
    ]
    assert await bench.runtime.store.list_jobs(TENANT) == []


async def test_many_jobs_are_set_some_hundred_at_a_time(bench: Bench) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    bodies = [
        {"name": f"job-{number}", "function": "work", "cron": "0 9 * * *", "calendars": {"exclude": ["off"]}}
        for number in range(1000)
    ]
    await bench.runtime.client.jobs.create_many(TENANT, bodies)
    written = await put(bench, rules=[{"date": "2026-01-06"}])
    assert (written.replanned.jobs, written.replanned.moved) == (1000, 1000)


async def test_a_calendar_that_cannot_be_read_here_holds_up_no_other_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(bench, rules=[{"date": "2026-01-07"}])
    await put(bench, "far", tz="Europe/Berlin", rules=[{"date": "2026-01-08"}])
    stuck = await bench.add(name="stuck", cron="0 9 * * *", calendars={"exclude": ["off", "far"]})
    job_id = await bench.add(cron="0 9 * * *", calendars={"exclude": ["off"]})
    know = resolve

    def forget(version: CalendarVersion, find: Any) -> Any:
        if version.name == "far":
            raise ValueError("there is no such zone")
        return know(version, find)

    monkeypatch.setattr("mainspring.engine.common.calendars.resolve", forget)
    bench.runtime.services["backfills"]._fires._calendars._resolved.clear()  # type: ignore[attr-defined]
    written = await put(bench, rules=[{"date": "2026-01-06"}])
    assert (written.replanned.jobs, written.replanned.is_done) == (1, False)
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert await made(bench, job_id) == [day(7, 9)]
    assert await made(bench, stuck) == []
    monkeypatch.setattr("mainspring.engine.common.calendars.resolve", know)
    await bench.runtime.advance(2 * DAY, step=HOUR)
    assert (await made(bench, stuck))[-1] == day(9, 9)


def test_the_clock_of_these_tests_starts_on_a_monday() -> None:
    assert (START.date(), START.weekday()) == (day(5).date(), 0)
    assert timedelta(days=1).total_seconds() == DAY
