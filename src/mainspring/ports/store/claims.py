"""Leases: which session runs which run, and how an attempt ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from mainspring.core.ids import JobId, KeyId, LaneId, RunId, SessionId
from mainspring.core.model import Lane
from mainspring.core.outcomes import Transition
from mainspring.core.preemption import PreemptionMark
from mainspring.core.values import value
from mainspring.ports.store.runs import NewRun

NO_QUOTAS: Mapping[LaneId, int] = MappingProxyType({})
"""For requests that may take any number of runs of each lane."""
NO_CAPPED_LANES: Mapping[LaneId, tuple[KeyId, ...]] = MappingProxyType({})
"""For requests that are about no lane with a cap."""


@value(kw_only=True)
class ClaimRequest:
    """A session's request for work; see `ClaimStore.claim_runs`.

    Attributes:
        number: the session's request number. A request with the same number as the last one is a repeat.
        lanes: in order of preference.
        lows: lower bounds of `ready_at`, so that the scan skips dead index entries (design 6). A lane without a bound
            is scanned from its beginning.
        quotas: the most runs of each lane, so that the seats are shared; no bound for other lanes, nor for quarantined
            runs. Requests of one call that have the same object here share the quotas.
        policy_epoch: that of the restrictions under which the lanes were chosen.
        caps: see `LineClaim`; only for a quarantined run. Other runs of such lanes are claimed by `claim_lined_up`.
    """

    session_id: SessionId
    number: int
    lanes: tuple[LaneId, ...]
    limit: int
    lows: Mapping[LaneId, datetime] = field(default_factory=dict)
    quotas: Mapping[LaneId, int] = field(default_factory=lambda: NO_QUOTAS)
    is_quarantined: bool = False
    policy_epoch: int = 0
    caps: Mapping[LaneId, tuple[KeyId, ...]] = field(default_factory=lambda: NO_CAPPED_LANES)


@value()
class ClaimedRun:
    """What a claim returns about a run; the gateway adds the definition. Its fields are positional for speed.

    Attributes:
        trace: the run's trace context; None if it is not traced.
        is_cancel_requested: set only in a repeated answer, if the cancel was requested after the first one.
    """

    run_id: RunId
    token: int
    job_id: JobId
    version: int
    attempt: int
    fire_at: datetime | None
    due_at: datetime
    payload: bytes | None
    target_key: str | None
    is_quarantined: bool
    trace: bytes | None
    is_cancel_requested: bool
    tenant: str


def claimed_at_once(run_id: RunId, run: NewRun) -> ClaimedRun:
    """Return what `ClaimStore.submit_claimed` answers for a run that it has inserted under this id."""
    return ClaimedRun(
        run_id,
        1,
        run.job_id,
        run.version,
        1,
        run.fire_at,
        run.due_at,
        run.payload,
        run.target_key,
        False,
        run.trace,
        False,
        run.lane.tenant,
    )


@value()
class ClaimResult:
    """The leases given to one request.

    Attributes:
        taken: how many of them are of each lane; empty if the answer is that of an earlier claim.
        is_policy_old: nothing was given, and the number is not used, because the restrictions have changed.
    """

    runs: tuple[ClaimedRun, ...]
    is_session_live: bool = True
    taken: Mapping[LaneId, int] = field(default_factory=dict, compare=False)
    is_policy_old: bool = False


@value(kw_only=True)
class HeldRun:
    """The facts about a RUNNING run, from which its next state is decided.

    Attributes:
        mark: the last request to give up its slot, under this token or an earlier one.
        trace: the run's trace context; None if it is not traced.
    """

    run_id: RunId
    token: int
    job_id: JobId
    version: int
    attempt: int
    is_quarantined: bool
    quarantined_crashes: int
    is_cancel_requested: bool
    session_id: SessionId
    started_at: datetime
    deadline_at: datetime
    mark: PreemptionMark | None = None
    trace: bytes | None = None


class ApplyResult(StrEnum):
    """What became of a transition."""

    APPLIED = "applied"
    STALE = "stale"
    MISSING = "missing"


class ClaimStore(Protocol):
    """Gives runs to sessions, and takes them back."""

    async def read_lanes(
        self,
        queues: Sequence[str],
        *,
        lows: Mapping[LaneId, datetime] | None = None,
        after: LaneId | None = None,
        limit: int | None = None,
    ) -> list[Lane]:
        """Return the lanes of these queues (of all queues if empty) with the earliest `ready_at` of their ready runs.

        Args:
            lows: lower bounds by lane. Ready runs with an earlier `ready_at` need not be found, except those that
                crashed a worker. A lane without a bound is scanned from its beginning.
            after: only lanes with a higher id.
            limit: the most lanes to return, those with the lowest ids; all if None. They are in order of id.
        """
        ...

    async def read_some_lanes(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime]
    ) -> list[Lane]:
        """Return what `read_lanes` would, of these lanes only. Lanes that do not exist are left out."""
        ...

    async def read_ready_instants(
        self, lanes: Sequence[LaneId], *, lows: Mapping[LaneId, datetime], now: datetime, limit: int
    ) -> dict[LaneId, list[datetime]]:
        """Return the `ready_at` of the first runs that a claim would take of each lane now, the earliest first.

        Runs that crashed a worker are left out, and so are those that have expired.

        Args:
            lanes: each once.
            limit: the most instants of each lane.
        """
        ...

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """Give ready runs to sessions: RUNNING, token + 1, `deadline_at` = now + the run's timeout.

        Walks the request's lanes in their order, and takes runs in order of `ready_at` within each lane, at most the
        lane's quota. It takes runs with `low <= ready_at <= now` (`low`: the lane's lower bound) that are neither
        parked nor expired. A session that is not live gets nothing (`is_session_live` False). On PostgreSQL the
        session's row is locked until the claim is committed.

        A request with the number of the session's last one is a repeat: it gets the same leases again, as far as they
        still run under the same token, and nothing new. A request with a lower number is late: its caller has given
        it up, and it gets nothing.

        A request with `is_quarantined` gets at most one run that has crashed a worker, and only while the session
        runs nothing. Other requests get only runs without a crash, and nothing while the session runs a quarantined
        run.

        A new request under another `policy_epoch` than the session's gets nothing, and its number is not used
        (`is_policy_old`): the restrictions have changed since its lanes were chosen.
        """
        ...

    async def try_claim(self, request: ClaimRequest, *, now: datetime) -> ClaimResult | None:
        """Give ready runs to a session as `claim_runs` does, if there are any, without waiting for other writers.

        It is for speculative claims: the caller does not know whether anything is ready. A claim that finds nothing
        writes nothing. The request must not be for quarantined runs.

        Returns:
            None: nothing was claimed, and the request's number is not used. Perhaps nothing is ready, the session is
            not live, its number was used before, the restrictions have changed, or somebody else is just writing its
            row. `claim_runs` tells.
        """
        ...

    async def submit_claimed(self, run: NewRun, *, request: ClaimRequest, now: datetime) -> ClaimedRun | None:
        """Insert a run that the request's session runs from the beginning: RUNNING under token 1, in one transaction.

        It has the effect of `submit_runs` and then `try_claim`, if nothing stands in the way of either:

        - The run `is_plain`, is due and has not expired. Its job exists, in the version that the run needs.
        - Its lane is interned, and one of the request's lanes.
        - Nothing is ready in any of the request's lanes, from their lower bounds on, so that nothing is passed by.
        - The session is live, the request's number is new, its policy epoch is the session's, and the session runs
          no quarantined run. Nobody else is just writing the session's row.

        The request must not be for quarantined runs, and its limit must not be 0.

        Returns:
            None: nothing was written, and the request's number is not used. `submit_runs` tells why, or submits the
            run for anybody's claim.
        """
        ...

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        """End attempts whose run is RUNNING under the transition's token and session (law 3).

        SUCCEEDED and CANCELLED runs move to the history, FAILED ones to the dead runs. RETRYING and PENDING runs
        stay, with a new `ready_at` and token + 1, so that a late holder is stale at once. If a cancel was requested, a
        transition to anything but SUCCEEDED ends CANCELLED. Every outcome except a success writes an attempt row; so
        does the success of a run that has earlier attempt rows.

        A repeat of an applied transition (same run, token and outcome) is `APPLIED` again, whoever repeats it. A
        transition with another token, or with another session than the holder's, is `STALE`. An unknown run is
        `MISSING`. If a call has several transitions for one run, the first that fits takes effect.
        """
        ...

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        """Return RUNNING runs without a live session, in no order."""
        ...

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        """Return RUNNING runs whose `deadline_at` has passed, the earliest first."""
        ...

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        """Return the facts about RUNNING runs; None for runs that are not RUNNING, or that the engine holds."""
        ...
