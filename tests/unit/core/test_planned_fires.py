"""The fires that schedules give, hour by hour, and what capacity makes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core import planned_fires
from mainspring.core.capacity import AHEAD, DAY, HOUR, expect
from mainspring.core.definition import read_definition
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.planned_fires import MOST_IN_HOUR, PlannedFires
from mainspring.core.triggers import UnknownTrigger
from mainspring.core.usage import Times, Usage, UsageLine

NOW = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)


def job(queue: str = "mail", **body: Any) -> Job:
    spec = read_definition({"name": "report", "function": "work", "queue": queue, **body}, now=NOW)
    assert spec.trigger is not None
    return Job(
        id=JobId(UUID(int=1)),
        tenant="shop",
        spec=spec,
        version=1,
        revision=1,
        is_paused=False,
        next_fire_at=spec.trigger.next_after(NOW) if "after_end" not in body else None,
        fired_through=None,
        created_at=NOW,
        updated_at=NOW,
    )


def plan(*jobs: Job) -> PlannedFires:
    planned = PlannedFires(NOW, AHEAD)
    for one in jobs:
        planned.add(one, one.spec.trigger)
    return planned


def by_hour(planned: PlannedFires, queue: str = "mail") -> list[float]:
    return [planned.fires(queue, hour) for hour in range(AHEAD)]


def test_fires_are_counted_by_the_hour_with_all_of_this_one() -> None:
    planned = plan(job(cron="0,15 * * * *"), job(cron="0 2 * * *"), job("reports", cron="10 13 * * *"))
    expected = [2.0] * AHEAD
    expected[14] += 1  # 02:00
    assert by_hour(planned) == expected
    assert by_hour(planned, "reports") == [0.0, 1.0, *[0.0] * 22]
    assert planned.queues == {"mail", "reports"}
    assert planned.knows_all("mail")
    assert by_hour(planned, "nothing") == [0.0] * AHEAD


def test_what_will_not_fire_is_not_counted() -> None:
    hourly = job(cron="0 * * * *")
    planned = plan(
        replace(hourly, is_paused=True, next_fire_at=None),
        replace(hourly, next_fire_at=None),  # finished
    )
    assert by_hour(planned) == [0.0] * AHEAD
    assert planned.knows_all("mail")
    few = plan(replace(hourly, fires_left=3))
    assert by_hour(few) == [1.0, 1.0, 1.0, 1.0, *[0.0] * 20]  # that of 12:00 has been


def test_of_what_no_rule_gives_the_past_has_to_tell() -> None:
    other = job(cron="0 * * * *")
    unknown = replace(other, spec=replace(other.spec, trigger=UnknownTrigger({"type": "tides"})))
    after = job(after_end="5m")
    for one in (unknown, after):
        planned = plan(one)
        assert not planned.knows_all("mail")
        assert planned.knows_all("reports")


@pytest.mark.parametrize(("every", "an_hour"), [("1s", 3600), ("10s", 360), ("1m", 60), ("90s", 40)])
def test_what_fires_often_costs_no_more_and_goes_on_at_its_rate(every: str, an_hour: int) -> None:
    planned = plan(job(every=every))  # from half past twelve on
    assert planned.steps <= MOST_IN_HOUR * AHEAD
    assert by_hour(planned) == pytest.approx([an_hour / 2, *[an_hour] * (AHEAD - 1)], rel=0.02, abs=1)


def test_what_fires_often_within_hours_does_not_fire_in_others() -> None:
    found = by_hour(plan(job(cron="* * 9-10 * * *")))
    assert found == pytest.approx([0] * 21 + [3600, 3600] + [0], rel=0.02)
    few = by_hour(plan(replace(job(cron="* * 9-10 * * *"), fires_left=100)))
    assert sum(few) == 100


@settings(max_examples=50)
@given(st.integers(1, 59), st.integers(0, 23))
def test_no_fire_of_a_day_is_lost_or_counted_twice(minute: int, hour: int) -> None:
    planned = plan(job(cron=f"{minute} {hour} * * *"))
    assert sum(by_hour(planned)) == 1
    assert by_hour(planned)[(hour - 12) % 24] == 1


def test_there_is_an_end_to_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_fires, "MOST_STEPS", 100)
    planned = plan(*[job(cron="* * * * *")])
    assert not planned.has_room
    monkeypatch.setattr(planned_fires, "MOST_STEPS", 10**6)
    assert planned.has_room
    monkeypatch.setattr(planned_fires, "MOST_JOBS", 1)
    assert not planned.has_room


def line(hours_ago: int, *, submitted: int = 0, fired: int = 0, queue: str = "mail") -> UsageLine:
    runs = submitted + fired
    usage = Usage(submitted=submitted, fired=fired, succeeded=runs, durations=Times(total=runs * 2.0))
    return UsageLine(at=THIS_HOUR - hours_ago * HOUR, tenant="shop", queue=queue, usage=usage)


def test_fires_are_taken_from_the_schedules_and_submissions_from_the_past() -> None:
    past = [line(hours, submitted=10, fired=99) for hours in range(1, 25)]
    demand = expect(past, NOW, plan(job(cron="0 2 * * *")))["mail"]
    assert demand.by_hour[0] == 10.0  # what fired 99 times an hour is gone
    assert demand.by_hour[14] == 11.0
    assert demand.seconds == 2.0


def test_a_new_job_is_expected_and_takes_as_long_as_the_others() -> None:
    demands = expect([line(1, submitted=10)], NOW, plan(job("night", cron="*/2 2 * * *")))
    assert demands["night"].by_hour[14] == 30.0
    assert demands["night"].seconds == 2.0
    assert sum(demands["night"].by_hour) == 30.0


def test_where_not_all_jobs_were_looked_at_no_less_is_expected_than_there_was() -> None:
    past = [line(hours, fired=7) for hours in range(1, 25)]
    planned = plan(job(cron="*/5 2 * * *"))
    planned.is_whole = False
    by_hour = expect(past, NOW, planned)["mail"].by_hour
    assert (by_hour[0], by_hour[14]) == (7.0, 12.0)


def test_without_a_past_nothing_is_expected() -> None:
    assert expect([], NOW, plan(job(cron="0 * * * *"))) == {}
    assert timedelta(days=1) == DAY
