"""Seeds: how a flow begins whose run repeats another one, with what had succeeded there.

A step is taken over if it succeeded, and all that it follows is taken over, too. So a seed is a state that the flow
could have come to by itself, and every rule holds from there on. What runs again is what did not succeed, what is asked
for, and all that follows from these; and what was undone. Steps at the end always run again: they belong to the run,
not to its work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mainspring.core.ids import RunId
from mainspring.core.values import value
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus, pack_ends
from mainspring.core.workflows.taken import TakenStep, pack_items, unpack_items
from mainspring.core.workflows.undoing import was_undone


@value()
class FormerFlow:
    """The flow of the run that is repeated.

    Attributes:
        state: its last.
        has_same_input: the new run has the same payload.
    """

    flow_id: RunId
    plan: FlowPlan
    state: FlowState
    has_same_input: bool = True


@value()
class TakenOver:
    """Which steps of a former flow are taken over, by their places in the new one.

    Attributes:
        whole: those that had succeeded, each with its place in the former flow.
        skipped: those that had been skipped, and would be again.
        partly: steps that run for many items of which some had succeeded, each with its place in the former flow.
    """

    whole: Mapping[int, int]
    skipped: tuple[int, ...]
    partly: Mapping[int, int]


def find_taken_over(plan: FlowPlan, former: FormerFlow, again: Collection[str] = ()) -> TakenOver:
    """Return which steps are taken over.

    Args:
        plan: that of the new run, whose definition may be another one. Steps are known by their names.
        again: the names of steps that run again though they succeeded.
    """
    whole: dict[int, int] = {}
    partly: dict[int, int] = {}
    skipped: list[int] = []
    for step in plan.graph.order:
        own = plan.workflow.steps[step]
        before = former.plan.places.get(own.name)
        parents = plan.graph.parents[step]
        if before is None or plan.at_end[step] or own.name in again:
            continue
        if was_undone(former.plan, former.state, before) or not _may_take_wait(plan, step, former, before):
            continue
        if not all(parent in whole or parent in skipped for parent in parents):
            continue
        status = former.state.status(before)
        if status is StepStatus.SKIPPED and _asks_the_same(plan, step, former, before):
            skipped.append(step)
        elif (step in plan.maps) is not (before in former.plan.maps):
            continue
        elif status is StepStatus.SUCCEEDED and _has_same_items(plan, step, former, before):
            whole[step] = before
        elif step in plan.maps and _may_take_items(plan, step, former, before):
            partly[step] = before
    return TakenOver(whole, tuple(skipped), partly)


def make_seed(
    plan: FlowPlan, former: FormerFlow, over: TakenOver, succeeded: Mapping[int, Sequence[int]]
) -> FlowState | None:
    """Return the state with which a flow begins; None if nothing is taken over.

    Args:
        over: what `find_taken_over` has returned.
        succeeded: of the steps in `over.partly`, the items whose runs in the former flow succeeded, or those of
            `items_known`.
    """
    steps = bytearray(len(plan.rules))
    for step in over.whole:
        steps[step] = StepStatus.SUCCEEDED
    for step in over.skipped:
        steps[step] = StepStatus.SKIPPED
    earlier = {one.step: one for one in former.state.taken}
    taken = [_whole(step, before, earlier.get(before), former.flow_id) for step, before in over.whole.items()]
    for step, before in over.partly.items():
        items = _same_items(plan, step, former, before, succeeded[step])
        if items:
            taken.append(TakenStep(step, former.flow_id, before, items))
    if not taken:
        return None
    by_former = {before: step for step, before in over.whole.items()}
    counts = dict(former.state.maps)
    return FlowState(
        phase=FlowPhase.OPEN,
        steps=bytes(steps),
        live=0,
        ends=pack_ends(
            [by_former[step] for step in former.state.order_of_ends() if step in by_former],
        ),
        maps=tuple([(step, counts[before]) for step, before in over.whole.items() if before in counts]),
        taken=tuple(sorted(taken, key=_place)),
    )


def _may_take_wait(plan: FlowPlan, step: int, former: FormerFlow, before: int) -> bool:
    """Say whether nothing that is about waits keeps a step from being taken over.

    What an answer has brought goes with its flow, so a step waits again if an expression names that. So does one that
    was skipped because no answer came in time.
    """
    is_wait = step in plan.waits
    if is_wait is not (before in former.plan.waits):
        return False
    is_late = any(one.step == before and one.is_late for one in former.state.waits)
    return not is_wait or not (step in plan.users or is_late)


def _place(one: TakenStep) -> int:
    return one.step


def _asks_the_same(plan: FlowPlan, step: int, former: FormerFlow, before: int) -> bool:
    """Say whether a step would be skipped again: its definition asks what it asked before, and of the same input."""
    new, old = plan.workflow.steps[step], former.plan.workflow.steps[before]
    is_same = (new.rule, new.when, new.after) == (old.rule, old.when, old.after)
    return is_same and (former.has_same_input or new.when is None)


def _has_same_items(plan: FlowPlan, step: int, former: FormerFlow, before: int) -> bool:
    """Say whether a step runs for what it ran for before.

    An expression makes the same list again: the steps that it names are taken over, too.
    """
    if step not in plan.maps:
        return True
    over = plan.maps[step].over
    return over == former.plan.maps[before].over and (former.has_same_input or not isinstance(over, str))


def _may_take_items(plan: FlowPlan, step: int, former: FormerFlow, before: int) -> bool:
    """Say whether some items of a map may be taken over, and which ones can be told.

    One that the former flow had taken over as a whole has its runs elsewhere.
    """
    new, old = plan.maps[step].over, former.plan.maps[before].over
    if (isinstance(new, str) or isinstance(old, str)) and not _has_same_items(plan, step, former, before):
        return False
    own = dict(former.state.maps).get(before)
    if own is None:  # they were taken over, and are still to come
        return bool(_taken_items(former, before))
    if not own.succeeded:
        return False
    is_elsewhere = any(one.step == before and one.is_whole for one in former.state.taken)
    return not is_elsewhere or items_known(former, before) is not None


def items_known(former: FormerFlow, before: int) -> range | None:
    """Return the items of a step that have succeeded, if its runs need not tell: all of them. Else, return None."""
    own = dict(former.state.maps).get(before)
    return range(own.count) if own is not None and own.succeeded == own.count else None


def _whole(step: int, before: int, earlier: TakenStep | None, flow_id: RunId) -> TakenStep:
    """Return a step that is taken over: from where the former flow had it, if that had taken it over itself."""
    if earlier is not None and earlier.is_whole:
        return TakenStep(step, earlier.flow_id, earlier.place)
    return TakenStep(step, flow_id, before)


def items_of_runs(former: FormerFlow, before: int) -> int:
    """Return how many items of a step have succeeded by runs of the former flow itself."""
    own = dict(former.state.maps).get(before)
    if own is None:  # it has not started
        return 0
    passed = [item for item in _taken_items(former, before) if item < own.started]
    return own.succeeded - len(passed)


def _taken_items(former: FormerFlow, before: int) -> list[int]:
    """Return the items that the former flow had taken over itself, whether it has come to them or not."""
    return [item for one in former.state.taken if one.step == before for item in unpack_items(one.items)]


def _same_items(
    plan: FlowPlan, step: int, former: FormerFlow, before: int, succeeded: Sequence[int]
) -> bytes:
    """Return those of the items that succeeded which are in the same place in the new definition."""
    new, old = plan.maps[step].over, former.plan.maps[before].over
    done = {*succeeded, *_taken_items(former, before)}
    if isinstance(new, str) or isinstance(old, str):
        return pack_items(done)  # an expression that makes the same, or it would not be taken over
    return pack_items(item for item in done if item < min(len(new), len(old)) and new[item] == old[item])
