"""Says what else is ready for the workers that a run waits for, and goes before it or takes turns with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mainspring.core.model import Lane, LaneKey
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.values import value


@value(kw_only=True)
class RivalFacts:
    """What else could start in the slots that a run waits for.

    Attributes:
        has_urgent: something with a higher priority is ready.
        aged_share: the share of the seats that the run gets all the same, because it has waited for long.
        has_older: in the run's queue, the oldest goes first, and one of another tenant is older.
        tenants: how other tenants share the queue with it; None: none has anything ready there.
    """

    has_urgent: bool = False
    aged_share: float = 0.0
    has_older: bool = False
    tenants: QueueOrder | None = None


def find_rivals(
    lane: LaneKey, ready_at: datetime, others: Iterable[Lane], rules: Queue, now: datetime
) -> RivalFacts:
    """Return what else waits for the same workers as a run.

    Args:
        lane: the run's.
        ready_at: since when the run has been ready.
        others: lanes that the same workers serve, and that nothing holds up.
        rules: those of the run's queue.
    """
    ready = [one for one in others if one.earliest_ready_at is not None and one.earliest_ready_at <= now]
    beside = [
        one.earliest_ready_at
        for one in ready
        if one.earliest_ready_at is not None
        and (one.key.queue, one.key.priority) == (lane.queue, lane.priority)
        and one.key.tenant != lane.tenant
    ]
    is_fifo = rules.order is QueueOrder.FIFO
    return RivalFacts(
        has_urgent=any(one.key.priority < lane.priority for one in ready),
        aged_share=rules.aging_share if now - ready_at >= rules.aging else 0.0,
        has_older=is_fifo and min(beside, default=ready_at) < ready_at,
        tenants=rules.order if beside and not is_fifo else None,
    )


def explain_rivals(rivals: RivalFacts) -> str:
    """Return the sentence that says who gets slots before a run, or in turn with it; an empty one if nobody does."""
    if rivals.has_urgent and rivals.aged_share:
        share = f"{rivals.aged_share * 100:g} %"
        return f" Work with a higher priority waits, too, and leaves {share} of the slots to what has waited for long."
    if rivals.has_urgent:
        return " Before it comes work with a higher priority."
    if rivals.has_older:
        return " Before it come runs of other tenants that have waited for longer."
    if rivals.tenants is not None:
        how = "by weight" if rivals.tenants is QueueOrder.FAIR else "in turn"
        return f" Other tenants wait, too, and share the slots with it {how}."
    return ""
