"""What `mainspring top` draws: lines that fit, sorted, without what users' texts could do to a terminal."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from msgspec.structs import replace as change

from mainspring.cli.top_view import WIDE, Screen, Snapshot, draw, rate_between, sort_queues
from mainspring.wire.alerts import AlertView
from mainspring.wire.overview import AttentionView, JobCountsView, OverviewView, QueueLoadView, SlotsView
from mainspring.wire.pages import BriefView
from mainspring.wire.pauses import PauseList
from mainspring.wire.usage import QueueUsageView, TimesView, UsageFigures, UsageStepView, UsageView
from mainspring.wire.views import CountsView, WorkerView

NOW = datetime(2026, 11, 27, 12, 30, 20, tzinfo=UTC)
FIGURES: dict[str, Any] = {
    "submitted": 9,
    "fired": 1,
    "started": 10,
    "succeeded": 7,
    "failed": 2,
    "cancelled": 1,
    "retried": 0,
    "lag": TimesView(mean=0.1, p50=0.012, p95=0.2, p99=1),
    "duration": None,
}


def counts(**changes: int) -> CountsView:
    usual = dict.fromkeys(("PENDING", "BLOCKED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED"), 0)
    return CountsView(**{**usual, "CANCELLED": 0, "SKIPPED": 0, **changes})


def queue(name: str, waiting: int = 0, running: int = 0, age: float | None = None) -> QueueLoadView:
    oldest = None if age is None else NOW - timedelta(seconds=age)
    return QueueLoadView(queue=name, waiting=waiting, running=running, oldest_ready_at=oldest)


def worker(name: str, held: int) -> WorkerView:
    return WorkerView(
        session_id="ses_1",
        name=name,
        host="h",
        pid=1,
        slots=10,
        queues=["mail"],
        types=[],
        functions=[],
        labels=[],
        started_at=NOW,
        last_beat_at=NOW - timedelta(seconds=2),
        held=held,
    )


def failure(error: str) -> BriefView:
    return BriefView(
        run_id="run_0000000000001",
        job_id="job_00000000000000000000000001",
        job="sync",
        kind="manual",
        status="FAILED",
        reason="retries_exhausted",
        queue="mail",
        priority="MEDIUM",
        fire_time=None,
        due_at=NOW,
        created_at=NOW,
        started_at=NOW,
        finished_at=NOW - timedelta(seconds=5),
        lag_ms=None,
        took_ms=None,
        attempt=1,
        crashes=0,
        error=error,
    )


def alert(subject: str, *, silenced: bool = False) -> AlertView:
    return AlertView(
        alert_id=1,
        tenant="default",
        rule="stuck",
        subject=subject,
        state="FIRING",
        severity="critical",
        error=None,
        summary="nothing moves",
        value=None,
        run_id=None,
        since=NOW - timedelta(minutes=6),
        fired_at=NOW - timedelta(minutes=5),
        resolved_at=None,
        silenced=silenced,
        told_to=[],
        acknowledged_by=None,
        acknowledged_at=None,
    )


OVERVIEW = OverviewView(
    now=NOW,
    version="1.0",
    store="sqlite",
    attention=[AttentionView(kind="k", level="bad", sentence="nothing schedules")],
    servers=[],
    slots=SlotsView(workers=1, total=20, held=5),
    jobs=JobCountsView(active=1, paused=0, is_more=False),
    runs=counts(PENDING=3, RUNNING=5, SUCCEEDED=100),
    dead_letters=1,
    queues=[queue("mail", 3, 1, 65), queue("reports", 1, 4)],
    paused=PauseList(items=[], blackouts=[]),
)
USAGE = UsageView(
    since=NOW - timedelta(minutes=31),
    until=NOW,
    step="minute",
    total=UsageFigures(**FIGURES),
    steps=[UsageStepView(at=datetime(2026, 11, 27, 12, 29, tzinfo=UTC), **FIGURES)],
    queues=[QueueUsageView(queue="mail", **FIGURES)],
)
FOUND = Snapshot(
    OVERVIEW, USAGE, [worker("idle", 0), worker("busy", 5)], [failure("ValueError: no")], rate=12.5
)
TEXT = Screen(columns=200)


def lines_of(snapshot: Snapshot = FOUND, screen: Screen = TEXT) -> list[str]:
    return draw(snapshot, "http://a", screen)


def rows_of(heading: str, lines: list[str]) -> list[list[str]]:
    start = next(place for place, line in enumerate(lines) if heading in line)
    place = lines[start].index(heading)
    rows = []
    for line in lines[start + 1 :]:
        if not line[place:].strip():
            break
        rows.append(line[place:].split())
    return rows


def test_a_screen_tells_what_the_cluster_does() -> None:
    text = "\n".join(lines_of())
    assert "!! nothing schedules" in text
    assert "3 waiting  5 running  0 retrying  1 dead letter\n" in text
    assert "12.5 ended/s, 10 in the last full minute" in text
    assert "start lag p50 12ms p95 200ms, attempts -" in text
    assert "█████░░░░░░░░░░░░░░░ 5 of 20 busy, 1 worker, 0 servers" in text
    assert rows_of("QUEUE  ", lines_of())[0][:6] == ["mail", "3", "1", "1m5s", "10", "2"]
    assert [row[:3] for row in rows_of("WORKER", lines_of())] == [
        ["busy", "5/10", "2s"],
        ["idle", "0/10", "2s"],
    ]
    assert rows_of("AGO", lines_of()) == [["5s", "sync", "run_0000000000001", "ValueError:", "no"]]


def test_alerts_that_fire_are_told() -> None:
    told = lines_of(replace(FOUND, alerts=[alert("queue:mail"), alert("job:sync", silenced=True)]))
    assert told[2:4] == [
        "alert queue:mail: nothing moves (5m)",
        "alert job:sync: nothing moves (5m, silenced)",
    ]
    many = lines_of(replace(FOUND, alerts=[alert(f"job:{number}") for number in range(4)]))
    assert many[5] == "   and more: mainspring alert list"


def test_workers_stand_beside_the_queues_where_there_is_room() -> None:
    for columns, is_wide in ((WIDE - 1, False), (WIDE, True)):
        [heading] = [line for line in lines_of(screen=Screen(columns=columns)) if "QUEUE  " in line]
        assert ("WORKER" in heading) is is_wide


@pytest.mark.parametrize("columns", [20, 40, 80, 129, 130, 160])
@pytest.mark.parametrize("has_colours", [True, False])
def test_no_line_is_wider_than_the_screen(columns: int, has_colours: bool) -> None:
    overview = change(OVERVIEW, queues=[queue("q" * 90, 10**9, 10**9, 10**7)])
    many = [worker("w" * 90, number) for number in range(50)]
    found = Snapshot(overview, USAGE, many, [failure("e" * 300)] * 20, [alert("a" * 200)], rate=10.0**9)
    screen = Screen(columns=columns, lines=30, has_colours=has_colours, notes=["n" * 200])
    lines = lines_of(found, screen)
    assert max(len(click.unstyle(line)) for line in lines) <= columns
    assert any("\x1b[" in line for line in lines) is has_colours


@pytest.mark.parametrize(("lines", "columns"), [(24, 80), (40, 80), (24, 160), (60, 160)])
def test_tables_leave_room_for_each_other(lines: int, columns: int) -> None:
    overview = change(OVERVIEW, queues=[queue(f"q{number}", number) for number in range(100)])
    found = replace(FOUND, overview=overview, workers=[worker(f"w{number}", 0) for number in range(100)])
    drawn = lines_of(found, Screen(columns=columns, lines=lines))
    assert len(drawn) <= lines
    assert sum(" more" in line for line in drawn) >= 1
    assert "AGO" in drawn[-2]


def test_texts_of_users_do_not_move_the_cursor() -> None:
    evil = "\x1b[2J\rroot\x07\n"
    overview = change(
        OVERVIEW, queues=[queue(evil, 1)], attention=[AttentionView(kind="k", level="warn", sentence=evil)]
    )
    found = Snapshot(overview, USAGE, [worker(evil, 1)], [failure(evil)], [alert(evil)])
    assert all(line.isprintable() for line in lines_of(found, replace(TEXT, notes=[evil])))


def test_without_blocks_all_is_plain() -> None:
    assert "".join(lines_of(screen=Screen(columns=120, has_blocks=False))).isascii()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("waiting", ["a", "b", "c"]),
        ("running", ["c", "b", "a"]),
        ("oldest", ["b", "a", "c"]),
        ("name", ["a", "b", "c"]),
    ],
)
def test_queues_are_sorted(by: str, names: list[str]) -> None:
    queues = [queue("c", 1, 9), queue("b", 2, 5, 100), queue("a", 3, 1, 10)]
    assert [one.queue for one in sort_queues(queues, by, NOW)] == names


def test_the_rate_is_that_between_two_counts() -> None:
    later = change(
        OVERVIEW, now=NOW + timedelta(seconds=2), runs=counts(SUCCEEDED=140, FAILED=8, SKIPPED=1, CANCELLED=1)
    )
    assert rate_between(None, FOUND) is None
    assert rate_between(FOUND, replace(FOUND, overview=later)) == 25
    same = change(later, runs=change(OVERVIEW.runs, age_ms=2000))
    assert rate_between(FOUND, replace(FOUND, overview=same)) == FOUND.rate, "it has not counted again"
    fewer = change(later, runs=counts(SUCCEEDED=1))
    assert rate_between(FOUND, replace(FOUND, overview=fewer)) == 0, "old ones were removed"
