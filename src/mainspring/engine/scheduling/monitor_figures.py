"""Shows which monitored jobs do what they should, for those who read figures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.monitors import judge_monitor
from mainspring.ports.store import Store
from mainspring.ports.telemetry import MOST_SERIES, OTHER, Measure

PERIOD = timedelta(seconds=30)
MOST_READ = 2000
"""Monitors that are read, at most."""


class MonitorFigures:
    """What was found when the monitors were looked at last.

    At most `MOST_SERIES` of them stand for themselves, those first that are down. Of the others it is shown whether all
    are up.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked_at: datetime | None = None
        self._up: dict[tuple[str, str], bool] = {}

    async def look(self, now: datetime) -> None:
        """Look at the monitors, if it is time."""
        if self._looked_at is not None and now - self._looked_at < PERIOD:
            return
        found = await self._store.list_all_monitors(limit=MOST_READ)
        self._up = {(one.tenant, one.name): not judge_monitor(one, now).is_broken for one in found}
        self._looked_at = now

    def forget(self) -> None:
        """Show nothing before the next look."""
        self._looked_at, self._up = None, {}

    def measures(self) -> Iterator[Measure]:
        """Yield whether each is up."""
        ranked = sorted(self._up.items(), key=lambda item: (item[1], item[0]))
        for labels, is_up in ranked[:MOST_SERIES]:
            yield Measure("monitor_up", is_up, labels)
        others = ranked[MOST_SERIES:]
        if others:
            yield Measure("monitor_up", all(is_up for _, is_up in others), (OTHER, OTHER))
