"""From what Celery and its tasks said to a history that Mainspring's judge can read. Pure.

Where a word has no counterpart, the reading that is kinder to Celery is taken:

- Celery has no fencing tokens. Each execution counts as an attempt of its own, in the order of their starts; none is
  held to be one attempt started twice.
- Of a task that has ended, the record's token is that of the execution whose result the backend holds.
- A task of which the backend knows nothing is on record, and waiting, as long as the broker holds its message.

Not taken for the record of a loss: the mark `redelivered` on a message. It does not say which execution was lost, and
it is gone with the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from mainspring.core.ids import JobId, RunId, make_run_id
from mainspring.core.model import Delivery, JobSpec, LaneKey, Priority, Run, RunKind, Target
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from tools.judge import Change, ChangeKind, Effect, Fault, History, Operation

SLACK = timedelta(milliseconds=100)
"""One machine, one clock; Celery may round an ETA."""
DELIVERIES = {
    "early": Delivery.AT_MOST_ONCE,
    "tracked": Delivery.AT_MOST_ONCE,
    "late": Delivery.AT_LEAST_ONCE,
}
"""What Celery's guide says of early acknowledgement: what has started "is never executed again"; of late: it may be."""
JOBS = {name: JobId(UUID(int=number << 8)) for number, name in enumerate(DELIVERIES, start=1)}
STATES = {
    "PENDING": RunState.PENDING,
    "STARTED": RunState.RUNNING,
    "RETRY": RunState.RETRYING,
    "SUCCESS": RunState.SUCCEEDED,
    "FAILURE": RunState.FAILED,
    "REVOKED": RunState.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submission that Celery acknowledged; instants in seconds since 1970."""

    id: str
    task: str
    asked: float
    answered: float
    due: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the result backend says of a task: for an id that it does not know, `PENDING` too."""

    status: str
    result: str | None
    done: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """All that was seen of one experiment.

    Attributes:
        acts: the lines that the tasks wrote: `start` or `end`, task id, execution, worker, instant.
        held: ids of the tasks whose messages the broker holds at the final read.
        patience: how long Celery was given to notice that a worker is dead.
    """

    submissions: Sequence[Submission]
    acts: Sequence[str]
    records: Mapping[str, Record]
    held: frozenset[str]
    faults: Sequence[Fault]
    read_at: float
    patience: timedelta
    slots: int


def build_history(seen: Observations) -> History:
    """Return the history of an experiment."""
    ids = {item.id: make_run_id(number, 0) for number, item in enumerate(seen.submissions, start=1)}
    jobs = {item.id: JOBS[item.task] for item in seen.submissions}
    effects = read_acts(seen.acts, ids, jobs)
    first = _instant(min(item.asked for item in seen.submissions))
    return History(
        changes=[_create(name, first) for name in JOBS],
        operations=[_operation(item, ids[item.id]) for item in seen.submissions],
        effects=list(effects.values()),
        faults=list(seen.faults),
        runs=[
            _run(item, ids[item.id], seen.records[item.id], effects)
            for item in seen.submissions
            if seen.records[item.id].status != "PENDING" or item.id in seen.held
        ],
        read_at=_instant(seen.read_at),
        healed_at=max((fault.until for fault in seen.faults), default=first),
        slack=SLACK,
        lease=seen.patience,
        slots=seen.slots,
    )


def read_acts(acts: Sequence[str], ids: Mapping[str, RunId], jobs: Mapping[str, JobId]) -> dict[str, Effect]:
    """Return the executions by their names, each task's numbered in the order of their starts."""
    effects: dict[str, Effect] = {}
    counts: dict[str, int] = {}
    words = [line.split() for line in acts]
    whole = [line for line in words if len(line) == 5]  # a kill may have cut the last line short
    for what, task_id, execution, worker, at in sorted(whole, key=lambda line: float(line[4])):
        if what == "start":
            counts[task_id] = counts.get(task_id, 0) + 1
            effects[execution] = Effect(
                run_id=ids[task_id],
                job_id=jobs[task_id],
                token=counts[task_id],
                attempt=1,  # none failed before
                worker=worker,
                started_at=_instant(float(at)),
            )
        else:
            effects[execution].ended_at = _instant(float(at))
            effects[execution].ending = "done"
    return effects


def _create(name: str, at: datetime) -> Change:
    spec = JobSpec(
        name=name,
        target=Target("function", {"function": name}),
        retry=RetryPolicy(max_retries=0),
        delivery=DELIVERIES[name],
    )
    return Change(job_id=JOBS[name], kind=ChangeKind.CREATED, at=at, until=at, version=1, spec=spec)


def _operation(item: Submission, run_id: RunId) -> Operation:
    return Operation(
        kind="submit",
        job_id=JOBS[item.task],
        asked_at=_instant(item.asked),
        answered_at=_instant(item.answered),
        outcome="ok",
        run_id=run_id,
    )


def _run(item: Submission, run_id: RunId, record: Record, effects: Mapping[str, Effect]) -> Run:
    told = effects.get(record.result or "")
    token = told.token if told else 0
    return Run(
        id=run_id,
        job_id=JOBS[item.task],
        version=1,
        tenant="default",
        lane=LaneKey("celery", f"function:{item.task}", "default", Priority.MEDIUM),
        kind=RunKind.MANUAL,
        state=STATES[record.status],
        fire_at=None,
        due_at=_instant(item.due),
        ready_at=_instant(item.due),
        created_at=_instant(item.answered),
        started_at=None,
        finished_at=_instant(record.done) if record.done else None,
        attempt=1,
        token=token,
        crashes=0,
        session_id=None,
        is_cancel_requested=False,
        reason="not_retryable" if record.status == "FAILURE" else None,
        error=None,
        payload=None,
        result=str(token).encode() if told else None,
        output=None,
        idempotency_key=None,
        fire_range_id=None,
        redrive_of=None,
    )


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
