"""A heartbeat: what the worker names beside what the store knows, both ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from mainspring.core.ids import RunId
from mainspring.core.values import value

Lease = tuple[RunId, int]
"""Run and token."""
RunningLease = tuple[RunId, int, int, bool]
"""Run, token, number of the claim that gave it, and whether a cancel was asked for."""


@value(kw_only=True)
class Reconciled:
    """What a heartbeat brings to light.

    Attributes:
        lost: named, but not the session's any more, in the order in which they were named.
        cancel: named, and to be stopped.
        missing: the session's, but not named: kept for the next heartbeat.
        unknown: missing from this heartbeat and from the one before it, in order.
    """

    lost: tuple[Lease, ...]
    cancel: tuple[Lease, ...]
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
        answered: the number of the last claim whose answer had arrived at the worker; None where it does not say. What
            a later claim gave is not missing: its answer may still be on its way.
        missing_before: what the heartbeat before did not name.
    """
    held: dict[Lease, bool] = {}
    missing: set[Lease] = set()
    known = set(named)
    for run_id, token, number, is_cancel_requested in running:
        lease = (run_id, token)
        held[lease] = is_cancel_requested
        is_on_its_way = answered is not None and number > answered
        if not is_on_its_way and lease not in known:
            missing.add(lease)
    return Reconciled(
        lost=tuple([lease for lease in named if lease not in held]),
        cancel=tuple([lease for lease in named if held.get(lease)]),
        missing=frozenset(missing),
        unknown=tuple(sorted(missing.intersection(missing_before))),
    )
