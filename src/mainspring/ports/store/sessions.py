"""Worker sessions and their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from mainspring.core.ids import RunId, SessionId
from mainspring.ports.store.claims import HeldRun


class SessionStore(Protocol):
    """Worker sessions and their heartbeats."""

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        """Open live sessions."""
        ...

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        """Raise the counters of live sessions and reconcile what they hold, both ways.

        `lost`: leases of the beat that the session no longer owns. `cancel`: leases whose run is to be cancelled.
        `unknown`: runs of the session that were missing from this beat and from the one before it, too; what was
        given by a claim after `Beat.answered` is not missing.
        """
        ...

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        """End sessions; runs they still hold become orphans."""
        ...

    async def list_sessions(self) -> list[SessionFacts]:
        """Return the live sessions."""
        ...

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        """Return the counters of the live sessions. A judge reads them far more often than the rest."""
        ...

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        """Declare those sessions dead whose counter is still the one that was judged; return them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A worker session to open, with what it offers.

    Attributes:
        beat_period: how far apart its heartbeats are to be, as its worker is told; it is judged by that.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """A live session; `beats` is the counter that its heartbeats raise.

    Attributes:
        beat_period: as it was opened with; None of one that an earlier release has opened.
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


class SessionPulse(NamedTuple):
    """How a live session's heartbeats stand; see `SessionFacts`."""

    beats: int
    beat_period: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat: the session and the leases that it holds.

    Attributes:
        answered: the number of the last claim whose answer had arrived when `held` was read; None where the worker
            does not say. What a later claim was given is not missed: its answer may still be on its way.
    """

    session_id: SessionId
    held: tuple[tuple[RunId, int], ...]
    answered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatResult:
    """What a heartbeat brings back; see `SessionStore.beat_sessions`."""

    is_session_live: bool
    lost: tuple[tuple[RunId, int], ...] = ()
    cancel: tuple[tuple[RunId, int], ...] = ()
    unknown: tuple[HeldRun, ...] = ()
