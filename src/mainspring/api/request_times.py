"""How long requests took, by operation and status."""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from mainspring.ports.logs import LEVEL
from mainspring.ports.telemetry import SECONDS, Distribution, Measure

_log = structlog.get_logger(__name__)


class RequestTimes:
    """Counts answered requests."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], Distribution] = {}

    def __call__(self, operation: str, status: int, seconds: float) -> None:
        """Count a request. `operation` is empty if the path or the method names none."""
        times = self._times.get((operation, status))
        if times is None:
            times = self._times[operation, status] = Distribution(SECONDS)
        times.add(seconds)
        if LEVEL.is_debug:
            _log.debug("request", operation=operation or "none", status=status, seconds=round(seconds, 6))

    def measures(self) -> Iterator[Measure]:
        """Yield the times."""
        for (operation, status), times in self._times.items():
            yield Measure("http_request_seconds", times.read(), (operation or "none", str(status)))
