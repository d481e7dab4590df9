"""W10: a run that repeats a workflow repeats no success, and takes over nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mainspring.core.states import RunState
from tools.judge.model import FlowStory


def judge_redrives(flows: Sequence[FlowStory], counts: Counter[str]) -> Iterator[tuple[FlowStory, str]]:
    """Judge the runs that repeat others. Yield the story, and what is wrong."""
    stories = {story.run.id: story for story in flows}
    for story in flows:
        former = None if story.run.redrive_of is None else stories.get(story.run.redrive_of)
        if former is None:
            continue
        counts["flows_redriven"] += 1
        counts["flow_steps_taken_over"] += len(story.taken) + len(story.taken_items)
        for why in (*_judge_taken(story, former), *_judge_repeated(story, former)):
            yield story, why


def _judge_taken(story: FlowStory, former: FlowStory) -> Iterator[str]:
    """What is taken over had succeeded."""
    for step in story.taken:
        if former.steps is None or former.steps[step] != "SUCCEEDED":
            yield f"it has taken step {step} over, which had not succeeded"
    for step, items in story.taken_items.items():
        if items - _succeeded_items(former, step):
            yield f"it has taken items of step {step} over that had not succeeded"


def _judge_repeated(story: FlowStory, former: FlowStory) -> Iterator[str]:
    """What had succeeded, and follows only such, does not run again unless someone asked for it."""
    if story.again is None or former.steps is None:
        return
    settled = _find_settled(former, former.steps, story.again)
    for run in story.runs:
        if run.place is None:
            continue
        step, item = run.place.step, run.place.item
        if step in settled and former.steps[step] == "SUCCEEDED":
            yield f"step {step} has a run, and had succeeded"
        elif (
            step in former.maps
            and step not in story.again
            and set(former.links[step]) <= settled
            and item in _succeeded_items(former, step)
        ):
            yield f"item {item} of step {step} has a run, and had succeeded"


def _find_settled(former: FlowStory, steps: Sequence[str], again: frozenset[int]) -> set[int]:
    """Return the steps that had ended well, as had all that they follow, and were not undone."""
    undone = {step for undo, step in former.undoes.items() if steps[undo] != "SKIPPED"}
    settled: set[int] = set()
    is_more = True
    while is_more:
        more = {
            step
            for step, status in enumerate(steps)
            if status in {"SUCCEEDED", "SKIPPED"}
            and step not in again
            and step not in undone
            and step not in former.at_end
            and set(former.links[step]) <= settled
        }
        is_more, settled = more != settled, more
    return settled


def _succeeded_items(former: FlowStory, step: int) -> frozenset[int]:
    """Return the items of a step that had succeeded, there or before."""
    own = {
        run.place.item
        for run in former.runs
        if run.place is not None and run.place.step == step and run.state is RunState.SUCCEEDED
    }
    return frozenset(own) | former.taken_items.get(step, frozenset())
