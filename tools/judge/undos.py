"""W11: a workflow that does not succeed undoes what had succeeded, one by one, the newest first; no other does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mainspring.core.ids import RunId
from mainspring.core.states import FINAL_STATES
from tools.judge.model import Event, FlowStory


def judge_undos(
    story: FlowStory,
    steps: Sequence[str],
    events: Mapping[RunId, list[Event]],
    order: Mapping[int, int],
    counts: Counter[str],
) -> Iterator[tuple[str, str]]:
    """Judge the undos of one workflow.

    Args:
        steps: how each step has ended.
        events: of each run.
        order: of the events, by their ids.
    """
    if not story.undoes or story.ends is None:
        return
    runs = {run.place.step: run for run in story.runs if run.place is not None}
    undone = sorted(runs.keys() & story.undoes.keys(), key=lambda step: runs[step].id)
    counts["flow_undos_judged"] += len(undone)
    if not is_unwell(story, steps):
        if undone:
            yield "W11", f"steps {undone} undid others, and the workflow had done its work"
        return
    by_step = {step: undo for undo, step in story.undoes.items()}
    expected = [
        by_step[step] for step in reversed(story.ends) if steps[step] == "SUCCEEDED" and step in by_step
    ]
    if story.has_skips:
        expected = [undo for undo in expected if undo in runs]
    if undone != expected:
        yield "W11", f"steps {undone} undid others; what had succeeded asks for {expected}"
    last = -1
    for undo in undone:
        own = events.get(runs[undo].id, ())
        begun = [order[id(event)] for event in own if event.what == "claimed"]
        if begun and min(begun) < last:
            yield "W11", f"step {undo} began before the undo ahead of it had ended"
        ended = [order[id(event)] for event in own if event.target in FINAL_STATES]
        last = max([last, *ended])


def is_unwell(story: FlowStory, steps: Sequence[str]) -> bool:
    """Say whether a workflow has not done its work, apart from undos and steps at the end."""
    error = story.run.error or ""
    if story.run.reason == "deadline" or error.startswith("the deadline of the workflow passed"):
        return True
    work = [step for step in range(len(steps)) if step not in story.at_end]
    ended = set(story.ends or ())
    if any(
        steps[step] in {"FAILED", "CANCELLED"} and step in ended and step not in story.may_fail
        for step in work
    ):
        return True
    return story.cancelled_at is not None and any(steps[step] == "CANCELLED" for step in work)
