"""Schedulers of APScheduler 3: fires are those of the real triggers, and stores are read without harm."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from mainspring.core.definition import read_definition
from mainspring.core.triggers import next_fires
from mainspring.errors import InvalidInput
from mainspring.importers.apscheduler import read_scheduler
from mainspring.importers.apscheduler_trigger import ask_fires, read_trigger
from mainspring.importers.found import Imported

NOW = datetime(2026, 1, 14, 10, 7, 31, 250, tzinfo=UTC)
LATER = datetime(2026, 1, 20, 6, tzinfo=UTC)


class Mailer:
    def send(self) -> None: ...

    @classmethod
    def flush(cls) -> None: ...


def ours(trigger: Any, now: datetime = NOW) -> list[datetime]:
    body = {"name": "x", "function": "x", **read_trigger(trigger)}
    made = read_definition(body, now=now).trigger
    assert made is not None
    return next_fires(made, now, 20)


CRONS: list[dict[str, Any]] = [
    {"second": "*/5"},
    {"hour": "*/3"},
    {"minute": "*/15", "second": "30"},
    {"month": "6-8,11-12", "day": "3rd fri", "hour": "0-3"},
    {"day_of_week": "mon-fri", "hour": 5, "minute": 30},
    {"day_of_week": 0, "hour": 9},
    {"day_of_week": "6", "hour": 9},
    {"day_of_week": "0-4", "hour": 9},
    {"day_of_week": "*/2", "hour": 9},
    {"day": "last", "hour": 23, "minute": 59},
    {"day": "last fri"},
    {"day": "1st mon,3rd mon,last"},
    {"day": "1,15,last sun"},
    {"day": "31"},
    {"day": "1-7", "day_of_week": "mon"},
    {"day": "1,15", "day_of_week": "mon-fri"},
    {"day": "13", "day_of_week": "sun,fri"},
    {"month": "feb", "day": 29},
    {"year": "2026-2027", "day": 1},
    {"year": 2027},
    {"year": "2027-2090", "month": "*/4"},
    {"week": "*", "day_of_week": "tue", "hour": "22-23"},
    {"day": "*/10"},
    {"minute": "5/20"},
    {"hour": 1, "start_date": "2026-02-01 12:00:00", "end_date": "2026-02-11 00:00:00"},
    {"hour": 1, "year": 2026, "end_date": "2027-02-11 00:00:00"},
]


@pytest.mark.parametrize("fields", CRONS, ids=repr)
@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo"])
def test_the_first_twenty_fires_of_crons(fields: dict[str, Any], tz: str) -> None:
    trigger = CronTrigger(**fields, timezone=tz)
    theirs = ask_fires(trigger, NOW, 20)
    assert theirs
    assert ours(trigger) == list(theirs)


@pytest.mark.parametrize(
    "text", ["0 9 * * 0", "0 9 * * mon", "*/20 8-18 * * 0-4", "0 0 1,15 * *", "0 0 1-7 * 2"]
)
def test_crontabs_of_its_own_kind_begin_the_week_with_monday(text: str) -> None:
    trigger = CronTrigger.from_crontab(text, timezone="Asia/Tokyo")
    assert ours(trigger) == list(ask_fires(trigger, NOW, 20))


OTHERS: list[Any] = [
    DateTrigger(LATER, "UTC"),
    DateTrigger("2026-03-01 09:00:00", "Europe/Berlin"),
    IntervalTrigger(minutes=10, start_date=LATER),
    IntervalTrigger(hours=2, start_date=datetime(2025, 1, 1, 0, 0, 7, tzinfo=UTC)),
    IntervalTrigger(weeks=1, days=1, start_date="2026-01-01 00:00:00", timezone="Asia/Tokyo"),
    IntervalTrigger(hours=5, start_date=LATER, end_date=LATER + timedelta(days=2), timezone="UTC"),
    IntervalTrigger(seconds=90, start_date=NOW, jitter=30),
    CalendarIntervalTrigger(months=3, start_date="2026-01-15", hour=9, timezone="Europe/Berlin"),
    CalendarIntervalTrigger(years=1, start_date="2020-02-10", timezone="UTC"),
    CalendarIntervalTrigger(years=1, months=1, start_date="2026-01-28", minute=5, second=7, timezone="UTC"),
    CalendarIntervalTrigger(weeks=2, start_date="2026-01-14", hour=12, timezone="America/New_York"),
    CalendarIntervalTrigger(days=3, start_date="2026-01-01", end_date="2026-02-14", hour=3, timezone="UTC"),
    OrTrigger(
        [CronTrigger(hour=2, timezone="UTC"), CronTrigger(day_of_week="sun", hour="2,3", timezone="UTC")]
    ),
]


@pytest.mark.parametrize("trigger", OTHERS, ids=repr)
def test_the_first_twenty_fires_of_others(trigger: Any) -> None:
    theirs = ask_fires(trigger, NOW, 20)
    assert theirs
    assert ours(trigger) == list(theirs)


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        (CronTrigger(week=5), "week"),
        (CronTrigger(week="*/2"), "week"),
        (CronTrigger(year="2026,2028"), "year"),
        (CronTrigger(year="*/2"), "year"),
        (CronTrigger(day="13", day_of_week="fri"), "day_of_week"),
        (CronTrigger(day="last", day_of_week="fri"), "day"),
        (CalendarIntervalTrigger(months=1, start_date="2026-01-31"), "start_date"),
        (CalendarIntervalTrigger(months=1, days=1), "trigger"),
        (AndTrigger([CronTrigger(hour=2)]), "trigger"),
        (object(), "trigger"),
    ],
)
def test_what_cannot_be_said_is_refused(trigger: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_trigger(trigger)
    assert caught.value.field == field


# What differs on the days on which clocks change.
SPRING, AUTUMN = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
CHANGES: list[tuple[datetime, dict[str, Any], list[str], list[str]]] = [
    (SPRING, {"hour": 12}, [], []),
    (AUTUMN, {"hour": 12}, [], []),
    (SPRING, {"hour": 0}, ["2026-03-29T22:00"], ["2026-04-17T22:00"]),  # it leaves the day after out
    (AUTUMN, {"hour": 0}, [], []),
    (SPRING, {"hour": 2, "minute": 30}, ["2026-03-29T01:00"], ["2026-03-29T01:30"]),
    (AUTUMN, {"hour": 2, "minute": 30}, [], []),
    (SPRING, {"minute": 0}, [], []),
    (AUTUMN, {"minute": 0}, [], []),
    (SPRING, {"minute": "*/15"}, [], []),
    (AUTUMN, {"minute": "*/15"}, [], []),
    (SPRING, {"hour": "*/2"}, ["2026-03-30T04:00"], ["2026-03-29T01:00"]),
    (AUTUMN, {"hour": "*/2"}, [], []),
]


@pytest.mark.parametrize(("now", "fields", "only_ours", "only_theirs"), CHANGES, ids=repr)
def test_what_differs_where_clocks_change(
    now: datetime, fields: dict[str, Any], only_ours: list[str], only_theirs: list[str]
) -> None:
    one = CronTrigger(**fields, timezone="Europe/Berlin")
    mine, theirs = set(ours(one, now)), set(ask_fires(one, now, 20))
    assert [f"{fire:%Y-%m-%dT%H:%M}" for fire in sorted(mine - theirs)] == only_ours
    assert [f"{fire:%Y-%m-%dT%H:%M}" for fire in sorted(theirs - mine)] == only_theirs


def test_a_date_beside_others_is_not_lost() -> None:
    trigger = OrTrigger([CronTrigger(hour=2, timezone="UTC"), DateTrigger(LATER, "UTC")])
    assert LATER not in ask_fires(trigger, NOW, 20)
    assert LATER in ours(trigger)


def work(*args: Any, **kwargs: Any) -> None:
    """A job's function; it takes anything."""


