"""Reconciles a heartbeat: compares the leases that a worker names with those that the store knows, both ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from mainspring.core.ids import RunId
from mainspring.core.values import value

Lease = tuple[RunId, int]
"""Run and token."""
RunningLease = tuple[RunId, int, int, bool, bool]
"""Run, token, number of the claim that gave it, whether to cancel it, and whether it is to give up its slot."""


@value(kw_only=True)
class Reconciled:
    """What a heartbeat reveals.

    Attributes:
        lost: named, but no longer the session's, in the order named.
        cancel: named, but to be stopped, in the order named.
        preempt: named, but to be stopped and handed back, in the order named. Who is cancelled is not among them.
        missing: the session's, but not named. Keep them for the next heartbeat.
        unknown: missing from this heartbeat and from the one before it, sorted.
    """

    lost: tuple[Lease, ...]
    cancel: tuple[Lease, ...]
    preempt: tuple[Lease, ...]
    missing: frozenset[Lease]
    unknown: tuple[Lease, ...]


def reconcile(
    named: Sequence[Lease],
    running: Iterable[RunningLease],
    *,
    answered: int | None,
    missing_before: Collection[Lease],
) -> Reconciled:
    """Compare the leases that a worker names with those that its session holds.

    Args:
        answered: the number of the last claim whose answer had reached the worker; None if the worker does not say.
            Leases of a later claim do not count as missing: the answer may still be on its way.
        missing_before: what the previous heartbeat did not name.
    """
    held: dict[Lease, bool] = {}
    asked: set[Lease] = set()
    missing: set[Lease] = set()
    known = set(named)
    for run_id, token, number, is_cancel_requested, is_preempted in running:
        lease = (run_id, token)
        held[lease] = is_cancel_requested
        if is_preempted and not is_cancel_requested:
            asked.add(lease)
        is_on_its_way = answered is not None and number > answered
        if not is_on_its_way and lease not in known:
            missing.add(lease)
    return Reconciled(
        lost=tuple([lease for lease in named if lease not in held]),
        cancel=tuple([lease for lease in named if held.get(lease)]),
        preempt=tuple([lease for lease in named if lease in asked]) if asked else (),
        missing=frozenset(missing),
        unknown=tuple(sorted(missing.intersection(missing_before))),
    )
