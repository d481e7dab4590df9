"""The store as the engine sees it: verbs of the domain, each one atomic use case (design 8).

Rules that hold for every method:

- It is one transaction: all of it is durable when it returns, or none of it happened.
- `now` is an argument wherever time matters; no store reads a clock but in `read_time`.
- Lists in, lists out, results in the order of the arguments. An empty list costs no round trip.
- Rows are locked in id order; bystanders (`expire_*`, `list_orphans`, `prune_*`) pass over locked rows.
- Expected outcomes are values; `StoreUnavailable` is raised when the store did not answer.

The types that go in and out are in `store_types`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.core.ids import JobId, LaneId, RunId, SessionId
from mainspring.core.model import Attempt, Job, JobSpec, Lane, Run, Span
from mainspring.core.shards import Refusal
from mainspring.core.states import RunState
from mainspring.core.transitions import Transition
from mainspring.ports.store_types import (
    AddResult,
    ApplyResult,
    Beat,
    BeatResult,
    CancelResult,
    ChangeResult,
    ClaimRequest,
    ClaimResult,
    ClockChange,
    Cluster,
    DueClock,
    EditResult,
    Epochs,
    FailoverFacts,
    Fire,
    FireResult,
    Followup,
    HeldRun,
    JobEdit,
    NewJob,
    NewRun,
    NewSession,
    NewSpan,
    NodeFacts,
    SessionFacts,
    SessionPulse,
    ShardLease,
    SpanStep,
    StoreCapabilities,
    SubmitResult,
)


class JobStore(Protocol):
    """Definitions and their versions."""

    async def add_jobs(self, jobs: Sequence[NewJob], *, now: datetime) -> list[AddResult]:
        """Insert jobs as version 1, each with its clock row; `NAME_TAKEN` where the tenant has such a job."""
        ...

    async def edit_jobs(self, edits: Sequence[JobEdit], *, now: datetime) -> list[EditResult]:
        """Keep a new version and set the clock, raising its revision.

        Takes effect only where the clock still has the edit's `revision` and `fire_at`; else `MOVED`: read the job
        again and decide anew. The edit's spans are inserted with it; with `ends_gap` the open gap ends before. A paused
        job stays paused.
        """
        ...

    async def pause_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """Stop the clock, raise its revision, and open a gap span for `paused` (given in the change).

        `DONE` too, without effect, for a job that is paused already. `MOVED` and `MISSING` as for edits.
        """
        ...

    async def resume_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """Start the clock at `next_fire_at`, raise its revision, and close the open gap span at `now`.

        A gap that would begin after `now` is removed instead: no fire lay in the pause.
        """
        ...

    async def delete_jobs(self, changes: Sequence[ClockChange], *, now: datetime) -> list[ChangeResult]:
        """Make jobs cease to exist: the clock row goes, open spans are closed, the name is free at once.

        An open gap that would begin after `now` is removed, as by `resume_jobs`.
        Versions and runs stay readable. Live runs are left to `cancel_runs`.
        """
        ...

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        """Return jobs that exist; None for unknown or deleted ones."""
        ...

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        """Return the tenant's jobs of these names."""
        ...

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        """Return a page of the tenant's jobs in order of id (of creation), those after the given one."""
        ...

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        """Return kept definitions, of deleted jobs too."""
        ...


