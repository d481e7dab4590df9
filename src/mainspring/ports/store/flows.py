"""Flows: runs of workflows that the engine holds, their mail, and the turns that the mail makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import LaneKey, Run
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.mail import Mail
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun


class FlowStore(Protocol):
    """Flows: runs of workflows that the engine holds, and their mail.

    A run of a step has a `place` (see `NewRun`), and keys if it is that of a job with limits. The statement that ends
    such a run writes mail to its flow, whichever way the run ends. A cancel of a run that the engine holds writes mail,
    too (`FlowNotice.CANCEL`, once). The owner of the flow's shard (`run_shard` of its id) reads the mail, decides, and
    writes the turn.
    """

    async def start_flows(self, starts: Sequence[FlowStart], *, now: datetime) -> list[FlowVerdict]:
        """Hand leases of runs over to the engine, and begin their flows with the runs of their first steps.

        The run stays RUNNING. From then on `core.fencing.ENGINE_SESSION` holds it, under token + 1, without a deadline
        and without a part in the answers to repeated claims. So nobody takes it for an orphan, and what its former
        holder still reports is STALE. If its cancel was requested before, the flow has mail that says so.

        Returns:
            STARTED; or STALE if the run is not RUNNING under exactly this token and session. Then nothing was written
            of it. If a call names a run several times, the first start that fits takes effect.
        """
        ...

    async def read_flow_seeds(self, run_ids: Sequence[RunId]) -> list[bytes | None]:
        """Return with what the flows of live runs begin (`NewRun.flow_seed`); None where that is nothing."""
        ...

    async def post_mail(
        self, mails: Sequence[PostedMail], *, audit: Sequence[AuditEntry] = ()
    ) -> list[PostVerdict]:
        """Write mail to flows, in this order, in one transaction.

        Args:
            audit: written with it, if any of it is.

        Returns:
            POSTED; or MISSING if the flow does not exist (any more). Then nothing was written to it.
        """
        ...

    async def read_mail(
        self, shards: Sequence[int], *, lows: Mapping[int, int], limit: int
    ) -> list[KeptMail]:
        """Return mail of these shards, each with the revision that its flow has in the same snapshot.

        It is taken shard by shard in the order given, and by number within each. So the caller rotates them, that none
        is always last. Numbers are given before the commit: now and then, lower ones become visible later.

        Args:
            shards: each once.
            lows: the lowest number to look at, by shard, so that the scan skips what was removed; 0 for others.
            limit: the most mail in all.
        """
        ...

    async def read_woken(self, shards: Sequence[int], *, until: datetime, limit: int) -> list[WokenFlow]:
        """Return flows of these shards that wake until an instant, each with the revision that it has in the snapshot.

        They come in the order in which they wake.
        """
        ...

    async def drop_mail(self, mails: Sequence[MailPlace]) -> None:
        """Remove mail to flows that do not exist any more. Mail to one that exists stays.

        A flow is there before its first mail, and does not come back. So mail without a flow has come too late.
        """
        ...

    async def read_flows(self, flow_ids: Sequence[RunId]) -> list[KeptFlow | None]:
        """Return flows, each with what its turns need of its run; None for those that do not exist (any more)."""
        ...

    async def turn_flows(
        self, turns: Sequence[TurnedFlow], *, epochs: Epochs, now: datetime
    ) -> list[FlowVerdict]:
        """Write turns: each as a whole or not at all, and all of the call in one transaction.

        The flow gets its new state and a revision of one more, its mail is removed, and runs of steps are made and
        cancelled as `submit_runs` and `cancel_runs` do it. Mail of runs that are cancelled at once is there when the
        call returns. With an end, the flow is removed, and its run ends with its last state kept. An end is written as
        `apply` does it: after a request to cancel, all but a success ends CANCELLED.

        A call has at most one turn of a flow.

        Returns:
            TURNED; LOST if the flow has another revision, is gone, or has lost some of the mail that the turn is about;
            FENCED if the epoch of its shard is not the given one (law 3).
        """
        ...

    async def reconcile_flows(self, shards: Sequence[int], *, now: datetime, limit: int) -> list[RunId]:
        """Write the mail of runs whose ends were not told to their flows, and return these flows, at most `limit`.

        Such a flow counts more live runs than it has runs and mail, though nothing that this program does leaves one
        behind. It gets mail for each step whose newest run has ended, as far as that is kept; what it knows already
        changes nothing. Programs before `TELLS_FLOWS` do not even keep whose step a run was, so there must be none of
        them.
        """
        ...

    async def read_flow_states(self, flow_ids: Sequence[RunId]) -> list[bytes | None]:
        """Return how far flows have come, live or ended ones, as `ports.flow_codec` encodes it; None for others.

        Of a run that has ended without a flow, it is with what that would have begun (`NewRun.flow_seed`).
        """
        ...

    async def read_step_ends(self, places: Sequence[StepPlace]) -> list[Run | None]:
        """Return for each place the newest run that has ended, with its result or error; None if none is kept."""
        ...

    async def read_flow_values(self, places: Sequence[StepPlace]) -> list[bytes | None]:
        """Return what turns have kept of steps (`TurnedFlow.values`); None where there is nothing.

        What a turn has kept is there until its flow has ended.
        """
        ...

    async def list_flow_runs(
        self,
        flow_id: RunId,
        *,
        steps: Sequence[int] | None = None,
        state: RunState | None = None,
        after: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return a page of the runs of a flow's steps, live and ended ones, in order of id. Each has its `place`.

        Args:
            steps: only runs of these steps, each once; None: of all.
            state: with `steps`, only runs in this state.
        """
        ...


