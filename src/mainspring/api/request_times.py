"""How long requests took, by operation and status."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import structlog

from mainspring.ports.logs import LEVEL
from mainspring.ports.telemetry import SECONDS, Distribution, Measure

_log = structlog.get_logger(__name__)


class Denial(StrEnum):
    """Why a request was denied."""

    ADDRESS = "address"
    """It came under a name, or from a page, that the server does not answer to."""
    TOKEN = "token"  # noqa: S105 - no password
    """Its access token is missing, unknown or over."""
    RATE = "rate"
    """Its caller asks too often, or tries too many unknown tokens."""
    RIGHT = "right"
    """Its caller may not do that."""


class RequestTimes:
    """Counts answered requests, and those of them that were denied."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], Distribution] = {}
        self._denied = dict.fromkeys(Denial, 0)

    def __call__(self, operation: str, status: int, seconds: float) -> None:
        """Count a request. `operation` is empty if the path or the method names none."""
        times = self._times.get((operation, status))
        if times is None:
            times = self._times[operation, status] = Distribution(SECONDS)
        times.add(seconds)
        if LEVEL.is_debug:
            _log.debug("request", operation=operation or "none", status=status, seconds=round(seconds, 6))

    def deny(self, reason: Denial) -> None:
        """Count a request that was denied."""
        self._denied[reason] += 1

    def measures(self) -> Iterator[Measure]:
        """Yield the times, and how many requests were denied."""
        for reason, count in self._denied.items():
            yield Measure("requests_denied_total", count, (reason.value,))
        for (operation, status), times in self._times.items():
            yield Measure("http_request_seconds", times.read(), (operation or "none", str(status)))
