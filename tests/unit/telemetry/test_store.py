"""Calls of a store are measured by verb and outcome, and are otherwise the store's own."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from mainspring.errors import Conflict, StoreUnavailable, TookTooLong
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Spread
from mainspring.stores.memory import MemoryStore
from mainspring.telemetry.store import StoreTimes, timed
from mainspring.testing.clock import FakeClock


class Slow:
    """A store whose calls take a quarter of a second, and end as they are told to."""

    kind = "slow"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.ends: BaseException | None = None

    async def apply(self, *args: object, now: int) -> object:
        self._clock.advance(0.25)
        if self.ends is not None:
            raise self.ends
        return args, now

    def measures(self) -> list[object]:
        return []


def counted(times: StoreTimes) -> dict[tuple[str, ...], tuple[int, float]]:
    found = {measure.labels: measure.value for measure in times.measures()}
    return {
        labels: (value.count, value.total) for labels, value in found.items() if isinstance(value, Spread)
    }


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (Conflict("job", "it has changed"), "ok"),
        (StoreUnavailable("away"), "unavailable"),
        (TookTooLong("stopped"), "too_long"),
        (asyncio.CancelledError(), "cancelled"),
        (ValueError("a bug"), "failed"),
    ],
)
async def test_calls_are_counted_by_how_they_end(error: BaseException | None, outcome: str) -> None:
    clock = FakeClock()
    slow, times = Slow(clock), StoreTimes(clock.monotonic)
    store: Any = timed(cast("Store", slow), times)
    assert await store.apply(1, 2, now=3) == ((1, 2), 3)
    slow.ends = error
    if error is None:
        await store.apply(now=4)
    else:
        with pytest.raises(type(error)):
            await store.apply(now=4)
    expected = {("apply", "ok"): (1, 0.25), ("apply", outcome): (1, 0.25)}
    if outcome == "ok":
        expected = {("apply", "ok"): (2, 0.5)}
    assert counted(times) == expected


async def test_what_is_no_call_is_the_stores_own() -> None:
    clock = FakeClock()
    slow, times = Slow(clock), StoreTimes(clock.monotonic)
    store: Any = timed(cast("Store", slow), times)
    assert (store.kind, store.measures()) == ("slow", [])
    with pytest.raises(AttributeError):
        _ = store.nothing
    assert counted(times) == {}


async def test_every_verb_of_a_store_is_measured() -> None:
    store = MemoryStore(time=FakeClock().now)
    times = StoreTimes(FakeClock().monotonic)
    stand_in = timed(store, times)
    verbs = [
        name for name in dir(Store) if not name.startswith("_") and name not in {"capabilities", "failovers"}
    ]
    for name in verbs:
        getattr(stand_in, name)
    assert {verb for verb, _ in counted(times)} == set(verbs)
    assert stand_in.capabilities == store.capabilities
