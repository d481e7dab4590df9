"""S18 of jobs whose runs follow one another or cancel each other. It needs the events of a history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import JobSpec, Overlap, Run
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.model import Change, ChangeKind, Event, History, Violation
from tools.judge.runs import Runs

_IN_LINE = frozenset({"queue_one", "queue_all", "cancel_running"})
"""Policies whose runs stand in one line."""


def stands_in_line(spec: JobSpec | None) -> bool:
    """Say whether runs of this definition follow one another."""
    return spec is not None and spec.overlap.value in _IN_LINE


def edited_lines(history: History) -> set[JobId]:
    """Return the jobs whose lines began or ended by an edit."""
    policies: dict[JobId, set[bool]] = defaultdict(set)
    for change in history.changes:
        policies[change.job_id].add(stands_in_line(change.spec))
    return {job_id for job_id, found in policies.items() if len(found) > 1}


@dataclass(slots=True)
class _JobNow:
    """A job as far as the events have come.

    Attributes:
        is_open: its newest definition with a say in that lets runs of a line start beside each other. Only `allow`
            opens a line: with `skip`, what stands in one goes on so.
        live: its live runs; True for those that have started.
        before: runs that were live outside of the line as it began.
        doomed: runs that a fire asked to stop, and that fire.
    """

    is_open: bool = True
    live: dict[RunId, bool] = field(default_factory=dict)
    before: set[RunId] = field(default_factory=set)
    doomed: dict[RunId, RunId] = field(default_factory=dict)


def judge_overlaps(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S18: one run of a line at a time; one fire waits, and others are skipped only then; a fire cancels what lives."""
    jobs: dict[JobId, _JobNow] = defaultdict(_JobNow)
    changes = sorted(
        (one for one in history.changes if one.place is not None), key=lambda one: one.place or 0
    )
    following = 0
    for index, event in enumerate(history.events):
        while following < len(changes) and (changes[following].place or 0) <= index:
            _apply(changes[following], jobs, runs)
            following += 1
        if event.is_stale:
            continue
        job = jobs[event.job_id]
        if event.run_id is None:
            why = _judge_skipped(event, job, runs, counts)
            if why is not None:
                yield Violation("S18", format_job_id(event.job_id), (f"{event.at.isoformat()}: {why}",))
                return
            continue
        run = runs.by_id.get(event.run_id)
        spec = None if run is None else runs.spec_of(run)
        if run is None or spec is None:
            continue
        why = _judge_event(event, run, spec, job, runs, counts)
        if why is not None:
            yield runs.accuse("S18", run.id, f"{event.at.isoformat()}: {why}")
            return
        if event.target in FINAL_STATES:
            job.live.pop(run.id, None)
            job.before.discard(run.id)
        else:
            job.live[run.id] = job.live.get(run.id, False) or event.what == "claimed"


def _apply(change: Change, jobs: dict[JobId, _JobNow], runs: Runs) -> None:
    """Take over an edit. A line waits for the end of what is live outside of it as it begins."""
    job = jobs[change.job_id]
    if change.spec.overlap is not Overlap.SKIP:
        job.is_open = change.spec.overlap is Overlap.ALLOW
    if change.kind is ChangeKind.EDITED and stands_in_line(change.spec):
        job.before |= {run_id for run_id in job.live if not stands_in_line(runs.spec_of(runs.by_id[run_id]))}


def _judge_event(
    event: Event, run: Run, spec: JobSpec, job: _JobNow, runs: Runs, counts: Counter[str]
) -> str | None:
    overlap = spec.overlap.value
    if event.what == "claimed":
        if run.id in job.doomed:
            return f"started, though {format_run_id(job.doomed[run.id])} had cancelled it"
        if stands_in_line(spec) and not job.is_open and not job.live.get(run.id):
            in_way = [
                other
                for other, has_started in job.live.items()
                if other != run.id
                and (other in job.before or (has_started and stands_in_line(runs.spec_of(runs.by_id[other]))))
            ]
            counts["runs_started_in_line"] += 1
            if in_way:
                return f"started beside {', '.join(map(format_run_id, sorted(in_way)))}"
    elif event.what == "fired":
        others = {run_id: has_started for run_id, has_started in job.live.items() if run_id != run.id}
        counts["fires_waited_in_line"] += stands_in_line(spec) and any(others.values())
        if overlap == "queue_one":
            waiting = [other for other in others if _waits(runs.by_id[other], event, job)]
            if waiting:
                return f"made, though {format_run_id(waiting[0])} waited"
        if overlap == "cancel_running" and others:
            counts["fires_cancelled_others"] += 1
            left = [other for other, has_started in others.items() if not has_started]
            if left:
                return f"did not cancel {format_run_id(left[0])}, which waited"
            job.doomed |= dict.fromkeys(others, run.id)
    elif run.id in job.doomed and event.target not in {RunState.CANCELLED, RunState.SUCCEEDED}:
        return f"became {event.target}, though {format_run_id(job.doomed[run.id])} had cancelled it"
    return None


def _waits(run: Run, event: Event, job: _JobNow) -> bool:
    """Say whether a run that has never started is due, or was made by a fire."""
    return not job.live[run.id] and (run.fire_at is not None or max(run.due_at, run.created_at) <= event.at)


def _judge_skipped(event: Event, job: _JobNow, runs: Runs, counts: Counter[str]) -> str | None:
    """Return what is wrong with a skip: nothing was in the way of the fire."""
    if event.policy == "queue_one":
        counts["fires_skipped_as_one_waited"] += 1
        if not any(_waits(runs.by_id[run_id], event, job) for run_id in job.live):
            return "a fire was skipped, though no run of the job waited"
    elif event.policy == "cancel_running":
        counts["fires_skipped_for_a_newer_one"] += 1
        if not any(runs.by_id[run_id].fire_at is not None for run_id in job.live):
            return "a fire was skipped, though there was no run of a newer one"
    return None
