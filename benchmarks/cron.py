"""The cron engine: a step from fire to fire, parsing, and the slowest input we know."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any

from mainspring.core.cron import Cron, CronError
from mainspring.core.cron.expression import _compile
from mainspring.core.cron.parse import parse

START = datetime(2026, 1, 1, tzinfo=UTC)
START_SECONDS = int(START.timestamp())
TYPICAL = ("*/5 * * * *", "30 2 * * *", "0 9 * * 1-5")
ZONES = ("UTC", "America/New_York")
ROUNDS = 5


def run(quick: bool) -> list[dict[str, Any]]:
    steps = 2_000 if quick else 20_000
    rows = []
    for tz in ZONES:
        for text in TYPICAL:
            cron = Cron(text, tz)
            rows += [
                row(f"cron step, {tz}, {text}", per_call(walk, cron, steps), "µs"),
                row(f"cron step in epoch seconds, {tz}, {text}", per_call(walk_seconds, cron, steps), "µs"),
            ]
        rows.append(
            row(f"cron step back, {tz}, {TYPICAL[2]}", per_call(walk_back, Cron(TYPICAL[2], tz), steps), "µs")
        )
    rows += [row(f"cron parse, {text}", per_call(parse_again, text, steps), "µs") for text in TYPICAL]
    rows.append(
        row("cron: expression known, Cron() made again", per_call(make_again, TYPICAL[2], steps), "µs")
    )
    rows.append(row("cron: 100 years without a fire, cold zone", 1e3 * never(), "ms"))
    return rows


def row(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": round(value, 2), "unit": unit}


def per_call(work: Callable[[Any, int], None], argument: Any, count: int) -> float:
    """Return microseconds of CPU per call, the median of some rounds after one to warm up."""
    work(argument, count)
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work(argument, count)
        times.append(time.process_time() - begin)
    return median(times) / count * 1e6


def walk(cron: Cron, count: int) -> None:
    at = START
    for _ in range(count):
        at = cron.next_after(at) or START


def walk_back(cron: Cron, count: int) -> None:
    at = START
    for _ in range(count):
        at = cron.previous_before(at) or START


def walk_seconds(cron: Cron, count: int) -> None:
    at = START_SECONDS
    for _ in range(count):
        at = cron.next_epoch(at) or START_SECONDS


def parse_again(text: str, count: int) -> None:
    for _ in range(count):
        parse(text)


def make_again(text: str, count: int) -> None:
    for _ in range(count):
        Cron(text, "America/New_York")


def never() -> float:
    """Search for a time that falls into the gap each year and is to be skipped; the zone's table is not loaded yet."""
    times = []
    for number, tz in enumerate(("America/Chicago", "America/Denver", "America/Detroit", "America/Boise")):
        _compile.cache_clear()
        begin = time.process_time()
        cron = Cron("30 2 ? 3 SUN#2", tz, "skip/first")
        if cron.next_epoch(START_SECONDS + number) is not None:
            raise CronError("expression", cron.expression, "should never fire")
        times.append(time.process_time() - begin)
    return median(times)


if __name__ == "__main__":
    for result in run(quick=False):
        print(f"{result['name']:<64} {result['value']:>14,} {result['unit']}")