@value()
class FlowValue:
    """What a step has left for expressions of later turns: its result as JSON text, or its error as text."""

    step: int
    value: bytes


@value(kw_only=True)
class FlowStart:
    """A run of a workflow that the engine takes over, and how its flow begins.

    Attributes:
        token, session_id: the lease under which the run was given out.
        state: as `ports.flow_codec` encodes it.
        live: how many runs the state counts as live.
        runs: of the first steps. Each has a `place` in this flow.
        goes_on: the flow gets mail to go on (`FlowNotice.GO_ON`).
        wake_at: when it has a turn though no mail came: the first of its timers; None if it has none.
        waits: for events, that begin. One that is met by an event that is kept makes mail at once (`AnswerKind.EVENT`),
            and the others make it when such an event is added. Whichever comes first, none is lost.
        values: as of `TurnedFlow`: of what it has taken over.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    state: bytes
    live: int
    runs: tuple[NewRun, ...]
    goes_on: bool = False
    wake_at: datetime | None = None
    waits: tuple[NewWait, ...] = ()
    values: tuple[FlowValue, ...] = ()


@value(kw_only=True)
class NewWait:
    """A step of a flow waits for an event from now on, or gets one that is kept already.

    Attributes:
        key: that of the event; None: it has none.
        since: only events count that were received from this instant on.
    """

    step: int
    tenant: str
    topic: str
    key: str | None
    since: datetime


class FlowVerdict(StrEnum):
    """What became of a flow's start, or of a turn."""

    STARTED = "started"
    STALE = "stale"
    TURNED = "turned"
    LOST = "lost"
    FENCED = "fenced"


class PostVerdict(StrEnum):
    """What became of mail that was posted."""

    POSTED = "posted"
    MISSING = "missing"


@value()
class PostedMail:
    """Mail to write."""

    flow_id: RunId
    mail: Mail


@value()
class MailPlace:
    """Where mail is kept.

    Attributes:
        shard: that of its flow.
        number: unique in its shard, and growing.
    """

    shard: int
    number: int


@value()
class KeptMail:
    """Mail as it was read.

    Attributes:
        revision: that of the flow; None if the flow does not exist.
    """

    place: MailPlace
    flow_id: RunId
    revision: int | None
    mail: Mail


@value()
class WokenFlow:
    """A flow with a timer.

    Attributes:
        wake_at: the first of its timers.
    """

    flow_id: RunId
    revision: int
    wake_at: datetime


@value(kw_only=True)
class KeptFlow:
    """A flow, and what its turns need of its run.

    Attributes:
        revision: one more with each turn.
        state: as `ports.flow_codec` encodes it.
        token: that of the lease that the engine holds, with `ENGINE_SESSION`.
        attempt: the number of the run's attempt.
        lane: that of the run, with its present tier.
        target_key: of the run, as it was submitted; None means the run's id.
        payload: of the run; None means the job's.
        parent: the workflow's run of one of whose steps it is the run; None if it is of none.
    """

    id: RunId
    revision: int
    state: bytes
    job_id: JobId
    version: int
    token: int
    attempt: int
    lane: LaneKey
    fire_at: datetime | None
    due_at: datetime
    started_at: datetime
    target_key: str | None
    payload: bytes | None
    trace: bytes | None
    parent: RunId | None = None


@value(kw_only=True)
class TurnedFlow:
    """A turn to write.

    Attributes:
        revision: that of the flow when its mail and its state were read.
        state: the new one, as `ports.flow_codec` encodes it.
        live: how many runs the new state counts as live.
        mails: what the turn is about. It is removed.
        runs: of steps that start. Each has a `place` in this flow.
        cancels: the steps whose live runs are cancelled.
        cancel_reason: why; needed if there are any.
        goes_on: the flow gets mail to go on (`FlowNotice.GO_ON`).
        values: what is kept for later turns. A value that there is already stays as it is.
        drops_values: with its end, what turns have kept of it goes. Flows of which nothing was kept do without.
        end: how the flow's run ends, under `ENGINE_SESSION`; None if it goes on.
        wake_at, waits: as of `FlowStart`.
        drops_waits: with its end, what waits for events goes. Flows that never wait for one do without.
    """

    flow_id: RunId
    revision: int
    state: bytes
    live: int
    mails: tuple[MailPlace, ...] = ()
    runs: tuple[NewRun, ...] = ()
    cancels: tuple[int, ...] = ()
    cancel_reason: str = "workflow"
    goes_on: bool = False
    values: tuple[FlowValue, ...] = ()
    drops_values: bool = False
    end: Transition | None = None
    wake_at: datetime | None = None
    waits: tuple[NewWait, ...] = ()
    drops_waits: bool = False
