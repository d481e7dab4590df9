"""What was surely so where no transitions were recorded: by the jobs' own lines, and by what is on record at the end.

An instant on record is the time that a request brought with it, so its commit came no sooner. What a job wrote itself
came after the commit of its claim, and before that of its report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from mainspring.core.ids import RunId
from mainspring.core.model import Run
from tools.judge.model import History, Operation
from tools.judge.runs import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One attempt, of which the job itself wrote that it began.

    Attributes:
        claimed_at: the time that its claim brought with it; the commit came between that and `begun_at`.
        begun_at: when the job began.
        held_until: until then at least the store held the run as under way by this lease.
    """

    run: Run
    token: int
    claimed_at: datetime
    begun_at: datetime
    held_until: datetime


def read_leases(history: History, runs: Runs) -> dict[RunId, list[Lease]]:
    """Return the leases of each run, of those that began, in order."""
    found: dict[RunId, list[Lease]] = defaultdict(list)
    for run in history.runs:
        begun = {effect.token: effect.started_at for effect in reversed(runs.effects.get(run.id, []))}
        times = {item.token: (item.started_at, item.finished_at) for item in runs.attempts.get(run.id, [])}
        if run.started_at is not None:
            times.setdefault(run.token, (run.started_at, run.finished_at or history.read_at))
        for token, begun_at in sorted(begun.items()):
            if token in times:
                claimed_at, ended_at = times[token]
                lease = Lease(
                    run=run,
                    token=token,
                    claimed_at=claimed_at,
                    begun_at=begun_at,
                    held_until=ended_at - history.slack,
                )
                found[run.id].append(lease)
    return found


@dataclass(slots=True, kw_only=True)
class Request:
    """A submission with all its tries, by its key: carried out once, between the first try and the answer.

    Attributes:
        last_asked_at: when the try that was answered went out.
    """

    first: Operation
    asked_at: datetime
    last_asked_at: datetime
    answered_at: datetime
    status: str
    run_id: RunId | None


def read_requests(history: History) -> Iterator[Request]:
    """Yield the submissions that were answered."""
    first: dict[str, Operation] = {}
    for operation in history.operations:
        if operation.kind != "submit" or operation.key is None:
            continue
        opening = first.setdefault(operation.key, operation)
        if operation.outcome in {"ok", "refused"}:
            yield Request(
                first=opening,
                asked_at=opening.asked_at,
                last_asked_at=operation.asked_at,
                answered_at=operation.answered_at,
                status=operation.status,
                run_id=operation.run_id,
            )
