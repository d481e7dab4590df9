"""The maximum of a job's fires: how many it has used up, and after which nothing is owed any more (S2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import FireRange, FireRangeKind, Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Trigger
from tools.judge.model import ChangeKind, History, Violation
from tools.judge.oracle import expected_fires

_TICK = timedelta(microseconds=1)
_PAUSED = frozenset({"paused", "blackout"})
_LEFT_OUT = _PAUSED | {"misfire", "misfire_limit", "calendar"}
"""The reasons of skipped fires that were not to run. All others count."""


@dataclass(slots=True)
class Stretch:
    """What a job counts together: from a change of its trigger or maximum to the next.

    Attributes:
        versions: the versions of the job that are valid within it.
        used: the fires that count, each once for each of its records.
        perhaps: fires that a pause left out of a catch-up. They count if the catch-up was made before the pause.
    """

    max_fires: int
    trigger: Trigger | None
    versions: set[int] = field(default_factory=set)
    used: list[datetime] = field(default_factory=list)
    perhaps: list[datetime] = field(default_factory=list)

    @property
    def last_at(self) -> datetime | None:
        """The last fire, after which nothing is owed; None if some are left."""
        fires = (*self.used, *self.perhaps)
        return max(fires) if len(fires) >= self.max_fires else None


Stretches = dict[tuple[JobId, int], Stretch]


def read_stretches(history: History) -> Stretches:
    """Return the stretches of all jobs that have a maximum, by job and version."""
    found: Stretches = {}
    current: dict[JobId, Stretch | None] = {}
    for change in history.changes:
        if change.kind not in {ChangeKind.CREATED, ChangeKind.EDITED}:
            continue
        spec, before = change.spec, current.get(change.job_id)
        if spec.max_fires is None:
            current[change.job_id] = None
            continue
        if before is None or (before.max_fires, before.trigger) != (spec.max_fires, spec.trigger):
            before = current[change.job_id] = Stretch(spec.max_fires, spec.trigger)
        before.versions.add(change.version)
        found[change.job_id, change.version] = before
    _add_runs(history, found)
    return found


def _add_runs(history: History, stretches: Stretches) -> None:
    of_ranges: dict[int, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.kind is not RunKind.SCHEDULED or run.fire_at is None:
            continue
        stretch = stretches.get((run.job_id, run.version))
        if run.fire_range_id is not None:
            of_ranges[run.fire_range_id].append(run)
        elif stretch is not None and not _is_left_out(run, _LEFT_OUT):
            stretch.used.append(run.fire_at)
    for one in history.fire_ranges:
        stretch = stretches.get((one.job_id, one.version))
        if stretch is not None and one.kind is FireRangeKind.CATCH_UP:
            paused = {run.fire_at for run in of_ranges[one.id] if _is_left_out(run, _PAUSED)}
            for fire_at in _fires_of(one, stretch):
                (stretch.perhaps if fire_at in paused else stretch.used).append(fire_at)


def _is_left_out(run: Run, reasons: frozenset[str]) -> bool:
    return run.state is RunState.SKIPPED and run.reason in reasons


def _fires_of(fire_range: FireRange, stretch: Stretch) -> list[datetime]:
    """Return the fires of a catch-up: all count, though some may still be to come."""
    assert fire_range.to_at is not None
    return expected_fires(stretch.trigger, fire_range.from_at - _TICK, fire_range.to_at)


def judge_fire_counts(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S2: no job has more fires that count than its maximum."""
    stretches = read_stretches(history)
    catch_ups = {
        (one.job_id, one.version, one.to_at)
        for one in history.fire_ranges
        if one.kind is FireRangeKind.CATCH_UP
    }
    judged: set[int] = set()
    for (job_id, version), stretch in stretches.items():
        if id(stretch) in judged:
            continue
        judged.add(id(stretch))
        counts["fires_counted"] += len(stretch.used)
        last_at = stretch.last_at
        counts["jobs_finished"] += last_at is not None
        counts["jobs_finished_by_a_catch_up"] += any(
            (job_id, one, last_at) in catch_ups for one in stretch.versions
        )
        counts["counts_kept_by_an_edit"] += len(stretch.versions) > 1
        if len(stretch.used) > stretch.max_fires:
            story = [f"{len(stretch.used)} fires, of at most {stretch.max_fires}:"]
            story += [at.isoformat() for at in sorted(stretch.used)]
            yield Violation("S2", f"{format_job_id(job_id)} from version {version} on", tuple(story))
