"""Leases: who carries out which run, and how an attempt ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.ids import JobId, LaneId, RunId, SessionId
from mainspring.core.model import Lane
from mainspring.core.outcomes import Transition
from mainspring.core.values import value


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A session's request for work; see `RunStore.claim_runs`.

    Attributes:
        number: the session's request number; the same as the last one is a repeat.
        lanes: in order of preference.
        lows: lower bounds of `ready_at`, so that dead index entries are not walked (design 6); a lane without one is
            walked from its beginning.
    """

    session_id: SessionId
    number: int
    lanes: tuple[LaneId, ...]
    limit: int
    lows: Mapping[LaneId, datetime] = field(default_factory=dict)
    is_quarantined: bool = False


@value()
class ClaimedRun:
    """What a claim returns of a run; the gateway adds the definition. Positional for speed.

    Attributes:
        is_cancel_requested: only in a repeated answer: the cancel was asked for after the first one.
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
    is_cancel_requested: bool
    tenant: str


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The leases given to one request."""

    runs: tuple[ClaimedRun, ...]
    is_session_live: bool = True


@value(kw_only=True)
class HeldRun:
    """The facts of a RUNNING run, for deciding what its end brings."""

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


class ApplyResult(StrEnum):
    """What became of a transition."""

    APPLIED = "applied"
    STALE = "stale"
    MISSING = "missing"


class ClaimStore(Protocol):
    """Gives runs out to sessions, and takes them back."""

    async def read_lanes(
        self, queues: Sequence[str], *, lows: Mapping[LaneId, datetime] | None = None
    ) -> list[Lane]:
        """Return the lanes of these queues (empty: of all) with the earliest `ready_at` of their ready runs.

        Args:
            lows: ready runs (those that crashed a worker excepted) with a `ready_at` before their lane's bound need
                not be found; a lane without one is looked at from its beginning.
        """
        ...

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """Give ready runs to sessions: RUNNING, token + 1, `deadline_at` = now + the run's timeout.

        Takes from the request's lanes in their order, in order of `ready_at` within a lane, runs with `low <= ready_at
        <= now` (`low`: the lane's lower bound) that are not parked and not expired. A session that is not live gets
        nothing (`is_session_live` False); its row is held FOR SHARE. A request whose number is the session's last one
        is a
        repeat: it gets the leases it got then, as far as they still run under the same token, and nothing new. One
        with a lower number is late: its caller gave it up, and it gets nothing.
        `is_quarantined` requests get at most one run that has crashed a worker, and only when the session runs nothing;
        others get only runs without a crash, and nothing while the session carries out a run alone.
        """
        ...

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        """End attempts, where the run is RUNNING under the transition's token and for its session (law 3).

        SUCCEEDED and CANCELLED go to the history, FAILED to the dead runs, RETRYING and PENDING stay with a new
        `ready_at` and with token + 1 (every end of a lease raises it). A transition to anything but SUCCEEDED ends
        CANCELLED where a cancel was asked for. All outcomes but a success write an attempt row; so does a success of a
        run that has earlier attempt rows. A repeat of what was applied (same run, token and outcome) is `APPLIED`
        again, whoever repeats it; another writer's token, and another session than the holder's, is `STALE`; an
        unknown run is `MISSING`. Of several for one run in a call, the first that fits takes effect.
        """
        ...

    async def list_orphans(self, *, limit: int) -> list[HeldRun]:
        """Return RUNNING runs without a live session."""
        ...

    async def list_overdue(self, *, now: datetime, limit: int) -> list[HeldRun]:
        """Return RUNNING runs whose `deadline_at` has passed."""
        ...

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        """Return the facts of RUNNING runs; None for runs that are not RUNNING."""
        ...
