"""Celery apps: beat's fires are those of the real one, and options keep their meaning."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.schedules import crontab, schedule, solar

from mainspring.cli.imported_canvas import weave
from mainspring.core.definition import read_definition
from mainspring.core.triggers import next_fires
from mainspring.errors import InvalidInput
from mainspring.importers.celery import read_celery
from mainspring.importers.celery_schedule import ask_fires, read_schedule
from mainspring.importers.found import Imported, ImportedJob

NOW = datetime(2026, 1, 14, 10, 7, 31, 250, tzinfo=UTC)


def make_app(tz: str = "UTC") -> Celery:
    app = Celery("shop", set_as_current=False)
    app.conf.timezone = tz
    return app


def nothing() -> None:
    """A task."""


def ours(kept: Any, now: datetime) -> list[datetime]:
    body = {"name": "x", "function": "x", **read_schedule(kept, now)}
    trigger = read_definition(body, now=now).trigger
    assert trigger is not None
    return next_fires(trigger, now, 20)


DOCUMENTED: list[dict[str, Any]] = [
    {},
    {"minute": 0, "hour": 0},
    {"minute": 0, "hour": "*/3"},
    {"minute": 0, "hour": "0,3,6,9,12,15,18,21"},
    {"minute": "*/15"},
    {"day_of_week": "sunday"},
    {"minute": "*", "hour": "*", "day_of_week": "sun"},
    {"minute": "*/10", "hour": "3,17,22", "day_of_week": "thu,fri"},
    {"minute": 0, "hour": "*/2,*/3"},
    {"minute": 0, "hour": "*/5"},
    {"minute": 0, "hour": "*/3,8-17"},
    {"minute": 0, "hour": 0, "day_of_month": "2"},
    {"minute": 0, "hour": 0, "day_of_month": "2-30/2"},
    {"minute": 0, "hour": 0, "day_of_month": "1-7,15-21"},
    {"minute": 0, "hour": 0, "day_of_month": "11", "month_of_year": "5"},
    {"minute": 0, "hour": 0, "month_of_year": "*/3"},
    {"minute": 30, "hour": 7, "day_of_week": 1},
    {"minute": 0, "hour": 9, "day_of_week": "mon", "day_of_month": "1-7"},
    {"minute": 0, "hour": 9, "day_of_week": "1", "day_of_month": "1-7,15-21"},
    {"minute": 0, "hour": 9, "day_of_week": "1", "day_of_month": "8-14,22-28"},
    {"minute": 0, "hour": 9, "day_of_week": "mon-fri", "day_of_month": "1,15"},
    {"minute": 0, "hour": 9, "day_of_week": "0,6", "day_of_month": "13"},
    {"minute": 0, "hour": 9, "day_of_week": "0", "day_of_month": "*/7"},
    {"minute": {0, 30}, "hour": [6, 18]},
    {"minute": 0, "hour": 0, "day_of_month": "31"},
    {"minute": 0, "hour": 0, "day_of_month": "29", "month_of_year": "2"},
]


@pytest.mark.parametrize("arguments", DOCUMENTED, ids=repr)
@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo"])
def test_the_first_twenty_fires_of_crontabs(arguments: dict[str, Any], tz: str) -> None:
    one = crontab(**arguments, app=make_app(tz))
    theirs = ask_fires(one, NOW, 20)
    assert len(theirs) == 20
    assert ours(one, NOW) == list(theirs)


PERIODS: list[dict[str, float]] = [
    {"seconds": 30},
    {"seconds": 90.5},
    {"minutes": 10},
    {"hours": 2},
    {"hours": 25},
    {"days": 1},
    {"days": 2},
]


@pytest.mark.parametrize("every", [timedelta(**period) for period in PERIODS], ids=str)
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo"])
def test_the_first_twenty_fires_of_intervals(every: timedelta, relative: bool, tz: str) -> None:
    one = schedule(every, relative=relative, app=make_app(tz))
    assert ours(one, NOW) == list(ask_fires(one, NOW, 20))


# What differs on the days on which clocks change: beat reckons by the wall.
SPRING, AUTUMN = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
CHANGES: list[tuple[datetime, dict[str, Any], list[str], list[str]]] = [
    (SPRING, {"minute": 0, "hour": 12}, [], []),
    (AUTUMN, {"minute": 0, "hour": 12}, [], []),
    (SPRING, {"minute": 0, "hour": 0}, [], []),
    (AUTUMN, {"minute": 0, "hour": 0}, [], []),
    (SPRING, {"minute": 30, "hour": 2}, ["2026-03-29T01:00"], ["2026-03-29T01:30"]),
    (AUTUMN, {"minute": 30, "hour": 2}, [], []),
    (SPRING, {"minute": "*/15"}, [], []),
    (AUTUMN, {"minute": "*/15"}, [], []),
    (SPRING, {"minute": 0}, [], []),
    (AUTUMN, {"minute": 0}, ["2026-10-25T01:00"], ["2026-10-25T09:00"]),
    (SPRING, {"minute": 0, "hour": "*/2"}, ["2026-03-30T04:00"], ["2026-03-29T01:00"]),
    (AUTUMN, {"minute": 0, "hour": "*/2"}, ["2026-10-25T01:00"], ["2026-10-26T05:00"]),
]


@pytest.mark.parametrize(("now", "arguments", "only_ours", "only_theirs"), CHANGES, ids=repr)
def test_what_differs_where_clocks_change(
    now: datetime, arguments: dict[str, Any], only_ours: list[str], only_theirs: list[str]
) -> None:
    one = crontab(**arguments, app=make_app("Europe/Berlin"))
    mine, theirs = set(ours(one, now)), set(ask_fires(one, now, 20))
    assert [f"{fire:%Y-%m-%dT%H:%M}" for fire in sorted(mine - theirs)] == only_ours
    assert [f"{fire:%Y-%m-%dT%H:%M}" for fire in sorted(theirs - mine)] == only_theirs


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (solar.__new__(solar), "solar events"),
        (type("_Odd", (schedule,), {})(30), "_Odd; only crontab"),
        (crontab(day_of_week="fri", day_of_month="13", app=make_app()), "which cron cannot say"),
    ],
)
def test_schedules_that_cannot_be_had_are_refused_with_a_way_on(kept: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_schedule(kept, NOW)


def read(app: Celery) -> Imported:
    return read_celery(app, "shop.celery:app", now=NOW, fires=20, weave=weave)


def task_body(**options: Any) -> dict[str, Any]:
    app = make_app()

    @app.task(shared=False, name="t", **options)
    def task() -> None: ...

    found = read(app)
    assert found.problems == ()
    (entry,) = found.entries
    assert entry.body["name"] == entry.body["function"] == "t"
    assert entry.call == 'celery_app.tasks["t"].run'
    assert entry.theirs is None
    return {field: value for field, value in entry.body.items() if field not in {"name", "function"}}


ONCE = {"retry": {"max_retries": 0}}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ({}, ONCE),
        ({"queue": "mail"}, {"queue": "mail", **ONCE}),
        ({"queue": "celery"}, ONCE),
        ({"rate_limit": "10/m"}, {**ONCE, "rate": "10/m"}),
        ({"rate_limit": 5}, {**ONCE, "rate": "5/s"}),
        ({"rate_limit": "0.5/s"}, {**ONCE, "rate": "30/m"}),
        ({"time_limit": 60, "soft_time_limit": 50}, {**ONCE, "timeout": 60, "soft_timeout": 50}),
        ({"expires": 90}, {**ONCE, "expires_after": 90.0}),
        ({"autoretry_for": (Exception,)}, {"retry": {"max_retries": 3, "backoff": "fixed", "delay": 180}}),
        (
            {"autoretry_for": (OSError,), "retry_backoff": 5, "retry_backoff_max": 90, "max_retries": 7},
            {
                "retry": {
                    "max_retries": 7,
                    "backoff": "exponential",
                    "delay": 5,
                    "cap": 90,
                    "rules": [{"on": ["OSError"], "then": "retry"}, {"on": "any", "then": "fail"}],
                }
            },
        ),
        (
            {
                "autoretry_for": (Exception,),
                "dont_autoretry_for": (InvalidInput,),
                "retry_kwargs": {"max_retries": 1, "countdown": 2},
            },
            {
                "retry": {
                    "max_retries": 1,
                    "backoff": "fixed",
                    "delay": 2,
                    "rules": [{"on": ["mainspring.errors.InvalidInput"], "then": "fail"}],
                }
            },
        ),
    ],
    ids=repr,
)
def test_options_of_tasks(options: dict[str, Any], body: dict[str, Any]) -> None:
    assert task_body(**options) == body


def test_a_task_that_retries_itself_is_retried() -> None:
    app = make_app()

    @app.task(shared=False, name="t", bind=True, max_retries=None, default_retry_delay=7)
    def task(self: Any) -> None:
        raise self.retry()

    found = read(app)
    assert found.entries[0].body["retry"] == {"max_retries": 1000, "backoff": "fixed", "delay": 7}
    assert [
        word in note.message for note, word in zip(found.notes, ("without end", "self.retry"), strict=True)
    ]


@pytest.mark.parametrize("rate", ["x/m", "10/w", "-", "0.3/d"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    app = make_app()
    app.task(shared=False, name="t", rate_limit=rate)(nothing)
    assert [problem.field for problem in read(app).problems] == ["rate_limit"]


def test_routes_of_the_app_give_the_queue() -> None:
    app = make_app()
    app.conf.task_routes = {"mail.*": {"queue": "mail"}}
    app.conf.task_time_limit = 300
    app.task(shared=False, name="mail.send")(nothing)
    (entry,) = read(app).entries
    assert (entry.body["queue"], entry.body["timeout"]) == ("mail", 300)


def beat(**entries: Any) -> Imported:
    app = make_app("Europe/Berlin")

    @app.task(shared=False, name="t")
    def task(number: int = 0, *, word: str = "") -> None: ...

    app.conf.beat_schedule = entries
    return read(app)


def beat_only(**entry: Any) -> ImportedJob:
    found = beat(nightly={"task": "t", "schedule": crontab(hour=3, minute=0), **entry})
    assert found.problems == ()
    return found.entries[1]


def test_an_entry_of_the_beat_is_a_job_with_a_trigger() -> None:
    entry = beat_only(options={"expires": timedelta(minutes=5), "queue": "night"}, args=(4,))
    assert entry.body == {
        "name": "nightly",
        "function": "nightly",
        "queue": "night",
        "retry": {"max_retries": 0},
        "expires_after": 300.0,
        "cron": "0 3 * * *",
        "tz": "Europe/Berlin",
        "payload": [4],
    }
    assert entry.theirs is not None
    assert entry.next_fires(NOW, 20) == list(entry.theirs)


def test_arguments() -> None:
    assert "payload" not in beat_only().body
    assert beat_only(kwargs={"number": 1}).body["payload"] == {"number": 1}
    assert beat_only(args=(1,), kwargs={"word": "x"}).body["payload"] == {"number": 1, "word": "x"}


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"task": "gone"}, "task"),
        ({"task": "celery.chain"}, "task"),
        ({"schedule": None}, "schedule"),
        ({"schedule": timedelta(milliseconds=5)}, "every"),
        ({"args": (NOW,)}, "args"),
        ({"args": (1, 2), "kwargs": {"word": "x"}}, "args"),
        ({"args": (1, 2)}, "args"),
        ({"kwargs": {"words": "x"}}, "args"),
        ({"args": (float("nan"),)}, "args"),
        ({"options": {"link": 1}}, "link"),
        ({"options": {"link_error": 1}}, "link_error"),
        ({"task": "celery.chain", "kwargs": {"tasks": []}}, "tasks"),
        ({"options": {"expires": "soon"}}, "expires"),
    ],
    ids=repr,
)
def test_entries_that_cannot_be_had_are_named(entry: dict[str, Any], field: str) -> None:
    found = beat(nightly={"task": "t", "schedule": 30, **entry})
    (problem,) = found.problems
    assert (problem.place, problem.field) == ("beat 'nightly'", field)
    assert len(found.entries) == 1


def test_an_entry_that_lacks_an_argument_is_named() -> None:
    app = make_app()

    @app.task(shared=False, name="t")
    def task(number: int) -> None: ...

    app.conf.beat_schedule = {"nightly": {"task": "t", "schedule": 30}}
    (problem,) = read(app).problems
    assert (problem.place, problem.field) == ("beat 'nightly'", "args")
    assert problem.message == "do not fit the function: missing a required argument: 'number'"


def test_names_and_what_the_server_does_by_itself() -> None:
    found = beat(t={"task": "t", "schedule": 30}, clean={"task": "celery.backend_cleanup", "schedule": 30})
    assert [entry.name for entry in found.entries] == ["t", "t-beat"]
    assert [note.place for note in found.notes] == ["beat 't'", "beat 'clean'"]
    assert beat(odd=5).problems[0].field == "beat_schedule"


def test_what_a_task_does_through_celery_is_named() -> None:
    app = make_app()

    @app.task(shared=False, name="t")
    def task() -> None:
        chain(task.s(), group(task.s())).delay()
        chord([task.s()])(task.s())

    words = " ".join(note.message for note in read(app).notes)
    assert "chain(task.s(), group(task.s())).delay() still goes to Celery; write " in words
    assert (
        "write chain(task.s(), group(task.s())).enqueue_sync(), with from mainspring import chain, group"
        in words
    )
    assert "write chord([task.s()], task.s()).enqueue_sync(), with from mainspring import chord" in words
    assert "calls delay" not in words


def test_periodic_tasks_that_the_app_adds_itself() -> None:
    app = make_app()

    @app.task(shared=False, name="t")
    def task(word: str) -> None: ...

    @app.on_after_configure.connect
    def add(sender: Any, **_: Any) -> None:
        sender.add_periodic_task(10.0, task.s("hello"), name="often")

    (_, entry) = read(app).entries
    assert (entry.name, entry.body["every"], entry.body["payload"]) == ("often", 10.0, ["hello"])