def other(number: int, word: str = "") -> None:
    """Another one."""


HERE = "jobs_of_apscheduler"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose functions can be found by name, as those of a user can."""
    made = ModuleType(HERE)
    for function in (work, other):
        setattr(made, function.__name__, function)
    monkeypatch.setitem(sys.modules, HERE, made)
    return made


def read(scheduler: Any) -> Imported:
    return read_scheduler(scheduler, now=NOW, fires=20)


def make_scheduler(**stores: Any) -> BackgroundScheduler:
    return BackgroundScheduler(jobstores=stores, timezone="UTC")


def test_a_job_is_a_job(module: ModuleType) -> None:
    scheduler = make_scheduler()
    scheduler.add_job(
        f"{HERE}:other",
        CronTrigger(hour=3, jitter=30, timezone="UTC"),
        id="nightly",
        args=[1],
        kwargs={"word": "x"},
        misfire_grace_time=600,
    )
    (entry,) = read(scheduler).entries
    assert entry.body == {
        "name": "nightly",
        "function": "nightly",
        "cron": "0 3 * * *",
        "tz": "UTC",
        "dst": "after/both",
        "jitter": 30,
        "payload": {"number": 1, "word": "x"},
        "overlap": "skip",
        "misfire": {"policy": "skip", "grace": 600},
        "retry": {"max_retries": 0},
    }
    assert entry.theirs is not None
    assert entry.next_fires(NOW, 20) == list(entry.theirs)
    assert (entry.call, entry.needs) == (f"{HERE}_.other", f"import {HERE} as {HERE}_")


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, {"overlap": "skip"}),
        ({"max_instances": 3}, {"concurrency": 3}),
        ({"coalesce": False}, {"overlap": "skip", "misfire": "fire_all"}),
        ({"misfire_grace_time": None}, {"overlap": "skip"}),
        ({"misfire_grace_time": None, "coalesce": False}, {"overlap": "skip", "misfire": "fire_all"}),
    ],
    ids=repr,
)
def test_policies(module: ModuleType, options: dict[str, Any], fields: dict[str, Any]) -> None:
    scheduler = make_scheduler()
    scheduler.add_job(f"{HERE}:work", "interval", minutes=5, id="a", **options)
    (entry,) = read(scheduler).entries
    assert {
        field: entry.body[field] for field in ("overlap", "concurrency", "misfire") if field in entry.body
    } == fields


def test_names(module: ModuleType) -> None:
    scheduler = make_scheduler()
    scheduler.add_job(f"{HERE}:work", "interval", hours=1)
    scheduler.add_job(f"{HERE}:work", "interval", hours=2)
    scheduler.add_job(f"{HERE}:work", "interval", hours=2, name="twice")
    found = read(scheduler)
    assert [entry.name for entry in found.entries] == ["work", "twice"]
    assert [problem.field for problem in found.problems] == ["name"]


def test_what_cannot_be_moved_is_named(module: ModuleType) -> None:
    scheduler = make_scheduler()
    scheduler.add_job(lambda: None, "interval", hours=1, id="unnamed")
    scheduler.add_job(Mailer().send, "interval", hours=1, id="of-an-object")
    never = AndTrigger([CronTrigger(minute=1), CronTrigger(minute=2)])
    scheduler.add_job(f"{HERE}:work", never, id="never")
    scheduler.add_job(f"{HERE}:work", "interval", hours=1, id="no-json", args=[NOW])
    scheduler.add_job(f"{HERE}:work", "cron", week=5, id="week")
    scheduler.add_job(f"{HERE}:work", "date", run_date="2020-01-01 00:00:00", id="gone")
    scheduler.add_job(f"{HERE}:work", "interval", hours=1, id="paused", next_run_time=None)
    found = read(scheduler)
    assert found.entries == ()
    assert [(problem.place, problem.field) for problem in found.problems] == [
        ("job 'unnamed'", "func"),
        ("job 'of-an-object'", "func"),
        ("job 'never'", "trigger"),
        ("job 'no-json'", "args"),
        ("job 'week'", "week"),
        ("job 'paused'", "next_run_time"),
    ]
    assert [note.place for note in found.notes] == ["job 'gone'"]


def test_a_method_of_a_class_can_be_moved() -> None:
    scheduler = make_scheduler()
    scheduler.add_job(Mailer.flush, "interval", hours=1, id="flush")
    (entry,) = read(scheduler).entries
    assert entry.call is not None
    assert entry.call.endswith(".Mailer.flush")


def test_stored_jobs_are_read_and_none_is_lost(module: ModuleType, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.sqlite'}"

    def make() -> BackgroundScheduler:
        return make_scheduler(default=SQLAlchemyJobStore(url=url), memory=MemoryJobStore())

    scheduler = make()
    scheduler.start(paused=True)
    scheduler.add_job(f"{HERE}:work", "interval", hours=1, id="kept")
    scheduler.add_job(f"{HERE}:other", "interval", hours=1, id="lost", args=[1])
    scheduler.shutdown()
    del module.other  # as if its package was not installed here
    for _ in range(2):
        scheduler = make()
        scheduler.add_job(f"{HERE}:work", "interval", hours=2, id="pending", jobstore="memory")
        found = read(scheduler)
        assert [entry.name for entry in found.entries] == ["kept", "pending"]
        (problem,) = found.problems
        assert (problem.place, problem.field) == ("job store 'default'", "func")
        assert "other" in problem.message
        assert not scheduler.running


def test_a_store_that_is_away_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'no' / 'folder.sqlite'}"
    (problem,) = read(make_scheduler(default=SQLAlchemyJobStore(url=url))).problems
    assert (problem.place, problem.field) == ("job store 'default'", "store")


def test_a_scheduler_that_runs_is_read_with_a_note(module: ModuleType) -> None:
    scheduler = make_scheduler()
    scheduler.start(paused=True)
    try:
        scheduler.add_job(f"{HERE}:work", "interval", hours=1, id="a")
        found = read(scheduler)
    finally:
        scheduler.shutdown()
    assert [entry.name for entry in found.entries] == ["a"]
    assert "was started by its module" in found.notes[0].message
