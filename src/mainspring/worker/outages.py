"""What a worker does after a call that failed: it logs the failure, pauses, and tries again."""

from __future__ import annotations

import structlog

from mainspring.errors import NotAuthenticated, StoreUnavailable, Unreachable
from mainspring.ports.clock import RandomSource

OUTAGES = (Unreachable, StoreUnavailable, NotAuthenticated)
"""Temporary errors, after which the call may be repeated. An access token may be replaced in its file."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_log = structlog.get_logger(__name__)


def log_failure(event: str, error: Exception, **facts: object) -> None:
    """Log an outage as one line, and any other error with its traceback."""
    if isinstance(error, OUTAGES):
        _log.warning(event, error=str(error), **facts)
    else:
        _log.error(event, error=str(error), exc_info=error, **facts)


def pause_after(failures: int, random: RandomSource) -> float:
    """Return how many seconds to pause, given the number of earlier failures in a row."""
    pause: float = min(_FIRST_PAUSE * 2.0 ** min(failures, 10), _LONGEST_PAUSE)
    return pause * (0.5 + random.random() / 2)
