"""Rules about fires: every one recorded once (S1), none that should not be (S2), overlap (S18), misfires (S20)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from mainspring.core.ids import JobId, format_job_id, format_run_id
from mainspring.core.model import Misfire, Run, RunKind, Span, SpanKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Once, Trigger
from mainspring.testing.history.model import Change, ChangeKind, History, Violation
from mainspring.testing.history.oracle import expected_fires

_FAR = datetime(9000, 1, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=3)
"""Fires this close to the final read may still be under way."""


@dataclass(slots=True)
class Stretch:
    """A time during which one trigger held and the job was paused or was not, whatever else of it was edited.

    The first pair of instants says when it surely and when it possibly had begun; the second the same of its end.
    """

    trigger: Trigger | None
    began_by: datetime
    began_after: datetime
    ended_after: datetime
    ended_by: datetime
    is_first: bool
    is_paused: bool
    versions: dict[int, datetime] = field(default_factory=dict)
    """Each version that held within it, and by when it was surely replaced."""

    def expected(self, slack: timedelta) -> tuple[set[datetime], set[datetime]]:
        """Return the fires that are surely owed, and those that may be on record."""
        if isinstance(self.trigger, Once):
            at = self.trigger.at
            possible = {at} if at <= self.ended_by + slack else set()
            # What has just passed when the job is made is owed; after a pause or an edit, it depends.
            is_sure = at <= self.ended_after - slack and (self.is_first or at > self.began_by + slack)
            return ({at} if is_sure else set()), possible
        widest = set(expected_fires(self.trigger, self.began_after - slack, self.ended_by + slack))
        sure = {at for at in widest if self.began_by + slack < at <= self.ended_after - slack}
        return sure, widest


def read_stretches(history: History) -> dict[JobId, list[Stretch]]:
    """Return each job's stretches in order."""
    stretches: dict[JobId, list[Stretch]] = defaultdict(list)
    horizon = history.read_at - SETTLE
    for change in history.changes:
        mine = stretches[change.job_id]
        current = mine[-1] if mine and mine[-1].ended_by == _FAR else None
        is_paused = current is not None and current.is_paused
        if change.kind is ChangeKind.EDITED and current and current.trigger == change.spec.trigger:
            current.versions[change.version - 1] = change.until
            current.versions[change.version] = current.ended_by
            continue
        if current is not None:
            current.ended_after, current.ended_by = change.at, change.until
        if change.kind is not ChangeKind.DELETED:
            is_paused = change.kind is ChangeKind.PAUSED or (change.kind is ChangeKind.EDITED and is_paused)
            mine.append(_begin(change, is_first=not mine, is_paused=is_paused))
    for mine in stretches.values():
        for stretch in mine:
            stretch.ended_after = min(stretch.ended_after, horizon)
            stretch.ended_by = min(stretch.ended_by, history.read_at)
    return stretches


def _begin(change: Change, *, is_first: bool, is_paused: bool) -> Stretch:
    return Stretch(
        trigger=change.spec.trigger,
        began_by=change.until,
        began_after=change.at,
        ended_after=_FAR,
        ended_by=_FAR,
        is_first=is_first,
        is_paused=is_paused,
        versions={change.version: _FAR},
    )


