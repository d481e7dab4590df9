"""S14, S18 and S20 from outside: how many were under way at a time, and how often they started."""

from __future__ import annotations

import json
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.ids import RunId, format_job_id, format_run_id
from mainspring.core.model import JobSpec, Run
from mainspring.core.states import RunState
from tools.judge.leases import Lease
from tools.judge.limits import value_of
from tools.judge.model import Bound, History, Violation
from tools.judge.overlaps import stands_in_line
from tools.judge.runs import Runs

Leases = dict[RunId, list[Lease]]


@dataclass(slots=True, kw_only=True)
class _Place:
    """What has a place under a key, from when until when at least."""

    run_id: RunId
    claimed_at: datetime
    begin: datetime
    end: datetime


@dataclass(slots=True)
class _Line:
    """What is known of one key of one limit.

    Attributes:
        bounds: in order; one if they never change.
        starts: for each start, between which instants its permit was taken.
    """

    bounds: Sequence[Bound]
    places: list[_Place] = field(default_factory=list)
    starts: list[tuple[datetime, datetime]] = field(default_factory=list)

    def most(self, begin: datetime, end: datetime) -> int | None:
        """Return the largest cap that may have been valid at any instant of a period; None if there may be none."""
        caps = []
        for bound, following in zip(self.bounds, [*self.bounds[1:], None], strict=True):
            if bound.at <= end and (following is None or following.until >= begin):
                caps.append(bound.cap)
        return None if not caps or None in caps else max(cap for cap in caps if cap is not None)


def queue_bound(queue: str) -> str:
    """Return the name of the bounds that are the cap of a queue."""
    return f"queue:{queue}"


def judge_limits_outside(
    history: History, runs: Runs, leases: Leases, counts: Counter[str]
) -> Iterator[Violation]:
    """S14 and S18: no more at a time than a cap allows, and no more starts than there were permits."""
    lines: dict[Hashable, _Line] = {}
    bounds: dict[str, list[Bound]] = defaultdict(list)
    for bound in history.bounds:
        bounds[bound.name].append(bound)
    for run in history.runs:
        spec = runs.spec_of(run)
        if spec is None or not leases.get(run.id):
            continue
        if spec.concurrency or stands_in_line(spec):
            _enter(run, spec, leases[run.id], bounds, lines, history)
        if cap := bounds.get(queue_bound(spec.queue)):
            line = lines.setdefault(queue_bound(spec.queue), _Line(cap))
            line.places += _places(run, leases[run.id])
    for name, line in lines.items():
        counts["outside_keys"] += 1
        reached = counts["outside_caps_reached"]
        yield from _judge_cap(name, line, counts)
        if isinstance(name, str):
            counts["outside_queue_caps_reached"] += counts["outside_caps_reached"] - reached
        yield from _judge_rate(name, line, history.slack, counts)


def _enter(
    run: Run,
    spec: JobSpec,
    mine: list[Lease],
    bounds: dict[str, list[Bound]],
    lines: dict[Hashable, _Line],
    history: History,
) -> None:
    """Enter the places of a run under all its keys."""
    payload = json.loads(run.payload or spec.payload or b"null")
    whole_end = (run.finished_at or history.read_at) - history.slack
    whole = _Place(run_id=run.id, claimed_at=mine[0].claimed_at, begin=mine[0].begun_at, end=whole_end)
    each = _places(run, mine)
    for place, limit in enumerate(spec.concurrency):
        value = value_of(limit.key or "", payload)
        if limit.use is not None:
            name: Hashable = (run.tenant, limit.use, value)
            line = lines.setdefault(name, _Line(bounds[limit.use]))
            is_for_run = False
        else:
            name = (format_job_id(run.job_id), place, value)
            rate = limit.rate
            bound = Bound(
                name=str(place),
                at=datetime.min.replace(tzinfo=run.created_at.tzinfo),
                until=datetime.min.replace(tzinfo=run.created_at.tzinfo),
                cap=limit.limit,
                per_second=None if rate is None else rate.count * (timedelta(seconds=1) / rate.per),
                burst=limit.burst or (0 if rate is None else rate.usual_burst),
            )
            line = lines.setdefault(name, _Line([bound]))
            is_for_run = limit.hold == "run"
        line.places += [whole] if is_for_run else each
        line.starts += [(one.claimed_at, one.begun_at) for one in mine]
    if stands_in_line(spec):
        least = datetime.min.replace(tzinfo=run.created_at.tzinfo)
        bound = Bound(name="overlap", at=least, until=least, cap=1)
        lines.setdefault((format_job_id(run.job_id), "overlap"), _Line([bound])).places.append(whole)


