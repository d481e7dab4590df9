"""Says which leases of an answer are one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainspring.core.batching import number_calls
from mainspring.core.ids import JobId
from mainspring.core.limits import KeyMaker
from mainspring.errors import InvalidInput
from mainspring.ports.gateway import Lease


def group_calls(leases: Sequence[Lease], number: int) -> tuple[Lease, ...]:
    """Return the leases, each that belongs to a batch with the text of its call.

    A call has runs of one version of a job and of one key, and no more than that version allows: a claim gives several
    batches of a line to as many slots, and those of a line whose rule has changed.

    Args:
        number: the number of the claim.
    """
    makers: dict[tuple[JobId, int], KeyMaker] = {}
    groups: list[tuple[object, int]] = []
    for lease in leases:
        if lease.spec.batch is None:
            continue
        version = lease.job_id, lease.version
        if version not in makers:
            makers[version] = KeyMaker(lease.job_id, lease.spec)
        try:
            key: object = makers[version].make(lease.payload)
        except (
            InvalidInput
        ):  # it was checked before it was stored; whatever came since must not hold up the others
            key = lease.run_id
        groups.append(((version, key), lease.spec.batch.size))
    texts = iter(number_calls(number, groups))
    return tuple(lease if lease.spec.batch is None else replace(lease, batch=next(texts)) for lease in leases)
