"""Rules of steps that wait: none ends early, and no answer is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.judge.model import FlowStory, History


def judge_waits(story: FlowStory, history: History, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """W5: a signal or event in time ends the wait, before or in it. W7: nothing ends before its time."""
    if story.steps is None:
        return
    for step, wait in story.waits.items():
        if step in story.taken:  # it was judged where it succeeded
            continue
        status = story.steps[step]
        counts["flow_waits_judged"] += wait.since is not None
        if wait.sleep is None and status == "SUCCEEDED":
            counts["flow_signals_judged"] += 1
            if wait.told_at is None:
                yield "W5", f"step {step} has succeeded, and what it waits for never came"
        if wait.since is None:
            continue
        is_own_end = status == ("SUCCEEDED" if wait.sleep is not None else "FAILED")
        lasts = wait.timeout if wait.sleep is None else wait.sleep
        if not is_own_end or lasts is None:
            continue
        over_at = wait.since + lasts
        if wait.ended_at is not None and wait.ended_at < over_at - history.slack:
            yield "W7", f"step {step} ended at {wait.ended_at.isoformat()}, before {over_at.isoformat()}"
        if wait.sleep is None and wait.told_at is not None and wait.told_at < over_at - history.slack:
            yield (
                "W5",
                f"step {step} took too long, though what it waits for was there at {wait.told_at.isoformat()}",
            )
