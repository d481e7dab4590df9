"""What the log says on a terminal, and what `up` says there when it is ready."""

import io
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.model import Job
from mainspring.core.serving import Offers
from mainspring.core.triggers import Interval
from mainspring.host.log_lines import LinesForPeople, shows_colours
from mainspring.host.welcome import MOST_JOBS, write_welcome
from mainspring.testing.factories import START, IdSequence, make_spec
from tests.unit.core.test_serving import ALL

AT = "2026-01-05T12:00:00.000Z"
SHOWN = f"{datetime.fromisoformat(AT).astimezone():%H:%M:%S}"


def line(event: str, level: str = "warning", **said: Any) -> str:
    return LinesForPeople(is_coloured=False)(
        None, level, {"event": event, "level": level, "timestamp": AT, **said}
    )


def test_lines_are_sentences_with_local_times() -> None:
    said: dict[str, Any] = {"job": "sync", "run": "run_1", "attempt": 2, "error": "ValueError: boom"}
    assert line("attempt_failed", next=f"retry 2 of 3 at {AT}", **said) == (
        f"{SHOWN} warning sync: attempt 2 failed: ValueError: boom; retry 2 of 3 at {SHOWN} (run_1)"
    )
    assert line("run_failed", "error", next="kept as a dead letter", **said) == (
        f"{SHOWN} error   sync: failed for good at attempt 2: ValueError: boom; kept as a dead letter"
    )
    assert line("further_events", job="sync", seconds=10, attempt_failed=9995, run_failed=2) == (
        f"{SHOWN} warning and in these 10 s also of sync: 9,995 attempt failed, 2 run failed"
    )
    assert line("job_undefined", job="a b", meaning="gone", x=1) == (
        f"{SHOWN} warning job undefined job='a b' x=1: gone"
    )
    assert line("tick_failed", "error", exception="Trace\nback").endswith("tick failed\nTrace\nback")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert shows_colours(Terminal())
    assert not shows_colours(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not shows_colours(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(Terminal())


JOB = Job(
    id=IdSequence().new_job_id(),
    tenant="default",
    spec=make_spec(name="a job", trigger=Interval(timedelta(seconds=90), START)),
    version=1,
    revision=1,
    is_paused=False,
    next_fire_at=START + timedelta(seconds=42),
    fired_through=None,
    created_at=START,
    updated_at=START,
)


def welcome(jobs: list[Job], *, width: int = 80, url: str = "http://127.0.0.1:8620", slots: int = 4) -> str:
    return "\n".join(
        write_welcome(
            jobs,
            Offers([ALL]),
            url=url,
            store="SQLite in data",
            slots=slots,
            now=START,
            width=width,
            is_cut=False,
            is_coloured=False,
        )
    )


def test_welcome_names_address_store_jobs_and_what_to_do_next() -> None:
    text = welcome([JOB], width=120)
    for part in (
        "http://127.0.0.1:8620",
        "SQLite in data",
        "every 1m30s",
        "(in 42s)",
        "! No live worker",
        "Ctrl+C",
    ):
        assert part in text
    assert "mainspring job run 'a job'\n" in text


def test_welcome_names_another_server_in_its_commands() -> None:
    assert "mainspring job run 'a job' --server http://127.0.0.1:9\n" in welcome(
        [JOB], url="http://127.0.0.1:9"
    )


def test_welcome_without_jobs_or_worker_says_how_to_get_them() -> None:
    text = welcome([], slots=0)
    assert "mainspring job add" in text
    assert "mainspring worker" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_welcome_fits_the_width_and_is_bounded(width: int) -> None:
    jobs = [replace(JOB, spec=make_spec(name=f"{'long ' * 20}{number}")) for number in range(200)]
    lines = welcome(jobs, width=width).splitlines()
    table = [line for line in lines if line.startswith("  long")]
    assert len(table) == MOST_JOBS
    assert max(map(len, table)) <= width
    assert any("190 further ones" in line for line in lines)
