"""How a worker reaches the engine: register, claim, beat, log, report, leave (design 3.2, 4).

`LocalGateway` (engine) implements it within the server's process or directly on PostgreSQL; `HttpGateway` implements
it over the open worker protocol. Every call is batched.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from mainspring.core.ids import JobId, RunId, SessionId, key_for_target
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import Failure
from mainspring.core.run_logs import LogPart, RunProgress
from mainspring.core.values import value
from mainspring.ports.executor import Snooze, Success

MAX_SLOTS = 10_000
"""The most attempts that one worker may run at a time; a heartbeat names at most twice as many leases."""


@value(kw_only=True)
class Registration:
    """What a worker offers during a session.

    Attributes:
        name: the worker's name, for people (`host-pid` by default).
        queues: the queues it serves; empty means all.
        types: target types other than `function` that it can run (`http`, `shell`).
        functions: names of the Python functions it has registered.
        labels: what it offers to runs with a label requirement (`gpu`).
        slots: how many attempts it can run at a time.
        account: the account of the worker; None if there are no accounts, or it uses the store directly.
        tenant: the only one whose runs it gets; None means all.
    """

    name: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    account: str | None = None
    tenant: str | None = None


@value(kw_only=True)
class Session:
    """A granted session: its id and how often to beat.

    Attributes:
        tenant: the only one whose runs it gets; None means all.
        queues: those that it serves, of which its token may have left some; empty means all.
    """

    id: SessionId
    beat_period: timedelta
    tenant: str | None = None
    queues: tuple[str, ...] = ()


@value()
class Lease:
    """The right to run one attempt: worker session and token (design 1). Its fields are positional for speed.

    Attributes:
        is_cancel_requested: a cancel was requested while the answer was on its way. Do not start the attempt; report
            it as stopped.
        batch: leases with the same text are one call of the function, for one slot; None is a call of its own.
        trace: the run's trace context (`core.tracing`); None if it is not traced.
    """

    run_id: RunId
    token: int
    job_id: JobId
    version: int
    tenant: str
    attempt: int
    fire_at: datetime | None
    due_at: datetime
    payload: bytes | None
    target_key: str | None
    is_quarantined: bool
    is_cancel_requested: bool
    spec: JobSpec
    batch: str | None = None
    trace: bytes | None = None

    @property
    def idempotency_key(self) -> str:
        """The idempotency key, the same for every attempt of the run; see `AttemptContext`."""
        return key_for_target(self.run_id, self.target_key)


@value(kw_only=True)
class FunctionLimit:
    """A limit that certain functions share: how many leases of one claim may be for them.

    Attributes:
        functions: names of functions that the session offers.
        limit: the most leases for these functions together; 0 means none.
    """

    functions: frozenset[str]
    limit: int


@value(kw_only=True)
class ClaimCall:
    """A request for work.

    Attributes:
        number: grows by one with each new request; a repeat with the same number gets the same answer.
        limit: the most leases to return (the worker's free slots). Those of one batch count as one.
        wait: how long the gateway may hold the request until there is work (long poll).
        is_idle: the worker holds no lease, so it may get a quarantined run.
        function_limit: the functions of which the worker can start fewer than it has free slots; None means no limit.
    """

    session_id: SessionId
    number: int
    limit: int
    wait: timedelta
    is_idle: bool
    function_limit: FunctionLimit | None = None


@value(kw_only=True)
class ClaimReply:
    """The answer to a claim: leases, and whether a quarantined run is waiting for an idle worker.

    Attributes:
        is_session_live: False if the session was declared dead; register again.
    """

    leases: tuple[Lease, ...] = ()
    is_session_live: bool = True
    is_quarantined_waiting: bool = False


@value(kw_only=True)
class BeatReply:
    """The answer to a heartbeat.

    Attributes:
        lost: leases that the session no longer owns. Stop them; their reports would be stale.
        cancel: leases whose run is to be cancelled. Stop them and report.
        preempt: leases whose run is to give up its slot. Stop them, and hand them back as preempted.
    """

    is_session_live: bool = True
    lost: tuple[tuple[RunId, int], ...] = ()
    cancel: tuple[tuple[RunId, int], ...] = ()
    preempt: tuple[tuple[RunId, int], ...] = ()


@value(kw_only=True)
class HandedBack:
    """The worker handed the lease back unfinished; `is_preempted`: because it was asked to."""

    was_started: bool
    is_preempted: bool = False


@value(kw_only=True)
class Stopped:
    """The worker stopped the attempt because a cancel was requested."""

    error: str | None = None
    output: str | None = None


Ending = Success | Failure | Snooze | HandedBack | Stopped


@value()
class Report:
    """How one attempt ended. Its fields are positional for speed.

    Attributes:
        took: how many seconds it held its slot, if that was measured.
    """

    run_id: RunId
    token: int
    ending: Ending
    took: float | None = None


class ReportResult(StrEnum):
    """The result of a report. A repeat of an applied report is APPLIED again."""

    APPLIED = "applied"
    STALE = "stale"
    MISSING = "missing"


@value()
class LogReport:
    """What an attempt under way has written, or says of its progress. Its fields are positional for speed.

    Attributes:
        parts: by their places.
        forget: the places from and to which parts are not kept any longer; None if all stay.
        progress: None if there is nothing new.
    """

    run_id: RunId
    token: int
    parts: tuple[LogPart, ...] = ()
    forget: tuple[int, int] | None = None
    progress: RunProgress | None = None


class LogResult(StrEnum):
    """The result of a log report."""

    KEPT = "kept"
    STALE = "stale"
    """The session does not hold the lease any more; nothing is kept."""
    UNKNOWN = "unknown"
    """The server is of a release that keeps no output of attempts under way. Their reports bring it."""


class WorkerGateway(Protocol):
    """The engine as a worker sees it. After `Unreachable` or `StoreUnavailable`, a call may be repeated."""

    async def register(self, registration: Registration) -> Session:
        """Open a session."""
        ...

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases. Wait up to `call.wait` for the first one."""
        ...

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        """Report that the session is alive and what it holds. Learn what it has lost and what to cancel.

        Args:
            answered: the number of the last claim whose answer has arrived. Leases of later claims do not count as
                forgotten, because the answer may still be on its way.
        """
        ...

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Report how attempts ended. Return one result per report."""
        ...

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        """Keep what attempts under way have written. Return one result per report. It may be repeated."""
        ...

    async def leave(self, session_id: SessionId) -> None:
        """End the session. Leases that it still holds count as lost at once."""
        ...


class ServingGateway(WorkerGateway, Protocol):
    """The engine as a server sees it, which answers workers that are bound to a tenant, too."""

    async def report(
        self, session_id: SessionId, reports: tuple[Report, ...], *, tenant: str | None = None
    ) -> tuple[ReportResult, ...]:
        """Report how attempts ended. Return one result per report.

        Args:
            tenant: the only one whose runs exist for the session; None means all.
        """
        ...
