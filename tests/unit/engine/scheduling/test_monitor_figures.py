"""Which monitored jobs do what they should, as figures."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.monitors import ping_of_exit, take_ping
from mainspring.engine.scheduling.monitor_figures import MonitorFigures
from mainspring.ports.telemetry import MOST_SERIES
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.monitors import make
from mainspring.testing.factories import at


def up(figures: MonitorFigures) -> dict[tuple[str, ...], object]:
    return {measure.labels: measure.value for measure in figures.measures()}


async def add(store: MemoryStore, *names: str) -> None:
    for name in names:
        assert await store.add_monitor(make(name), key_hash=name.encode())


async def fail(store: MemoryStore, name: str, second: float) -> None:
    stored = await store.get_monitor("shop", name)
    assert stored is not None
    failed = take_ping(stored.monitor, ping_of_exit(1, at(second)))
    assert await store.save_monitor(replace(stored, monitor=failed))


async def test_a_monitor_is_down_when_it_has_failed_or_is_late() -> None:
    store = MemoryStore(time=FakeClock().now)
    figures = MonitorFigures(store)
    assert up(figures) == {}
    await add(store, "dump", "sync")
    await fail(store, "dump", 60)
    await figures.look(at(61))
    assert up(figures) == {("shop", "dump"): 0, ("shop", "sync"): 1}
    await figures.look(at(3600 + 600))
    assert up(figures) == {("shop", "dump"): 0, ("shop", "sync"): 1}
    await figures.look(at(3600 + 631))
    assert up(figures) == {("shop", "dump"): 0, ("shop", "sync"): 0}


async def test_the_store_is_asked_each_half_minute_and_anew_by_a_new_owner() -> None:
    store = MemoryStore(time=FakeClock().now)
    figures = MonitorFigures(store)
    await figures.look(at(0))
    await add(store, "dump")
    await figures.look(at(29))
    assert up(figures) == {}
    await figures.look(at(30))
    assert up(figures) == {("shop", "dump"): 1}
    figures.forget()
    assert up(figures) == {}
    await figures.look(at(31))
    assert up(figures) == {("shop", "dump"): 1}


async def test_of_many_those_that_are_down_stand_for_themselves() -> None:
    store = MemoryStore(time=FakeClock().now)
    figures = MonitorFigures(store)
    await add(store, *(f"m{number:03}" for number in range(203)))
    await fail(store, "m202", 60)
    await figures.look(at(61))
    shown = up(figures)
    assert len(shown) == MOST_SERIES + 1
    assert shown["shop", "m202"] == 0
    assert shown["_other", "_other"] == 1
    assert ("shop", "m199") not in shown
