"""Decides when it is too late to start a run: by its job's expiry, else by that of its queue.

Every run gets its expiry when it is made, and keeps it through retries and hand-backs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.model import JobSpec
from mainspring.core.outlines import RunOutline

EXPIRED = "expired"
"""The reason of a run that is skipped because it had not started when it expired."""

QueueExpiries = Mapping[str, timedelta]
"""The expiries of queues that have one."""


def expiry_of(spec: JobSpec, due_at: datetime, queues: QueueExpiries) -> datetime | None:
    """Return when it is too late to start a run that is due at an instant; None if it never is."""
    after = spec.expires_after
    if after is None and queues:
        after = queues.get(spec.queue)
    return None if after is None else due_at + after


def outline_with_expiry(outline: RunOutline, queues: QueueExpiries) -> RunOutline:
    """Return an outline whose runs expire as their job says, or else as their queue does."""
    if outline.expires_after is not None or outline.queue not in queues:
        return outline
    return replace(outline, expires_after=queues[outline.queue])
