"""Rules of workflows: what starts when, once, and how it ends. They need the events of a history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import Run
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.flow_redrives import judge_redrives
from tools.judge.flow_waits import judge_waits
from tools.judge.model import Event, FlowStory, History, Violation
from tools.judge.undos import judge_undos

_LETTERS = {RunState.SUCCEEDED: "s", RunState.FAILED: "f", RunState.CANCELLED: "f", RunState.SKIPPED: "k"}
_ENDS = {"SUCCEEDED": "s", "FAILED": "f", "CANCELLED": "f", "UPSTREAM_FAILED": "f", "SKIPPED": "k"}
_MOST_OPEN = 6


def says(rule: str, parents: str) -> str:
    """Return what a rule says once all parents have ended: run, skip or upstream.

    It is written from the words of the rules. Parents are letters: s succeeded, f failed, k skipped.
    """
    has_failed, has_succeeded, has_skipped = "f" in parents, "s" in parents, "k" in parents
    match rule:
        case "all_success":
            return "upstream" if has_failed else "skip" if has_skipped else "run"
        case "all_done":
            return "run"
        case "none_failed":
            return "upstream" if has_failed else "run"
        case "none_failed_min_one_success":
            return "upstream" if has_failed else "run" if has_succeeded else "skip"
        case "one_success":
            return "run" if has_succeeded else "upstream" if has_failed else "skip"
        case "one_failed":
            return "run" if has_failed else "skip"
        case "all_failed":
            return "skip" if has_succeeded or has_skipped else "run"
        case "none_skipped":
            return "skip" if has_skipped else "run"
        case _:
            raise ValueError(f"no such rule: {rule}")


def may_run(rule: str, ended: str, still_open: int) -> bool:
    """Say whether a step may start: its rule says "run", whatever the parents become that have not ended."""
    if rule == "all_done" and still_open:
        return False
    return all(
        says(rule, ended + "".join(rest)) == "run"
        for rest in product("sfk", repeat=min(still_open, _MOST_OPEN))
    )


def judge_flows(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """Judge all runs of workflows, and what is left of them."""
    if history.flow_mail or history.open_flows:
        left = f"{history.flow_mail} mails and {history.open_flows} flows are left in the end"
        yield Violation("W4", "the store", (left,))
    events: dict[RunId, list[Event]] = {}
    for event in history.flow_events:
        if event.run_id is not None and not event.is_stale:
            events.setdefault(event.run_id, []).append(event)
    order = {id(event): place for place, event in enumerate(history.flow_events)}
    for story in history.flows:
        counts["flows"] += 1
        counts["flow_steps_run"] += len(story.runs)
        counts["flows_cancelled"] += story.run.state is RunState.CANCELLED
        counts["flows_failed"] += story.run.state is RunState.FAILED
        counts["flows_paused"] += bool(story.pauses)
        counts["flows_overdue"] += story.run.reason == "deadline"
        for rule, why in _judge(story, events, order, history, counts):
            yield Violation(rule, format_run_id(story.run.id), (*_tell(story, events), why))
    for story, why in judge_redrives(history.flows, counts):
        yield Violation("W10", format_run_id(story.run.id), (*_tell(story, events), why))


def _judge(
    story: FlowStory,
    events: Mapping[RunId, list[Event]],
    order: Mapping[int, int],
    history: History,
    counts: Counter[str],
) -> Iterator[tuple[str, str]]:
    if story.run.state not in FINAL_STATES:
        yield "W4", f"it is {story.run.state} in the end"
        return
    places = Counter((run.place.step, run.place.item) for run in story.runs if run.place is not None)
    for (step, item), count in places.items():
        if count > 1:
            yield "W2", f"step {step} has {count} runs of item {item}"
    yield from _judge_maps(story, events, order, counts)
    yield from _judge_starts(story, events, order, counts)
    yield from _judge_order_of_end(story, events, order)
    yield from _judge_ends(story, events, order)
    yield from _judge_cancel(story, history)
    yield from _judge_deadline(story, history)
    yield from _judge_pauses(story, history)
    yield from _judge_values(story, counts)
    yield from judge_waits(story, history, counts)
    if not story.has_begun:
        if story.runs:
            yield "W4", "it has not begun, and steps have runs"
    elif story.steps is not None:
        yield from _judge_result(story, story.steps)
        yield from judge_undos(story, story.steps, events, order, counts)


def _judge_starts(
    story: FlowStory, events: Mapping[RunId, list[Event]], order: Mapping[int, int], counts: Counter[str]
) -> Iterator[tuple[str, str]]:
    """W1: a step starts only once its rule has allowed it."""
    ended_at = _find_ends(story, events, order)
    for run in story.runs:
        claims = [order[id(event)] for event in events.get(run.id, ()) if event.what == "claimed"]
        if not claims or run.place is None:
            continue
        counts["flow_starts_judged"] += 1
        step, first = run.place.step, min(claims)
        letters = [_letter(story, ended_at, parent, first) for parent in story.links[step]]
        ended = "".join(letter for letter in letters if letter is not None)
        if not may_run(story.rules[step], ended, letters.count(None)):
            yield "W1", f"step {step} began, though {story.rules[step]} does not say so of {letters}"


def _find_ends(
    story: FlowStory, events: Mapping[RunId, list[Event]], order: Mapping[int, int]
) -> dict[int, tuple[int, str]]:
    """Return where among the events each step has ended, and how. One with a map ends with the last of its runs."""
    ended_at: dict[int, tuple[int, str]] = {}
    for run in story.runs:
        if run.place is None:
            continue
        step = run.place.step
        # One that was cancelled before it began has no event: nobody knows when that was.
        own = (-1, _LETTERS[run.state]) if run.id not in events else None
        for event in events.get(run.id, ()):
            if event.target in FINAL_STATES:
                own = order[id(event)], _LETTERS[event.target]
        if own is None:
            continue
        if step in story.maps:
            letter = "k" if story.steps is None else _ENDS[story.steps[step]]
            own = max(own[0], ended_at.get(step, own)[0]), letter
        ended_at[step] = own
    return ended_at


def _judge_maps(
    story: FlowStory, events: Mapping[RunId, list[Event]], order: Mapping[int, int], counts: Counter[str]
) -> Iterator[tuple[str, str]]:
    """W8: a map has started its items from the first on, so many at once at most, and ends as they do."""
    for step, (count, most, tolerated) in story.maps.items():
        runs = [run for run in story.runs if run.place is not None and run.place.step == step]
        items = sorted(run.place.item for run in runs if run.place is not None)
        taken = story.taken_items.get(step, frozenset())
        expected = [item for item in range(count) if item not in taken][: len(items)]
        if items != expected:
            yield "W8", f"step {step} ran for the items {items} of {count}"
        counts["flow_items_judged"] += len(items)
        failed = sum(_LETTERS[run.state] == "f" for run in runs)
        status = None if story.steps is None else story.steps[step]
        if step in story.taken:
            continue
        if status == "SUCCEEDED" and (len(items) + len(taken) < count or failed > tolerated):
            yield "W8", f"step {step} succeeded with {len(items)} of {count} items, of which {failed} failed"
        if status == "FAILED" and failed <= tolerated:
            yield "W8", f"step {step} failed, and {failed} failures are no more than {tolerated}"
        own = sorted(
            ((order[id(event)], event) for run in runs for event in events.get(run.id, ())), key=itemgetter(0)
        )
        under_way: set[RunId] = set()
        for _, event in own:
            if event.run_id is None:
                continue
            if event.what == "claimed":
                under_way.add(event.run_id)
            elif event.target is not RunState.RUNNING:
                under_way.discard(event.run_id)
            if most is not None and len(under_way) > most:
                yield "W8", f"step {step} had {len(under_way)} items under way at once, and may have {most}"
                break


def _letter(story: FlowStory, ended_at: Mapping[int, tuple[int, str]], step: int, before: int) -> str | None:
    """Return how a step had ended at some place among the events; None if it had not, as far as can be said.

    A step that never ran had ended once its rule could not say "run" any more. When that was, its parents tell.
    """
    if step in story.taken:
        return "s"
    if any(run.place is not None and run.place.step == step for run in story.runs):
        found = ended_at.get(step)
        return found[1] if found is not None and found[0] < before else None
    wait = story.waits.get(step)
    if wait is not None and wait.since is not None and story.steps is not None:
        return _ENDS.get(story.steps[step]) if wait.place <= before else None
    if story.has_skips and story.steps is not None and story.steps[step] == "SKIPPED":
        return "k"  # someone may have skipped it, at any time
    if story.taken_items.get(step) and story.steps is not None and story.steps[step] == "SUCCEEDED":
        return "s"  # all its items were taken over
    letters = [_letter(story, ended_at, parent, before) for parent in story.links[step]]
    ended = "".join(letter for letter in letters if letter is not None)
    verdicts = {
        says(story.rules[step], ended + "".join(rest))
        for rest in product("sfk", repeat=min(letters.count(None), _MOST_OPEN))
    }
    if len(verdicts) > 1:
        return None
    verdict = verdicts.pop()
    if verdict == "run":  # its condition kept it from running, or a cancel
        return "k" if _is_false(story, step) else "f"
    return {"skip": "k", "upstream": "f"}[verdict]


def _is_false(story: FlowStory, step: int) -> bool:
    """Say whether the condition of a step is false: the step that it asks has returned an even number."""
    asked = _run_of(story, story.whens.get(step))
    return asked is not None and asked.state is RunState.SUCCEEDED and _returned(asked) % 2 == 0


def _run_of(story: FlowStory, step: int | None) -> Run | None:
    found = (run for run in story.runs if step is not None and run.place is not None)
    own = next((run for run in found if run.place is not None and run.place.step == step), None)
    return own if own is not None or step is None else story.taken.get(step)


def _returned(run: Run) -> int:
    return 0 if run.result is None else int(run.result)


def _judge_values(story: FlowStory, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """W14: a step whose condition is false never runs, and one gets exactly what another has returned."""
    for run in story.runs:
        step = -1 if run.place is None else run.place.step
        if step in story.whens and _is_false(story, step):
            yield "W14", f"step {step} has a run, though its condition is false"
        if step in story.givens:
            counts["flow_values_judged"] += 1
            giver = _run_of(story, story.givens[step])
            has_returned = giver is not None and giver.state is RunState.SUCCEEDED
            expected = {"value": _returned(giver) if has_returned and giver is not None else None}
            if run.payload is None or json.loads(run.payload) != expected:
                yield "W14", f"step {step} got {run.payload!r}, and not {expected}"


def _judge_ends(
    story: FlowStory, events: Mapping[RunId, list[Event]], order: Mapping[int, int]
) -> Iterator[tuple[str, str]]:
    """W3: a workflow has one end, after those of all its steps, and nothing starts after it."""
    own = [event for event in events.get(story.run.id, ()) if event.target in FINAL_STATES]
    if len(own) != 1:
        yield "W3", f"it has {len(own)} ends"
        return
    end = order[id(own[0])]
    for run in story.runs:
        if run.state not in FINAL_STATES:
            yield "W3", f"{format_run_id(run.id)} is {run.state}, though its workflow has ended"
        for event in events.get(run.id, ()):
            if order[id(event)] > end:
                yield "W3", f"{format_run_id(run.id)} {event.what} after the end of its workflow"


def _others(story: FlowStory) -> list[Run]:
    """Return the runs of all steps but those at the end."""
    return [run for run in story.runs if run.place is not None and run.place.step not in story.at_end]


def _judge_order_of_end(
    story: FlowStory, events: Mapping[RunId, list[Event]], order: Mapping[int, int]
) -> Iterator[tuple[str, str]]:
    """W1: a step at the end begins only once all others have ended."""
    ends = [
        order[id(event)]
        for run in _others(story)
        for event in events.get(run.id, ())
        if event.target in FINAL_STATES
    ]
    last = max(ends, default=-1)
    for run in story.runs:
        if run.place is None or run.place.step not in story.at_end:
            continue
        if any(order[id(event)] < last for event in events.get(run.id, ()) if event.what == "claimed"):
            yield "W1", f"step {run.place.step} began, though it is one at the end, and others had not ended"


def _judge_cancel(story: FlowStory, history: History) -> Iterator[tuple[str, str]]:
    """W3: after a cancel, nothing more starts than what was being started."""
    if story.cancelled_at is None:
        return
    for run in _others(story):
        if run.created_at > story.cancelled_at + history.lease + history.slack:
            yield (
                "W3",
                f"{format_run_id(run.id)} was made after the cancel at {story.cancelled_at.isoformat()}",
            )


def _judge_deadline(story: FlowStory, history: History) -> Iterator[tuple[str, str]]:
    """W7: nothing is stopped by a deadline that has not come, and nothing starts long after it."""
    late = [run for run in (story.run, *story.runs) if run.reason == "deadline"]
    begun_at = [run.created_at for run in story.runs]
    begun_at += [wait.since for wait in story.waits.values() if wait.since is not None]
    begun = min(begun_at, default=None)
    if story.deadline is None or begun is None:
        if late:
            yield "W7", f"{format_run_id(late[0].id)} was stopped by a deadline, and it has none"
        return
    deadline_at = begun + story.deadline
    for run in late:
        if run.finished_at is not None and run.finished_at < deadline_at - history.slack:
            yield (
                "W7",
                f"{format_run_id(run.id)} was stopped before the deadline at {deadline_at.isoformat()}",
            )
    for run in _others(story):
        if run.created_at > deadline_at + history.lease + history.slack:
            yield "W7", f"{format_run_id(run.id)} was made after the deadline at {deadline_at.isoformat()}"


def _judge_pauses(story: FlowStory, history: History) -> Iterator[tuple[str, str]]:
    """W9: a workflow that is paused starts nothing."""
    for since, until in story.pauses:
        for run in story.runs:
            is_before_end = until is None or run.created_at < until - history.slack
            if run.created_at >= since + history.slack and is_before_end:
                yield "W9", f"{format_run_id(run.id)} was made while it was paused, since {since.isoformat()}"


def _judge_result(story: FlowStory, steps: Sequence[str]) -> Iterator[tuple[str, str]]:
    """W4: the steps have ended as their runs have and as their rules say, and the workflow as its steps."""
    runs: dict[int, Run] = {run.place.step: run for run in story.runs if run.place is not None}
    error = story.run.error or ""  # a cancel that came, too, is the reason of the end then
    is_late = story.run.reason == "deadline" or error.startswith("the deadline of the workflow passed")
    for step, status in enumerate(steps):
        if any(steps[parent] not in _ENDS for parent in story.links[step]):
            yield "W4", f"step {step} waits for one that has not ended"
            continue
        if status == "SUCCEEDED" and step not in runs and (step in story.taken or step in story.taken_items):
            continue
        parents = "".join(_ENDS[steps[parent]] for parent in story.links[step])
        said = says(story.rules[step], parents)
        run = runs.get(step)
        if step in story.undoes:
            continue
        if step in story.maps and run is not None:
            if said != "run":
                yield "W4", f"step {step} ran, and its rule says {said}"
            continue
        if run is not None and (run.state.value != status or said != "run"):
            yield "W4", f"step {step} counts as {status}; its run is {run.state}, and its rule says {said}"
        may_be_stopped = (story.cancelled_at is not None or is_late) and step not in story.at_end
        expected = {"skip": {"SKIPPED"}, "upstream": {"UPSTREAM_FAILED"}, "run": {"CANCELLED"}}[said]
        is_false = said == "run" and _is_false(story, step)
        if is_false:
            expected = {"SKIPPED", "CANCELLED"} if may_be_stopped else {"SKIPPED"}
        if run is None and status == "SKIPPED" and story.has_skips:
            continue
        if step in story.waits and said == "run" and not is_false:
            if status not in {"SUCCEEDED", "FAILED"} and not (status == "CANCELLED" and may_be_stopped):
                yield "W4", f"step {step} waited, and counts as {status}"
            continue
        if run is None and status not in expected:
            yield "W4", f"step {step} counts as {status} without a run, and its rule says {said}"
        if run is None and said == "run" and not is_false and not may_be_stopped:
            yield "W4", f"step {step} never ran, though its rule says so"
    unwell = any(steps[step] in {"FAILED", "CANCELLED"} for step in runs if step not in story.may_fail)
    unwell |= any(steps[step] == "FAILED" for step in story.waits if step not in story.may_fail)
    is_stopped = any(status == "CANCELLED" for step, status in enumerate(steps) if step not in story.at_end)
    is_cut = story.cancelled_at is not None and (unwell or is_stopped or is_late)
    expected_end = RunState.FAILED if unwell or is_late else RunState.SUCCEEDED
    allowed = {expected_end, RunState.CANCELLED} if story.cancelled_at is not None else {expected_end}
    if story.run.state not in allowed or (story.run.state is RunState.CANCELLED and not is_cut):
        yield "W4", f"it ended as {story.run.state}, and its steps as {', '.join(steps)}"


def _tell(story: FlowStory, events: Mapping[RunId, list[Event]]) -> Iterator[str]:
    for run in (story.run, *story.runs):
        step = "" if run.place is None else f" of step {run.place.step}"
        for event in events.get(run.id, ()):
            yield f"{event.at.isoformat()} {format_run_id(run.id)}{step} {event.what}: {event.target}"