class ClockStore(Protocol):
    """Fires and spans."""

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        """Return clocks of these shards with `since <= next_fire_at <= until`, the earliest first.

        Args:
            since: None is from the beginning on, past all entries of clocks that have moved on.
        """
        ...

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        """Win fires and insert what they bring about (law 2): runs, skipped runs, spans.

        A fire takes effect only where the clock row matches id, revision and `fire_at` and lies before it in
        `fired_through`; else it is `LOST`. `FENCED` where the shard's epoch is not the given one (law 3; the shard
        rows are held FOR SHARE). With `skip_if_live`, runs of a job that has a live run become SKIPPED records with
        reason `overlap`. At most one fire per job in a call.
        """
        ...

    async def add_spans(self, spans: Sequence[NewSpan], *, now: datetime) -> None:
        """Insert spans (backfill)."""
        ...

    async def read_spans(self, shards: Sequence[int], *, limit: int) -> list[Span]:
        """Return open catch-up and backfill spans of existing jobs that are not paused, the oldest first."""
        ...

    async def advance_spans(
        self, steps: Sequence[SpanStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """Move a span's cursor and insert the runs it passed; `LOST` unless the cursor is still where it was.

        Locks the job's clock row first, so that overlap is judged once. Fenced like `record_fires`.
        """
        ...

    async def list_spans(self, job_id: JobId, *, limit: int = 100) -> list[Span]:
        """Return a job's spans, the newest first."""
        ...


class RunStore(Protocol):
    """Runs from submission to history."""

    async def submit_runs(self, runs: Sequence[NewRun], *, now: datetime) -> list[SubmitResult]:
        """Insert runs of existing jobs, with their idempotency rows; lanes are interned on the way.

        An idempotency key that is known and not expired inserts nothing: `DUPLICATE` with the first run's id when the
        request hash is the same, `KEY_MISMATCH` when not; also within one call. `JOB_MISSING` where the job is gone,
        `JOB_CHANGED` where a run that must be of its newest version is not.
        A run's first rank is `max(due_at, now)`: never in the past when written.
        """
        ...

    async def read_lanes(
        self, queues: Sequence[str], *, lows: Mapping[LaneId, datetime] | None = None
    ) -> list[Lane]:
        """Return the lanes of these queues (empty: of all) with the earliest rank of their ready runs.

        Args:
            lows: ready runs (those that crashed a worker excepted) with a rank before their lane's bound need not be
                found; a lane without one is looked at from its beginning.
        """
        ...

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """Give ready runs to sessions: RUNNING, token + 1, `deadline_at` = now + the run's timeout.

        Takes from the request's lanes in their order, in order of rank within a lane, runs with `low <= rank <= now`
        (`low`: the lane's lower bound) that are not parked and not expired. A session that is not live gets nothing
        (`is_session_live` False); its row is held FOR SHARE. A request whose number is the session's last one is a
        repeat: it gets the leases it got then, as far as they still run under the same token, and nothing new. One
        with a lower number is late: its caller gave it up, and it gets nothing.
        `is_alone` requests get at most one run that has crashed a worker, and only when the session runs nothing;
        others get only runs without a crash, and nothing while the session carries out a run alone.
        """
        ...

    async def apply(
        self, transitions: Sequence[Transition], *, now: datetime, followups: Sequence[Followup] = ()
    ) -> list[ApplyResult]:
        """End attempts, where the run is RUNNING under the transition's token (law 3).

        SUCCEEDED and CANCELLED go to the history, FAILED to the dead runs, RETRYING and PENDING stay with a new rank
        and with token + 1 (every end of a lease raises it). A transition to anything but SUCCEEDED ends CANCELLED where
        a cancel was asked for. All outcomes but a success write an attempt row; so does a success of a run that has
        earlier attempt rows. A repeat of what was applied (same run, token and outcome) is `APPLIED` again; another
        writer's token is `STALE`; an unknown run is `MISSING`. Followups are inserted where their parent's transition
        was applied now.
        """
        ...

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime
    ) -> list[CancelResult]:
        """Cancel: waiting runs end at once, RUNNING ones are marked (`REQUESTED`), ended ones are `FINISHED`."""
        ...

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        """Skip waiting runs whose `expires_at` has passed, with reason `expired`."""
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

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        """Return runs, live or finished."""
        ...

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        before: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return a page of runs, the newest id first, those before the given one."""
        ...

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        """Return for each job its newest run that is due (`due_at <= now`) or started."""
        ...

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        """Return a run's attempt rows in order of token."""
        ...

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        """Return how many runs are in each state, finished ones within retention included."""
        ...


class SessionStore(Protocol):
    """Worker sessions and their heartbeats."""

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        """Open live sessions."""
        ...

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        """Raise the counters of live sessions and reconcile what they hold, both ways.

        `lost`: leases of the beat that the session does not own any more. `cancel`: those whose cancel was asked for.
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
        """Return the counters of the live sessions: what a judge looks at, many times as often as at the rest."""
        ...

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        """Declare sessions dead where the counter is still the one that was judged; say which."""
        ...


class NodeStore(Protocol):
    """Scheduler nodes and the shards they own."""

    async def beat_node(
        self,
        node: NodeFacts,
        *,
        period: timedelta | None = None,
        refusal: Refusal | None = None,
        now: datetime,
    ) -> None:
        """Insert the node or raise its counter; say when to expect the next beat, and why it owns no shards, if so."""
        ...

    async def read_cluster(self) -> Cluster:
        """Return the recorded version of the zone data and all nodes with their counters."""
        ...

    async def record_tzdata(self, version: str, *, expected: str | None, now: datetime) -> bool:
        """Record the version of the zone data where what is recorded is still `expected`; say whether it was."""
        ...

    async def expire_nodes(self, judged: Sequence[tuple[str, int]], *, now: datetime) -> list[bool]:
        """Remove nodes whose counter is still the one that was judged; say which.

        Their shards are free from then on. A node that was not dead comes back with its next heartbeat.
        """
        ...

    async def read_shards(self) -> list[ShardLease]:
        """Return all 256 shards with their epochs, owners and the owners' counters."""
        ...

    async def take_shards(
        self, node_id: str, expected: Mapping[int, int], *, now: datetime
    ) -> dict[int, int]:
        """Take shards whose epoch is the expected one; return the new epoch (old + 1) of those taken.

        Passes over shards under which a write is under way: that defers, and the taker comes again.
        """
        ...

    async def release_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Let others take shards held with these epochs.

        The epochs stay: until one is taken, writes under its epoch are good.
        """
        ...

    async def leave_shards(self, node_id: str, epochs: Epochs, *, now: datetime) -> None:
        """Give up shards held with these epochs and remove the node, so that another may take them at once."""
        ...


class UpkeepStore(Protocol):
    """The janitor's verbs; each returns how many rows it removed."""

    async def prepare_history(self, *, now: datetime) -> None:
        """Make room ahead in the history (partitions on PostgreSQL)."""
        ...

    async def prune_history(self, *, before: datetime, limit: int) -> int:
        """Remove finished runs, attempts and closed spans that ended before the instant; dead runs stay.

        Returns the count of what was most numerous among them: as many as `limit` means that more may be left.
        """
        ...

    async def prune_keys(self, *, now: datetime, limit: int) -> int:
        """Remove expired idempotency rows."""
        ...

    async def prune_sessions(self, *, before: datetime, limit: int) -> int:
        """Remove sessions that ended before the instant and hold nothing."""
        ...

    async def prune_lanes(self, *, limit: int) -> int:
        """Remove lanes without live runs, safely against a submit that uses one."""
        ...


class Store(JobStore, ClockStore, RunStore, SessionStore, NodeStore, UpkeepStore, Protocol):
    """Durable truth."""

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        ...

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """Failovers of the database that this process has come to know of, the newest last; of the last ones only.

        Empty in a store that has no servers of its own.
        """
        ...

    async def open(self) -> None:
        """Connect, and bring an older schema up to date.

        Raises:
            SchemaMismatch: the schema is newer than this program.
            StoreLocked: another process owns this store, where only one may.
        """
        ...

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        ...

    async def read_time(self) -> datetime:
        """Return the store's clock, aware UTC."""
        ...
