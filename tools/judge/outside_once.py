"""S15 from outside: one holder per key and scope, and the newest payload in the one that waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec, Run, RunKind
from tools.judge.leases import Lease, Request, read_requests
from tools.judge.model import History, Violation
from tools.judge.runs import Runs

_JOINED = frozenset({"replaced", "debounced"})
_FREE = frozenset({"submitted"})


@dataclass(slots=True, kw_only=True)
class _Holder:
    """A run that was submitted under a key.

    Attributes:
        known_at: by then it had surely been made.
    """

    run: Run
    known_at: datetime
    first: Lease | None
    requests: list[Request]


def judge_once_outside(
    history: History, runs: Runs, leases: dict[RunId, list[Lease]], counts: Counter[str]
) -> Iterator[Violation]:
    """S15: what surely held a key at the same time, or came too soon after another one; and what they were given."""
    holders: dict[tuple[Any, Any], dict[RunId, _Holder]] = defaultdict(dict)
    specs: dict[Any, JobSpec] = {}
    for request in read_requests(history):
        operation = request.first
        counts[f"outside_{request.status}"] += 1
        if operation.is_probe and request.status not in _FREE:
            told = f"answered {request.status} when all was over: its key was not free"
            yield Violation("S15", f"{operation.key}", (told,))
        run = runs.by_id.get(request.run_id) if request.run_id is not None else None
        spec = runs.spec_of(run) if run is not None else None
        if run is None or spec is None or not (spec.unique or spec.debounce or spec.throttle):
            continue
        specs[run.job_id] = spec
        key = (run.job_id, (operation.payload or {}).get("key"))
        first = leases[run.id][0] if leases.get(run.id) else None
        known_at = request.answered_at if first is None else min(request.answered_at, first.begun_at)
        holder = holders[key].setdefault(
            run.id, _Holder(run=run, known_at=known_at, first=first, requests=[])
        )
        holder.known_at = min(holder.known_at, known_at)
        holder.requests.append(request)
    for (job_id, _), mine in holders.items():
        yield from _judge_key(specs[job_id], list(mine.values()), history, runs)
        for holder in mine.values():
            yield from _judge_payload(specs[job_id], holder, history, runs, counts)


def _judge_key(spec: JobSpec, mine: list[_Holder], history: History, runs: Runs) -> Iterator[Violation]:
    if spec.throttle is not None:
        step = spec.throttle.per / spec.throttle.limit
        yield from _judge_pace(mine, spec.throttle.limit, step, history.slack, runs)
        return
    if spec.unique is not None and spec.unique.period is not None:
        made = sorted(mine, key=lambda one: one.run.created_at)
        for earlier, later in pairwise(made):
            between = later.run.created_at - earlier.run.created_at
            if between < spec.unique.period - history.slack:
                why = f"was made {between} after {format_run_id(earlier.run.id)} of its key"
                yield runs.accuse("S15", later.run.id, why)
        return
    is_live = spec.unique is not None and spec.unique.scope.value == "live"
    spans = sorted(
        (one.known_at, _held_until(one, history, runs, is_live=is_live), one.run.id) for one in mine
    )
    latest: tuple[datetime, RunId] | None = None
    for begin, end, run_id in spans:
        if latest is not None and begin < latest[0]:
            why = f"held its key at {begin.isoformat()} beside {format_run_id(latest[1])}"
            yield runs.accuse("S15", run_id, why)
        if end > begin and (latest is None or end > latest[0]):
            latest = (end, run_id)


def _held_until(holder: _Holder, history: History, runs: Runs, *, is_live: bool) -> datetime:
    """Return until when a run surely held its key: to its end, or until it was taken first.

    A worker that was killed at once may have taken it, too, and only its attempt tells of that.
    """
    run = holder.run
    ends = [run.finished_at or history.read_at]
    if not is_live:
        ends += [attempt.started_at for attempt in runs.attempts.get(run.id, [])]
        ends += [run.started_at] if run.started_at is not None else []
    return min(ends) - history.slack


def _judge_pace(
    mine: list[_Holder], limit: int, step: timedelta, slack: timedelta, runs: Runs
) -> Iterator[Violation]:
    made = sorted((one.run.created_at, one.known_at, one.run.id) for one in mine)
    for first, (begin, _, _) in enumerate(made):
        for number, (_, end, run_id) in enumerate(sorted(made[first:], key=lambda one: one[1]), start=1):
            if number > limit + (end - begin + 2 * slack) / step + 1e-6:
                why = f"{number} runs of its key from {begin.isoformat()} to {end.isoformat()}"
                yield runs.accuse("S15", run_id, why)
                return


def _judge_payload(
    spec: JobSpec, holder: _Holder, history: History, runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    """The run was given what was submitted last, and a debounced one did not start before its time."""
    if holder.first is None:
        return
    # Those that were surely carried out before the run was taken; the one that it was given may be a later one.
    numbers = {(request.first.payload or {}).get("number"): request for request in holder.requests}
    given = [
        request
        for request in holder.requests
        if request.status in {"submitted", *_JOINED} and request.answered_at < holder.first.claimed_at
    ]
    if holder.run.kind is RunKind.MANUAL:
        seen = history.seen.get((holder.run.id, holder.first.token))
        own = numbers.get(seen)
        if seen is not None and own is not None:
            counts["outside_payloads_seen"] += 1
            newer = [one for one in given if one.asked_at > own.answered_at]
            if newer:
                last = (newer[0].first.payload or {}).get("number")
                yield runs.accuse("S15", holder.run.id, f"was given {seen}, though {last} had come after it")
    if spec.debounce is not None:
        counts["outside_debounced"] += len(given) > 1
        for request in given:
            waited = request.asked_at + spec.debounce.wait
            latest = holder.run.created_at + spec.debounce.longest
            if holder.first.claimed_at < min(waited, latest) - history.slack:
                why = f"started before {min(waited, latest).isoformat()}, to which a submission put it off"
                yield runs.accuse("S15", holder.run.id, why)
                return