def judge_fires(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S1 and S2: expected and recorded are the same set, each fire once."""
    runs: dict[JobId, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.fire_at is not None and run.kind is not RunKind.BACKFILL:
            runs[run.job_id].append(run)
    spans: dict[JobId, list[Span]] = defaultdict(list)
    for span in history.spans:
        if span.kind is not SpanKind.BACKFILL:
            spans[span.job_id].append(span)
    for job_id, stretches in read_stretches(history).items():
        sure: set[datetime] = set()
        possible: dict[datetime, list[Stretch]] = defaultdict(list)
        for stretch in stretches:
            owed, allowed = stretch.expected(history.slack)
            if stretch.is_paused:
                counts["fires_paused"] += len(owed)
                yield from _judge_pause(history, job_id, owed, spans[job_id])
                continue
            sure |= owed
            for at in allowed:
                possible[at].append(stretch)
        counts["fires_expected"] += len(sure)
        recorded: dict[datetime, list[Run]] = defaultdict(list)
        for run in runs[job_id]:
            assert run.fire_at is not None
            recorded[run.fire_at].append(run)
        yield from _judge_job(history, job_id, sure, possible, recorded, spans[job_id], counts)


def _judge_pause(
    history: History, job_id: JobId, owed: set[datetime], spans: list[Span]
) -> Iterator[Violation]:
    """What would have fired during a pause is on record as a gap (law 4)."""
    gaps = [span for span in spans if span.kind is SpanKind.GAP]
    for at in sorted(owed):
        if not any(span.from_at <= at and (span.to_at is None or at <= span.to_at) for span in gaps):
            yield _violation("S1", job_id, at, [], [], history)


def _judge_job(
    history: History,
    job_id: JobId,
    sure: set[datetime],
    possible: dict[datetime, list[Stretch]],
    recorded: dict[datetime, list[Run]],
    spans: list[Span],
    counts: Counter[str],
) -> Iterator[Violation]:
    for at in sorted(sure | set(recorded)):
        mine = recorded.get(at, [])
        if not _held_then(possible.get(at, []), mine, at, history.slack):
            if mine:
                yield _violation("S2", job_id, at, mine, [], history)
            continue
        covering = [span for span in spans if _stands_for(span, at, possible[at])]
        is_missed = at in sure and not mine and not covering
        if is_missed or len(mine) > 1 or (mine and covering) or (len(covering) > 1 and at in sure):
            yield _violation("S1", job_id, at, mine, covering, history)
        elif covering:
            counts["fires_in_spans"] += 1
        elif mine:
            counts["fires_skipped" if mine[0].state is RunState.SKIPPED else "fires_run"] += 1


def _held_then(stretches: list[Stretch], runs: list[Run], at: datetime, slack: timedelta) -> bool:
    """Say whether the trigger gives this instant, and each run's version had not been replaced by then."""
    return bool(stretches) and all(
        any(at <= stretch.versions.get(run.version, at - 2 * slack) + slack for stretch in stretches)
        for run in runs
    )


def _stands_for(span: Span, at: datetime, stretches: list[Stretch]) -> bool:
    if at < span.from_at or (span.to_at is not None and at > span.to_at):
        return False
    if span.kind is SpanKind.GAP:
        return span.reason == "paused" or any(span.version in stretch.versions for stretch in stretches)
    is_mine = any(span.version in stretch.versions for stretch in stretches)
    return is_mine and (span.cursor_at is None or at > span.cursor_at)


def _violation(
    rule: str, job_id: JobId, at: datetime, runs: list[Run], spans: list[Span], history: History
) -> Violation:
    story = [
        f"{change.at.isoformat()} job {change.kind}, version {change.version}: {change.spec.trigger}"
        for change in history.changes
        if change.job_id == job_id
    ]
    story.append(f"{at.isoformat()} is a fire time with {len(runs)} runs and {len(spans)} spans on record")
    story += [
        f"{run.created_at.isoformat()} {format_run_id(run.id)} version {run.version}: {run.state} {run.reason}"
        for run in runs
    ]
    story += [
        f"{span.created_at.isoformat()} {span.kind} span {span.id} recorded, version {span.version}:"
        f" {span.from_at.isoformat()} to {span.to_at.isoformat() if span.to_at else 'open'}, {span.reason}"
        for span in spans
    ]
    return Violation(rule, f"{format_job_id(job_id)} at {at.isoformat()}", tuple(story))


def _span(run: Run) -> str:
    end = run.finished_at.isoformat() if run.finished_at else "now"
    return f"{format_run_id(run.id)} {run.state} {run.reason or ''}: {run.created_at.isoformat()} to {end}"


def judge_misfires(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S20: what was late by more than its grace was treated as its policy says, and nothing else was."""
    rules = {(change.job_id, change.version): change.spec.misfire for change in history.changes}
    for run in history.runs:
        rule = rules.get((run.job_id, run.version))
        if rule is None or run.fire_at is None or run.kind is RunKind.BACKFILL or run.span_id is not None:
            continue
        late = run.created_at - run.fire_at
        is_misfire = run.state is RunState.SKIPPED and run.reason in {"misfire", "misfire_limit"}
        if is_misfire:
            counts[f"misfires_{rule.policy}"] += 1
        if late > rule.grace + history.slack and rule.policy is not Misfire.FIRE_LATEST and not is_misfire:
            yield Violation("S20", format_run_id(run.id), (_span(run), f"{late} late, policy {rule.policy}"))
        if is_misfire and late <= rule.grace - history.slack and rule.policy is not Misfire.FIRE_LATEST:
            yield Violation("S20", format_run_id(run.id), (_span(run), f"skipped though only {late} late"))
    for span in history.spans:
        rule = rules.get((span.job_id, span.version))
        if rule is None or span.to_at is None or not span.reason.startswith("misfire"):
            continue
        counts[f"misfires_{rule.policy}"] += 1
        late = span.created_at - span.to_at
        is_gap = span.kind is SpanKind.GAP
        is_unlike = is_gap == (rule.policy is Misfire.FIRE_ALL) and span.reason == "misfire"
        if rule.policy is Misfire.FIRE_LATEST:
            is_unlike = False  # an edit keeps the one late fire as a span of its own
        if is_unlike or (late <= rule.grace - history.slack and rule.policy is not Misfire.FIRE_LATEST):
            story = f"{span.kind} {span.from_at.isoformat()} to {span.to_at.isoformat()}, {late} late, {rule.policy}"
            yield Violation("S20", f"span {span.id} of {format_job_id(span.job_id)}", (story,))
