"""What is set for a queue: in which order its tenants are served, what it gives to old runs, and how many it holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from mainspring.core.fields import DAY
from mainspring.core.intake import MOST_QUEUED
from mainspring.core.kinds import Choice, Share, Whole
from mainspring.core.lane_caps import max_running_option
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

AGING = timedelta(minutes=5)
AGING_SHARE = 0.1
MOST_AGING_SHARE = 0.5
"""With more, what is urgent would wait for what is not."""


class QueueOrder(StrEnum):
    """In which order those who wait in a queue are served, within a tier."""

    FAIR = "fair"
    """Tenants share the time of the slots by weight."""
    ROUND_ROBIN = "round_robin"
    """Tenants take turns: each gets as many runs as the others, whatever it weighs and however long its runs take."""
    FIFO = "fifo"
    """What has been ready for the longest time goes first, whoever it belongs to."""


@value(kw_only=True)
class Queue:
    """A queue's settings. A queue for which nothing was set has the defaults.

    Attributes:
        order: in which order its tenants are served.
        aging: a run that has waited for so long need not wait until nothing more urgent waits.
        aging_share: the share of the seats that such runs get while more urgent work waits, the oldest first.
        max_running: how many of its runs may be under way at a time; None is no cap. It is stored with the
            restrictions, so what `read_policies` returns has none.
        max_queued: how many runs may wait in it before submissions are refused; None is no cap.
        expires_after: a run of a job without an expiry of its own is skipped if it has not started so long after it was
            due; None is never.
        preempt_after: what preempts and has waited for so long takes the slots of preemptible runs of lower tiers; None
            is never.
    """

    name: str
    order: QueueOrder = QueueOrder.FAIR
    aging: timedelta = AGING
    aging_share: float = AGING_SHARE
    max_running: int | None = None
    max_queued: int | None = None
    expires_after: timedelta | None = None
    preempt_after: timedelta | None = None


@value()
class AgingShare(Share):
    """A share that leaves most to what is urgent."""

    def read(self, value: object, path: str, old: Any) -> float:
        """Read a share that is not too large."""
        try:
            share = Share.read(self, value, path, old)
        except InvalidInput:
            share = MOST_AGING_SHARE + 1  # its words would name the bounds of other shares
        if share > MOST_AGING_SHARE:
            raise InvalidInput(path, f"must be a number from 0 to {MOST_AGING_SHARE}")
        return share

    def schema(self) -> dict[str, Any]:
        """Return a number's schema."""
        return {"type": "number", "minimum": 0, "maximum": MOST_AGING_SHARE}

    def limits(self) -> str:
        """Say its bounds."""
        return f"0 to {MOST_AGING_SHARE}"


QUEUE_OPTIONS = Options(
    Option(
        name="order",
        kind=Choice(QueueOrder),
        default=QueueOrder.FAIR,
        summary="How its tenants are served: `fair` by weight, `round_robin` in turn, `fifo` the oldest run first.",
    ),
    Option(
        name="aging",
        kind=Duration(timedelta(seconds=1), timedelta(days=30)),
        default=AGING,
        summary="A run that has waited for so long need not wait until nothing more urgent waits.",
    ),
    Option(
        name="aging_share",
        kind=AgingShare(),
        default=AGING_SHARE,
        summary="The share of the seats that such runs get while more urgent work waits, the oldest first; 0: none.",
    ),
    max_running_option("How many of its runs may be under way at a time, in the whole cluster."),
    Option(
        name="max_queued",
        kind=Whole(1, MOST_QUEUED),
        default=None,
        is_nullable=True,
        summary="How many runs may wait in it before submissions are refused for the time being.",
    ),
    Option(
        name="expires_after",
        kind=Duration(timedelta(milliseconds=1), 365 * DAY),
        default=None,
        is_nullable=True,
        summary="Skip a run that has not started so long after it was due, unless its job has an expiry of its own.",
    ),
    Option(
        name="preempt_after",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        default=None,
        is_nullable=True,
        summary="Stop preemptible runs of lower tiers for runs that preempt and have waited for so long.",
        example="10s",
    ),
)


def change_queue(queue: Queue, body: Mapping[str, Any]) -> Queue:
    """Return a queue's settings with those of a body instead of the old ones. Defaults replace what is left out.

    Raises:
        InvalidInput: a value is wrong, or there is no such setting.
    """
    return Queue(name=queue.name, **QUEUE_OPTIONS.read_all(body, lambda field: field))
