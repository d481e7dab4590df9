"""Runs from submission to history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.audit import AuditEntry
from mainspring.core.ids import SPREAD, FireRangeId, JobId, RunId, job_shard
from mainspring.core.limits import RunKey
from mainspring.core.model import Attempt, LaneKey, Run, RunKind
from mainspring.core.once import OnceGuard
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace, is_workflow_route


@value(kw_only=True)
class IdempotencyKey:
    """A submitter's key: at most one run per tenant and key until it expires.

    Attributes:
        request_hash: tells this request from others that have the key, and is kept with it.
        former_hashes: what may be kept instead for this very request, because it was hashed in another way.
    """

    key: str
    request_hash: bytes
    expires_at: datetime
    former_hashes: tuple[bytes, ...] = ()

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """Whatever may be kept for this request."""
        return self.request_hash, *self.former_hashes


@value()
class NewRun:
    """A run to insert. Its fields are positional for speed.

    Attributes:
        due_at: the instant at which it is to start; its first `ready_at` is this or `now`, whichever is later.
        payload: the run's own payload; None means the job's.
        skip_reason: if set, the run is recorded as SKIPPED with this reason, and never becomes live.
        target_key: the idempotency key passed to the target; None means the run's id.
        submit_key: the key that guards the submission itself.
        must_be_newest: submit the run only if `version` is the job's newest.
        keys: what the run is counted under, that of its line first; at most three. A run with keys waits in that line,
            and only `claim_lined_up` starts it.
        once: the submission's key, if a rule of its job says what runs once.
        redrive_of: the ended run that this one repeats. It needs a `submit_key`, so that one run repeats it at most.
        trace: its trace context (`core.tracing`), which its leases have, too.
        place: of a run of a workflow's step, which of which flow. The statement that ends the run tells the flow.
        flow_seed: with `redrive_of`, of a run of a workflow: the state with which its flow begins, as
            `ports.flow_codec` encodes it. It is there as long as the run is live. Of a run that ends without a flow, it
            stands for the last state of that (`FlowStore.read_flow_states`).
    """

    job_id: JobId
    version: int
    lane: LaneKey
    kind: RunKind
    fire_at: datetime | None
    due_at: datetime
    timeout: timedelta
    payload: bytes | None = None
    expires_at: datetime | None = None
    skip_reason: str | None = None
    target_key: str | None = None
    submit_key: IdempotencyKey | None = None
    fire_range_id: FireRangeId | None = None
    must_be_newest: bool = False
    keys: tuple[RunKey, ...] = ()
    once: OnceGuard | None = None
    redrive_of: RunId | None = None
    trace: bytes | None = None
    place: StepPlace | None = None
    flow_seed: bytes | None = None

    @property
    def shard(self) -> int:
        """The shard of its id: that of its job. Runs of workflows are spread, so that no job's have one owner."""
        return SPREAD if is_workflow_route(self.lane.route) else job_shard(self.job_id)

    @property
    def is_plain(self) -> bool:
        """Whether it depends on nothing but its job: no key guards or limits it, it is not skipped, nor a step's."""
        return (
            self.submit_key is None
            and self.skip_reason is None
            and self.once is None
            and not self.keys
            and self.place is None
        )


@value()
class SubmitResult:
    """The result of a submission.

    Attributes:
        run_id: the run that was made, or the one that the submission's key stands for. None if the job is gone or has
            changed. For THROTTLED it is the run that was let through last.
        first: with DUPLICATE, the result of the first submission.
        skipped: the run that held the key before and had expired: it is SKIPPED now.
    """

    status: SubmissionVerdict
    run_id: RunId | None = None
    first: SubmissionVerdict = SubmissionVerdict.SUBMITTED
    skipped: RunId | None = None


class RunStore(Protocol):
    """Runs from submission to history."""

    async def submit_runs(
        self,
        runs: Sequence[NewRun],
        *,
        now: datetime,
        notice: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> list[SubmitResult]:
        """Insert runs of existing jobs, with their idempotency rows. Intern new lanes.

        A run whose idempotency key is known and not expired is not inserted. The result has the first run's id:
        `DUPLICATE` if the request hash is the same, `KEY_MISMATCH` if not. This holds within one call too. The result
        is `JOB_MISSING` if the job is gone, and `JOB_CHANGED` if a run must be of the newest version and is not. A
        run's first `ready_at` is `max(due_at, now)`, so it is never written in the past.

        A run with `once` is inserted as `core.once.decide_once` says, and is its key's holder then. Otherwise the
        result has the holder's id. With `REPLACED` and `DEBOUNCED` the holder has the run's payload, and starts so
        much later, in the same transaction; so no claim sees half of it. A holder that waits though it has expired is
        SKIPPED, with reason `expired`, so that no claim gives it out beside the new one. Of calls at the same time with
        one key, one is decided after the other. A `REJECTED` run does not use up its idempotency key; all other
        results are those of a repeat, too. An idempotency key that is known decides first.

        Args:
            notice: what the other processes are to hear when the runs are committed (see `HintChannel.notice`). It is
                sent if any run is inserted. A store that carries no hints leaves it out.
        """
        ...

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[CancelVerdict]:
        """Cancel runs. Waiting ones end at once, RUNNING ones are marked (`REQUESTED`), ended ones are `FINISHED`."""
        ...

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        """Skip waiting runs whose `expires_at` has passed, with reason `expired`. Return their ids."""
        ...

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        """Return runs, live or finished; None for unknown ones."""
        ...

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        """Return for each job the newest run that is due (`due_at <= now`) or has started; None if there is none."""
        ...

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        """Return a run's attempt rows in order of token."""
        ...
