"""Events: how many are published a second, and how soon the run begins that one starts.

One process has it all, as `mainspring up` does. Of so many triggers on events, one is for what is published. The others
are for topics of their own; or, on one topic, have patterns that do not fit, which is the dearest case: each event is
held against all of them. First events are published by 64 callers at once and in bulk, while no worker runs. Then one
caller publishes one each 20 ms, and its function notes when it begins. In the end, each event must have started one
run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.engine import fresh_database, settings_for
from benchmarks.report import Row, publish
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.events import EventRequest
from mainspring.registry import FunctionRegistry
from mainspring.runtime import open_engine, run_embedded_worker

TOPIC = "orders.paid"
CALLERS = 64
BULK = 1000
GAP = 0.02
WARM_UP = 20
PATIENCE = 60.0
FEW, MANY, CROWD = 10, 10_000, 1000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    Attributes:
        single: events that callers publish one by one.
        bulk: events in bulk.
        alone: events of the one caller.
        triggers: how many there are, one measurement each.
        crowd: how many there are on one topic.
    """

    single: int = 5000
    bulk: int = 10_000
    alone: int = 300
    triggers: tuple[int, ...] = (FEW, MANY)
    crowd: int = CROWD


QUICK = Scale(single=1000, bulk=2000, alone=50, triggers=(FEW,), crowd=100)


class Starts:
    """When which event has started a run."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.registry = FunctionRegistry()
        self.registry.add("ship", self._ship)

    async def _ship(self, event: dict[str, Any]) -> None:
        self.began.setdefault(event["id"], time.perf_counter())
        self.counts[event["id"]] += 1

    async def wait_for(self, ids: Sequence[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.began.keys() >= set(ids):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.began)} events have started a run; {len(ids)} were awaited")
            await asyncio.sleep(0.01)


async def add_triggers(engine: Engine, count: int, *, on_one_topic: bool) -> None:
    """Make so many jobs that listen, of which one is for what is published."""
    wanted: dict[str, Any] = {"topic": TOPIC, "pattern": {"data": {"country": ["DE"]}}}
    bodies = [_body("wanted", wanted)]
    for number in range(1, count):
        other = {"topic": TOPIC, "pattern": {"data": {"country": [f"country {number}"]}}}
        bodies.append(_body(f"job {number}", other if on_one_topic else {"topic": f"topic {number}"}))
    for place in range(0, count, BULK):
        await engine.client.jobs.create_many("default", bodies[place : place + BULK])


def _body(name: str, trigger: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "function": "ship", "trigger": {"type": "event", **trigger}}


def _event(event_id: str) -> EventRequest:
    return EventRequest(topic=TOPIC, key="4711", data=b'{"country":"DE","cents":4200}', id=event_id)


async def publish_singly(engine: Engine, ids: Sequence[str]) -> float:
    """Return the events a second of callers of which each waits for its answer."""
    left = iter(ids)

    async def call() -> None:
        for event_id in left:
            await engine.client.events.send("default", _event(event_id))

    before = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return len(ids) / (time.perf_counter() - before)


async def publish_in_bulk(engine: Engine, ids: Sequence[str]) -> float:
    """Return the events a second of one caller who sends many at a time."""
    before = time.perf_counter()
    for place in range(0, len(ids), BULK):
        await engine.client.events.send_many("default", [_event(one) for one in ids[place : place + BULK]])
    return len(ids) / (time.perf_counter() - before)


async def publish_alone(engine: Engine, starts: Starts, ids: Sequence[str]) -> list[float]:
    """Return the ms from publishing an event to the begin of its run, sorted, without those of the warm-up."""
    sent = {}
    for event_id in ids:
        sent[event_id] = time.perf_counter()
        await engine.client.events.send("default", _event(event_id))
        await asyncio.sleep(GAP)
    await starts.wait_for(ids)
    return sorted(1e3 * (starts.began[event_id] - sent[event_id]) for event_id in ids[WARM_UP:])


async def measure_triggers(location: str, where: str, count: int, scale: Scale, *, crowd: bool) -> list[Row]:
    """Measure one store with so many triggers."""
    starts = Starts()
    settings = settings_for(location, slots=100)
    share = 20 if crowd else 1
    single = [f"single {number}" for number in range(scale.single // share)]
    bulk = [f"bulk {number}" for number in range(max(BULK, scale.bulk // share))]
    alone = [f"alone {number}" for number in range(WARM_UP + scale.alone)]
    async with open_engine(settings, registry=starts.registry) as engine:
        await add_triggers(engine, count, on_one_topic=crowd)
        await publish_singly(engine, ["warm-up"])
        rates = [await publish_singly(engine, single), await publish_in_bulk(engine, bulk)]
        async with run_embedded_worker(engine, settings, starts.registry):
            await starts.wait_for([*single, *bulk])
            lags = await publish_alone(engine, starts, alone)
    published = {"warm-up", *single, *bulk, *alone}
    wrong = sum(starts.counts[event_id] != 1 for event_id in published | starts.counts.keys())
    those = f"{count:,} triggers{' on the topic' if crowd else ''}, {where}"
    figures = [
        (f"events published, {CALLERS} callers", rates[0], "/s"),
        ("events published, chunks of 1,000", rates[1], "/s"),
        ("event to the begin of its run p50", lags[len(lags) // 2], "ms"),
        ("event to the begin of its run p99", lags[int(len(lags) * 0.99)], "ms"),
        ("events that have not started one run", wrong, ""),
    ]
    return [
        {"name": f"{name}, {those}", "value": round(value, 2), "unit": unit} for name, value, unit in figures
    ]


async def measure(server: str | None, scale: Scale) -> list[Row]:
    """Measure SQLite, and PostgreSQL if there is one."""
    rows: list[Row] = []
    cases = [(count, False) for count in scale.triggers] + [(scale.crowd, True)]
    for count, crowd in cases:
        with tempfile.TemporaryDirectory() as folder:
            rows += await measure_triggers(f"sqlite:///{folder}", "SQLite", count, scale, crowd=crowd)
        if server is not None:
            async with fresh_database(server) as dsn:
                rows += await measure_triggers(dsn, "PostgreSQL", count, scale, crowd=crowd)
    return rows


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure for `make bench`."""
    return uvloop.run(measure(dsn, QUICK if quick else Scale()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = run(options.quick, os.environ.get("MAINSPRING_TEST_POSTGRES"))
    publish("events", rows, is_kept=not options.quick)


if __name__ == "__main__":
    main()
