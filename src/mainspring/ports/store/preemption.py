"""Preemption: what has waited for too long, what holds the slots, and who is asked to give them up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from mainspring.core.ids import JobId, KeyId, LaneId, RunId, SessionId
from mainspring.core.model import LaneKey, Priority
from mainspring.core.preemption import Lease, PreemptionMark, Victim
from mainspring.core.values import value


class WaitingRun(NamedTuple):
    """A ready run that no worker has taken.

    Attributes:
        preempted_at: when slots were last sought for its lane; None: never.
    """

    run_id: RunId
    lane_id: LaneId
    lane: LaneKey
    preempted_at: datetime | None
    job_id: JobId
    version: int
    ready_at: datetime


@value(kw_only=True)
class SeatedRun:
    """A lease of a live session.

    Attributes:
        claim_number: of the claim that gave it.
        key_id: what it is counted under, or the line of its batch; None if it has no key.
        mark: the last request to give up the slot, under this token or an earlier one.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    job_id: JobId
    version: int
    tenant: str
    tier: Priority
    claim_number: int
    key_id: KeyId | None
    is_quarantined: bool
    is_cancel_requested: bool
    started_at: datetime
    mark: PreemptionMark | None


@value(kw_only=True)
class PreemptionRequest:
    """A request that runs give up their slots for a lane.

    Attributes:
        sought_before: it is refused if slots were sought for the lane later than this.
    """

    lane_id: LaneId
    sought_before: datetime
    victims: tuple[Victim, ...]


class PreemptionStore(Protocol):
    """Asks runs to give up their slots. Their workers learn it with their next heartbeat."""

    async def read_kept_waiting(
        self, queues: Mapping[str, datetime], tenants: Collection[str] = (), *, now: datetime, limit: int
    ) -> list[WaitingRun]:
        """Return runs of HIGH and MEDIUM tier in these queues that are ready since the queue's instant or longer.

        Left out are expired ones, those that wait in lines, and those that crashed a worker.

        Args:
            tenants: of these, runs of all tiers in these queues are returned, however short they are ready.
            limit: the most of each lane, the longest waiting first.
        """
        ...

    async def read_seated(self, session_ids: Sequence[SessionId]) -> list[SeatedRun]:
        """Return what these sessions hold, as far as they are live."""
        ...

    async def request_preemptions(
        self, requests: Sequence[PreemptionRequest], *, now: datetime
    ) -> list[tuple[Lease, ...]]:
        """Ask runs to give up their slots. Return for each request the leases that were asked.

        A request does nothing if slots were sought for its lane after `sought_before`, and notes `now` for the lane
        otherwise. So of several servers one acts in a period. A run is passed over if it has another token or mark
        than its victim says, does not run, or is to be cancelled. A lane or run that somebody else is just writing is
        passed over, too.
        """
        ...
