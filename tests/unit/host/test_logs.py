"""The level of a process's log: what is written, and for how long it is changed."""

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from mainspring.host.logs import BY_SIGNAL, ProcessLog, begin_log, listen_for_signal, process_log
from mainspring.ports.logs import LEVEL
from mainspring.telemetry.logging import LevelledLogger

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the process's log gets; the settings of structlog are put back."""
    before, stream = structlog.get_config(), io.StringIO()
    monkeypatch.setattr("mainspring.host.logs._log", structlog.get_logger())  # a used one keeps its stream
    yield stream
    structlog.configure(**before)
    LEVEL.set("info")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def make(level: str, written: io.StringIO) -> ProcessLog:
    with contextlib.redirect_stderr(written):
        log = begin_log("json", level)
    log._now = lambda: NOW
    return log


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("debug", ["debug", "info", "warning", "warn", "error", "critical"]),
        ("info", ["info", "warning", "warn", "error", "critical"]),
        ("warning", ["warning", "warn", "error", "critical"]),
        ("error", ["error", "critical"]),
    ],
)
async def test_what_is_below_the_level_is_not_written(
    written: io.StringIO, level: str, names: list[str]
) -> None:
    make(level, written)
    log = structlog.get_logger()
    for name in ("debug", "info", "warning", "warn", "error", "critical"):
        getattr(log, name)(name)
    assert [line["event"] for line in lines(written)] == names
    written.truncate(0)
    written.seek(0)
    for name in ("debug", "info", "warning", "error"):
        await getattr(log, f"a{name}")(name)
        log.log(logging.getLevelNamesMapping()[name.upper()], name)
        await log.alog(logging.getLevelNamesMapping()[name.upper()], name)
    shown = [name for name in ("debug", "info", "warning", "error") if name in names]
    assert [line["event"] for line in lines(written)] == [name for name in shown for _ in range(3)]
    number = logging.getLevelNamesMapping()[level.upper()]
    assert log.get_effective_level() == number
    assert [log.is_enabled_for(each) for each in (number - 10, number)] == [False, True]


async def test_loggers_that_are_bound_follow_the_level(written: io.StringIO) -> None:
    log = make("info", written)
    bound = structlog.get_logger().bind(run="r")
    assert isinstance(bound, LevelledLogger)
    bound.debug("hidden")
    log.set("debug", lasts=MINUTE)
    bound.debug("shown %s", "now")
    assert [line["event"] for line in lines(written)] == ["log_level_changed", "shown now"]
    assert lines(written)[1]["run"] == "r"
    log.set("info", lasts=MINUTE)


async def test_a_change_ends_by_itself_and_is_told(written: io.StringIO) -> None:
    log = make("warning", written)
    assert log.read() == ("warning", "warning", None)
    assert log.set("debug", lasts=MINUTE) == ("debug", "warning", NOW + MINUTE)
    timer = log._timer
    assert timer is not None
    timer._run()
    assert (log.read(), LEVEL.is_debug) == (("warning", "warning", None), False)
    told = [(line["event"], line["before"], line["to"]) for line in lines(written)]
    assert told == [("log_level_changed", "warning", "debug"), ("log_level_changed", "debug", "warning")]


async def test_the_usual_level_ends_a_change_and_another_change_replaces_it(written: io.StringIO) -> None:
    log = make("info", written)
    log.set("debug", lasts=MINUTE)
    first = log._timer
    assert first is not None
    assert log.set("error", lasts=2 * MINUTE) == ("error", "info", NOW + 2 * MINUTE)
    assert first.cancelled()
    second = log._timer
    assert second is not None
    assert log.set("info", lasts=MINUTE) == ("info", "info", None)
    assert second.cancelled()
    assert log.set("info", lasts=MINUTE) == ("info", "info", None)
    assert [line["to"] for line in lines(written)] == ["debug", "error", "info"]


async def test_a_signal_shows_everything_for_ten_minutes(written: io.StringIO) -> None:
    log = make("info", written)
    listen_for_signal(log)
    arrived = asyncio.Event()

    def note_arrival() -> datetime:
        arrived.set()
        return NOW

    log._now = note_arrival
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        await arrived.wait()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR2)
    assert log.read() == ("debug", "info", NOW + BY_SIGNAL)
    log.set("info", lasts=MINUTE)
    assert process_log() is log
