"""What else waits for the same workers, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.rivals import explain_rivals, find_rivals
from mainspring.testing.factories import at

MINE = LaneKey("mail", "function:send", "acme", Priority.MEDIUM)
AGED = timedelta(seconds=60)
HIGHER = " Before it comes work with a higher priority."
BY_WEIGHT = " Other tenants wait, too, and share the slots with it by weight."


def told(*others: Lane, order: QueueOrder = QueueOrder.FAIR, now: float = 10, share: float = 0.1) -> str:
    rules = Queue(name="mail", order=order, aging=AGED, aging_share=share)
    return explain_rivals(find_rivals(MINE, at(5), others, rules, at(now)))


def other(since: float | None = 0, **changes: Any) -> Lane:
    return Lane(LaneId(2), replace(MINE, **changes), None if since is None else at(since))


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        (other(priority=Priority.HIGH), HIGHER),
        (other(priority=Priority.HIGH, queue="alerts", tenant="shop"), HIGHER),
        (other(since=11, priority=Priority.HIGH), ""),
        (other(since=None, priority=Priority.HIGH), ""),
        (other(priority=Priority.LOW, tenant="shop"), ""),
        (other(tenant="shop", queue="alerts"), ""),
        (other(tenant="shop"), BY_WEIGHT),
        (other(route="function:other"), ""),
    ],
)
def test_what_goes_before_a_run_or_shares_with_it_is_told(lane: Lane, expected: str) -> None:
    assert told(lane) == expected


def test_higher_priorities_come_before_other_tenants() -> None:
    assert told(other(tenant="shop"), other(priority=Priority.HIGH)) == HIGHER


def test_the_order_of_the_queue_says_how_tenants_share() -> None:
    assert told(other(tenant="shop"), order=QueueOrder.ROUND_ROBIN).endswith(
        "share the slots with it in turn."
    )
    older = told(other(tenant="shop"), order=QueueOrder.FIFO)
    assert older == " Before it come runs of other tenants that have waited for longer."
    assert told(other(since=6, tenant="shop"), order=QueueOrder.FIFO) == ""


def test_what_has_waited_for_long_gets_its_share_beside_higher_priorities() -> None:
    rival = other(priority=Priority.HIGH)
    assert told(rival, now=64) == HIGHER
    assert "leaves 10 % of the slots" in told(rival, now=65)
    assert told(rival, now=65, share=0) == HIGHER
