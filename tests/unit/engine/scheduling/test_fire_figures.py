"""What the planner measures of its fires."""

from __future__ import annotations

import pytest

from tests.unit.engine.conftest import Bench


async def test_fires_are_counted_with_how_late_they_were(bench: Bench) -> None:
    await bench.add(every="10s")
    await bench.runtime.advance(25, step=6)
    found = {
        (one.name, *one.labels): one.value
        for one in bench.runtime.telemetry.snapshot()
        if one.name in {"fires_total", "fire_lag_seconds"}
    }
    # Every six seconds somebody looks: at 12 s and at 24 s.
    lag = found.pop(("fire_lag_seconds",))
    assert (lag.count, lag.total) == (2, pytest.approx(2 + 4))  # type: ignore[union-attr]
    assert found == {
        ("fires_total", "fired"): 2,
        ("fires_total", "lost"): 0,
        ("fires_total", "fenced"): 0,
    }
