"""Worker sessions and their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from mainspring.core.ids import RunId, SessionId
from mainspring.core.values import value
from mainspring.ports.store.claims import HeldRun


class SessionStore(Protocol):
    """Worker sessions and their heartbeats."""

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        """Open sessions, and return their ids."""
        ...

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        """Raise the counters of live sessions, and compare what they hold with what the store knows.

        Each beat raises its session's counter by one, even if one call carries several beats of a session. They are
        then reconciled one after the other.

        `lost`: leases named by the beat that the session no longer owns. `cancel`: leases whose run is to be
        cancelled. `preempt`: of the others, leases whose run is to give up its slot. `unknown`: runs of the session
        that neither this beat nor the one before it named. Runs that a claim after `Beat.answered` gave do not count
        as missing.
        """
        ...

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        """End sessions. Runs that they still hold become orphans."""
        ...

    async def list_sessions(self) -> list[SessionFacts]:
        """Return the live sessions."""
        ...

    async def find_workers(self, session_ids: Sequence[SessionId]) -> dict[SessionId, WorkerName]:
        """Return who sessions are, or were, for as long as the history may name them; unknown ones are left out."""
        ...

    async def find_session_owners(self, session_ids: Sequence[SessionId]) -> dict[SessionId, SessionOwner]:
        """Return whose sessions are, while the store has them; unknown ones are left out."""
        ...

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        """Return the counters of the live sessions. They are read far more often than the rest."""
        ...

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        """Declare dead the sessions whose counter is still the one that was judged. Return for each whether it was.

        A call judges a session at most once.
        """
        ...


@value(kw_only=True)
class NewSession:
    """A worker session to open, with what it offers.

    Attributes:
        beat_period: the time between its heartbeats, as announced to its worker. Its silence is judged by it.
        account: the account of its worker; None if there are no accounts, or the worker uses the store directly.
        tenant: the only one whose runs it gets; None means all.
    """

    worker: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    beat_period: timedelta | None = None
    account: str | None = None
    tenant: str | None = None


@value(kw_only=True)
class SessionFacts:
    """A live session; `beats` is the counter that its heartbeats raise.

    Attributes:
        beat_period: as it was opened with; None if an earlier release opened it.
        tenant: the only one whose runs it gets; None means all.
    """

    id: SessionId
    worker: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    functions: tuple[str, ...]
    labels: tuple[str, ...]
    beat_period: timedelta | None
    beats: int
    started_at: datetime
    last_beat_at: datetime
    tenant: str | None = None


class SessionOwner(NamedTuple):
    """Whose a session is: an account, and the tenant and the queues that it is bound to; see `NewSession`."""

    account: str | None
    tenant: str | None
    queues: tuple[str, ...]


class WorkerName(NamedTuple):
    """The name of a session's worker, and the host where it runs; None if that is not known."""

    worker: str
    host: str | None


class SessionPulse(NamedTuple):
    """The heartbeat counter of a live session and its period; see `SessionFacts`."""

    beats: int
    beat_period: timedelta | None


@value(kw_only=True)
class Beat:
    """A heartbeat: the session and the leases that it holds.

    Attributes:
        answered: the number of the last claim whose answer had arrived when `held` was read; None if the worker does
            not say. Leases of a later claim do not count as missing: the answer may still be on its way.
    """

    session_id: SessionId
    held: tuple[tuple[RunId, int], ...]
    answered: int | None = None


@value(kw_only=True)
class BeatResult:
    """The answer to a heartbeat; see `SessionStore.beat_sessions`."""

    is_session_live: bool
    lost: tuple[tuple[RunId, int], ...] = ()
    cancel: tuple[tuple[RunId, int], ...] = ()
    preempt: tuple[tuple[RunId, int], ...] = ()
    unknown: tuple[HeldRun, ...] = ()