def _places(run: Run, mine: Sequence[Lease]) -> list[_Place]:
    return [
        _Place(run_id=run.id, claimed_at=one.claimed_at, begin=one.begun_at, end=one.held_until)
        for one in mine
    ]


def _judge_cap(name: Hashable, line: _Line, counts: Counter[str]) -> Iterator[Violation]:
    under_way: list[_Place] = []
    for place in sorted(line.places, key=lambda one: one.begin):
        under_way = [one for one in under_way if one.end > place.begin]
        if place.end > place.begin:
            under_way.append(place)
        if not under_way:
            continue
        cap = line.most(min(one.claimed_at for one in under_way), place.begin)
        if cap is None:
            continue
        counts["outside_starts_under_caps"] += 1
        counts["outside_caps_reached"] += len(under_way) == cap
        if len(under_way) > cap:
            others = ", ".join(format_run_id(one.run_id) for one in under_way)
            why = f"{place.begin.isoformat()}: {len(under_way)} under way, where {cap} may be: {others}"
            yield Violation("S14", str(name), (why,))
            return


def _judge_rate(name: Hashable, line: _Line, slack: timedelta, counts: Counter[str]) -> Iterator[Violation]:
    """Find a period in which more permits were surely taken than had come in."""
    bound = line.bounds[-1]
    if bound.per_second is None:
        return
    starts = sorted(line.starts)
    counts["outside_starts_under_rates"] += len(starts)
    by_end = sorted(range(len(starts)), key=lambda index: starts[index][1])
    for first, (begin, _) in enumerate(starts):
        within = 0
        for index in by_end:
            if index < first:
                continue
            within += 1
            end = starts[index][1]
            allowed = bound.burst + bound.per_second * ((end - begin + 2 * slack).total_seconds())
            counts["outside_permits_used_up"] += within > allowed - 1
            if within > allowed + 1e-6:
                why = f"{within} starts from {begin.isoformat()} to {end.isoformat()}, {allowed:.2f} may be"
                yield Violation("S14", str(name), (why,))
                return


def judge_lines_outside(
    history: History, runs: Runs, leases: Leases, counts: Counter[str]
) -> Iterator[Violation]:
    """S18: a fire of `queue_one` is skipped only while a run of its job waits that has never started."""
    mine: dict[object, list[Run]] = defaultdict(list)
    for run in history.runs:
        mine[run.job_id].append(run)
    for run in history.runs:
        spec = runs.spec_of(run)
        if run.reason != "overlap" or spec is None or spec.overlap.value != "queue_one":
            continue
        counts["outside_fires_skipped_in_line"] += 1
        if not any(_may_wait(other, run, leases, history) for other in mine[run.job_id]):
            yield runs.accuse("S18", run.id, "skipped, though no run of the job waited")


def _may_wait(other: Run, skipped: Run, leases: Leases, history: History) -> bool:
    if other.id == skipped.id or other.state is RunState.SKIPPED:
        return False
    begun = leases.get(other.id)
    left_at = begun[0].begun_at if begun else other.finished_at or history.read_at
    return (
        other.created_at <= skipped.created_at + history.lease
        and left_at >= skipped.created_at - history.slack
    )


def judge_live_outside(history: History, leases: Leases, counts: Counter[str]) -> Iterator[Violation]:
    """S20: no backfill has more live runs than it may."""
    by_id = {run.id: run for run in history.runs}
    for story in history.backfills:
        spans = []
        for step in story.steps:
            for run_id, _ in step.runs:
                if leases.get(run_id):
                    ended_at = by_id[run_id].finished_at or history.read_at
                    spans.append((leases[run_id][0].begun_at, ended_at - history.slack))
        most = _most_at_once(spans)
        counts["outside_backfills_full"] += most == story.max_live
        if most > story.max_live:
            yield Violation("S20", story.name, (f"{most} of its runs were live, {story.max_live} may be",))


def _most_at_once(spans: Iterable[tuple[datetime, datetime]]) -> int:
    ends: list[datetime] = []
    most = 0
    for begin, end in sorted(spans):
        ends = [one for one in ends if one > begin]
        if end > begin:
            insort(ends, end)
        most = max(most, len(ends))
    return most
