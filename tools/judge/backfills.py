"""S20 for backfills: each makes the fires of its range, once, those that are not done, as fast as it may."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run, RunKind
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.triggers import Interval, Trigger
from tools.judge.model import BackfillStory, Change, ChangeKind, History, Violation
from tools.judge.oracle import expected_fires
from tools.judge.paces import too_fast
from tools.judge.runs import Runs

PATIENCE = timedelta(seconds=12)
"""A run that ended so long before is known to a backfill."""
_TICK = timedelta(microseconds=1)
_LATE_EDITS = 3
"""Edits that may have been committed while a backfill was planned."""


def judge_backfills(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S20: the fires of a backfill are those of its range, by the definitions of their times, each once."""
    made = {run_id for story in history.backfills for step in story.steps for run_id, _ in step.runs}
    for run in history.runs:
        if run.kind is RunKind.BACKFILL and run.id not in made:
            yield runs.accuse("S20", run.id, "made by no step of a backfill")
    for story in history.backfills:
        counts["backfills"] += 1
        counts[f"backfills_{story.state}"] += 1
        steps = ((step.at, len(step.runs)) for step in story.steps)
        why = _what_is_wrong(story, history, counts) or too_fast(steps, story.count, story.per)
        if why is not None:
            yield Violation("S20", story.name, (why,))
    yield from _judge_live(history, counts)


def _what_is_wrong(story: BackfillStory, history: History, counts: Counter[str]) -> str | None:
    made = [fire for step in story.steps for _, fire in step.runs]
    skipped = sum(step.skipped for step in story.steps)
    counts["backfill_fires_made"] += len(made)
    counts["backfill_fires_skipped"] += skipped
    twice = [fire for fire, count in Counter(made).items() if count > 1]
    if twice:
        return f"made {twice[0].isoformat()} twice"
    owed = _owed(story, history.changes)
    if owed is None:
        return f"says that it has {story.fires} fires, which no definition gives"
    strangers = sorted(set(made) - set(owed))
    if strangers:
        return f"made {strangers[0].isoformat()}, which is no fire of its range"
    if len(made) + skipped > len(owed):
        return f"made {len(made)} and skipped {skipped} of {len(owed)}"
    if story.state == "done" and len(made) + skipped < len(owed):
        return f"ended with {len(made)} made and {skipped} skipped of {len(owed)}"
    return _judge_done(story, owed, history)


def _owed(story: BackfillStory, changes: Sequence[Change]) -> list[datetime] | None:
    """Return the fires of the range; None if the story tells another number than any definitions of that time."""
    known = [change for change in changes[: story.place] if change.job_id == story.job_id]
    versions = [change for change in known if change.kind in {ChangeKind.CREATED, ChangeKind.EDITED}]
    for late in range(min(_LATE_EDITS, len(versions))):
        owed = _fires_of(story, versions[: len(versions) - late])
        if len(owed) == story.fires:
            return owed
    return None


def _fires_of(story: BackfillStory, versions: Sequence[Change]) -> list[datetime]:
    fires: list[datetime] = []
    after = story.from_at - _TICK
    for change, following in zip(versions, [*versions[1:], None], strict=True):
        through = story.to_at - _TICK if following is None else min(following.at, story.to_at - _TICK)
        fires += expected_fires(_back(change.spec.trigger, story.from_at), after, through)
        after = max(after, through)
    return fires


def _back(trigger: Trigger | None, from_at: datetime) -> Trigger | None:
    """Count the intervals back, to before an instant; those within others, too."""
    kind: Any = trigger
    if type(trigger).__name__ == "AnyOf":
        return cast("Trigger", replace(kind, triggers=tuple(_back(part, from_at) for part in kind.triggers)))
    if type(trigger).__name__ == "Windowed":
        return cast("Trigger", replace(kind, raw=_back(kind.raw, from_at)))
    while isinstance(trigger, Interval) and trigger.anchor >= from_at - trigger.every:
        trigger = replace(trigger, anchor=trigger.anchor - trigger.every)
    return trigger


def _judge_done(story: BackfillStory, owed: Sequence[datetime], history: History) -> str | None:
    own = {run_id for step in story.steps for run_id, _ in step.runs}
    others: dict[datetime, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.job_id == story.job_id and run.id not in own and run.fire_at is not None:
            others[run.fire_at].append(run)
    if story.skip_done != "none":
        for step in story.steps:
            for run_id, fire in step.runs:
                done = [run for run in others[fire] if _was_done(run, step.at)]
                if done:
                    return f"made {fire.isoformat()} as {format_run_id(run_id)}, which {format_run_id(done[0].id)} did"
    if story.state != "done":
        return None
    left = set(owed) - {fire for step in story.steps for _, fire in step.runs}
    if left and story.skip_done == "none":
        return f"left out {min(left).isoformat()}, though it is to make all"
    for fire in sorted(left):
        if not any(run.state is not RunState.SKIPPED or run.reason == "expired" for run in others[fire]):
            return f"left out {fire.isoformat()}, which has no other run"
    return None


def _was_done(run: Run, at: datetime) -> bool:
    is_over = run.finished_at is not None and run.finished_at < at - PATIENCE
    return run.state is RunState.SUCCEEDED and is_over


def _judge_live(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S20: no backfill has more live runs than it may."""
    stories: dict[RunId, BackfillStory] = {
        run_id: story for story in history.backfills for step in story.steps for run_id, _ in step.runs
    }
    live: dict[str, set[RunId]] = defaultdict(set)
    for event in history.events:
        story = stories.get(event.run_id) if event.run_id is not None else None
        if story is None or event.run_id is None or event.is_stale:
            continue
        mine = live[story.name]
        (mine.discard if event.target in FINAL_STATES else mine.add)(event.run_id)
        counts["backfills_full"] += len(mine) == story.max_live
        if len(mine) > story.max_live:
            yield Violation("S20", story.name, (f"{event.at.isoformat()}: {len(mine)} of its runs are live",))
            return
