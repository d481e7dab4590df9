"""Seeds: what a flow takes over is what it could have come to by itself, and nothing that succeeded runs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import RunId
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, SkipStep, StepEnded
from mainspring.core.workflows.maps import MapState, StepMap
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.seeds import (
    FormerFlow,
    find_taken_over,
    items_known,
    items_of_runs,
    make_seed,
)
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus, UnreadableFlow
from mainspring.core.workflows.taken import TakenStep, has_item, pack_items, unpack_items
from mainspring.core.workflows.turn import FlowTurn, begin_flow, turn
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.testing.factories import START

FIRST, SECOND = RunId(1), RunId(2)
S, F, C = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED
Ran = dict[int, list[int]]
"""By step, the items that ran; -1 for a step that runs once."""


def step(name: str, after: str = "", **fields: object) -> WorkflowStep:
    target = Target("function", {"function": "f"})
    return WorkflowStep(name=name, target=target, after=tuple(after.split()), **fields)  # type: ignore[arg-type]


def plan_of(*steps: WorkflowStep) -> FlowPlan:
    return FlowPlan.of(Workflow(steps))


def each(count: int, **fields: object) -> StepMap:
    return StepMap(over=tuple(str(item).encode() for item in range(count)), **fields)  # type: ignore[arg-type]


def run_flow(
    plan: FlowPlan,
    ends: Mapping[tuple[str, int], RunState],
    *,
    seed: FlowState | None = None,
    most_starts: int = 3,
) -> tuple[FlowState, Ran]:
    """Run a flow to its end: its runs end as given by step and item, or succeed. Return which ran, too."""
    ran: Ran = {}
    names = [one.name for one in plan.workflow.steps]
    decided = begin_flow(plan, now=START, seed=seed, most_starts=most_starts)
    for _ in range(1000):
        state = decode_flow_state(encode_flow_state(decided.state))
        assert state == decided.state
        if decided.end is not None:
            return state, ran
        mails: list[StepEnded] = []
        for place, item in _started(decided):
            ran.setdefault(place, []).append(item)
            mails.append(StepEnded(place, ends.get((names[place], item), S), item))
        decided = turn(plan, state, mails or [FlowNotice.GO_ON], now=START, most_starts=most_starts)
    raise AssertionError("it does not end")


def _started(decided: FlowTurn) -> list[tuple[int, int]]:
    return [(place, -1) for place in decided.starts] + [
        (place, item) for place, items in decided.items for item in items
    ]


def seed_of(
    plan: FlowPlan, former: FormerFlow, ran: Ran, ends: Mapping[tuple[str, int], RunState], *again: str
) -> FlowState | None:
    over = find_taken_over(plan, former, again)
    succeeded = {}
    for place, before in over.partly.items():
        name = former.plan.workflow.steps[before].name
        succeeded[place] = [item for item in ran.get(before, []) if ends.get((name, item), S) is S]
        assert len(succeeded[place]) == items_of_runs(former, before)
    return make_seed(plan, former, over, succeeded)


def redrive(
    plan: FlowPlan, ends: Mapping[tuple[str, int], RunState], *again: str, new: FlowPlan | None = None
) -> tuple[FlowState, dict[str, list[int]]]:
    """Run a flow, and one that repeats it in which all succeeds. Return the second, and what it ran."""
    state, ran = run_flow(plan, ends)
    new = new or plan
    seed = seed_of(new, FormerFlow(FIRST, plan, state), ran, ends, *again)
    after, ran_again = run_flow(new, {}, seed=seed)
    return after, {new.workflow.steps[place].name: items for place, items in sorted(ran_again.items())}


CHAIN = plan_of(step("a"), step("b", "a"), step("c", "b"), step("d", "a"))


def test_what_succeeded_does_not_run_again_and_what_follows_the_failure_does() -> None:
    state, ran = redrive(CHAIN, {("b", -1): F})
    assert ran == {"b": [-1], "c": [-1]}
    assert set(state.steps) == {StepStatus.SUCCEEDED}
    assert state.order_of_ends() == (0, 3, 1, 2), "in the order in which they succeeded, over both runs"
    assert state.taken == (TakenStep(0, FIRST, 0), TakenStep(3, FIRST, 3))


def test_steps_that_are_named_run_again_with_all_that_follows() -> None:
    assert redrive(CHAIN, {("c", -1): F})[1] == {"c": [-1]}
    assert redrive(CHAIN, {("c", -1): F}, "b")[1] == {"b": [-1], "c": [-1]}
    assert redrive(CHAIN, {("c", -1): F}, "a")[1] == {"a": [-1], "b": [-1], "c": [-1], "d": [-1]}


def test_what_succeeded_after_a_failure_runs_again() -> None:
    plan = plan_of(
        step("a"),
        step("mend", "a", rule=StepRule.ONE_FAILED),
        step("tell", "a", rule=StepRule.ALL_DONE),
        step("end", at_end=True),
    )
    state, ran = redrive(plan, {("a", -1): F})
    assert ran == {"a": [-1], "tell": [-1], "end": [-1]}, "and the mending is not needed any more"
    assert state.status(1) is StepStatus.SKIPPED


def test_steps_at_the_end_always_run() -> None:
    plan = plan_of(step("a"), step("b"), step("end", at_end=True))
    assert redrive(plan, {("b", -1): F})[1] == {"b": [-1], "end": [-1]}
    assert redrive(plan, {("end", -1): F})[1] == {"end": [-1]}, "only that had failed"


def test_a_step_that_someone_skipped_stays_so() -> None:
    plan = plan_of(step("a"), step("b", "a"), step("c"))
    begun = begin_flow(plan, now=START)
    skipped = turn(plan, begun.state, [SkipStep(1)], now=START)
    over = turn(plan, skipped.state, [StepEnded(0, S), StepEnded(2, F)], now=START)
    assert over.end is not None
    former = FormerFlow(FIRST, plan, over.state)
    state, ran = run_flow(plan, {}, seed=seed_of(plan, former, {}, {}))
    assert (ran, state.status(1)) == ({2: [-1]}, StepStatus.SKIPPED)
    changed = plan_of(step("a"), step("b", "a", rule=StepRule.ALL_DONE), step("c"))
    assert run_flow(changed, {}, seed=seed_of(changed, former, {}, {}))[1] == {1: [-1], 2: [-1]}


def test_nothing_taken_over_is_no_seed() -> None:
    plan = plan_of(step("a"), step("b", "a"))
    state, ran = run_flow(plan, {("a", -1): F})
    assert seed_of(plan, FormerFlow(FIRST, plan, state), ran, {}) is None
    begun = begin_flow(plan, now=START)
    cancelled = turn(plan, begun.state, [FlowNotice.CANCEL, StepEnded(0, C)], now=START)
    assert seed_of(plan, FormerFlow(FIRST, plan, cancelled.state), {}, {}) is None


def test_steps_are_known_by_name_in_another_definition() -> None:
    new = plan_of(step("new"), step("d", "a"), step("a"), step("b", "a"), step("c", "b new"))
    state, ran = redrive(CHAIN, {("b", -1): F}, new=new)
    assert ran == {"new": [-1], "b": [-1], "c": [-1]}
    assert state.taken == (TakenStep(1, FIRST, 3), TakenStep(2, FIRST, 0))


def test_what_follows_a_new_step_runs_again() -> None:
    new = plan_of(step("a"), step("new", "a"), step("b", "new"), step("c", "b"), step("d", "a"))
    assert redrive(CHAIN, {("c", -1): F}, new=new)[1] == {"new": [-1], "b": [-1], "c": [-1]}


def test_items_that_succeeded_do_not_run_again() -> None:
    plan = plan_of(step("each", map=each(6, max_parallel=2)), step("last", "each"))
    state, ran = redrive(plan, {("each", 1): F, ("each", 2): F})
    assert ran == {"each": [1, 2, 3, 4, 5], "last": [-1]}, "also those that had not begun"
    assert dict(state.maps)[0].succeeded == 6
    assert state.taken == (TakenStep(0, FIRST, 0, pack_items([0])),)


def test_a_map_that_succeeded_is_taken_over_as_a_whole() -> None:
    plan = plan_of(step("each", map=each(4, tolerate=1)), step("last", "each"))
    state, ran = redrive(plan, {("each", 1): F, ("last", -1): F})
    assert ran == {"last": [-1]}, "the failure of an item was allowed"
    assert (dict(state.maps)[0].succeeded, dict(state.maps)[0].failed) == (3, 1)


def test_items_are_taken_over_if_they_are_the_same() -> None:
    plan = plan_of(step("each", map=each(4)), step("last", "each"))
    new = plan_of(step("each", map=StepMap(over=(b"0", b"9", b"2", b"3", b"4"))), step("last", "each"))
    assert redrive(plan, {("last", -1): F}, new=new)[1] == {"each": [1, 4], "last": [-1]}
    once = plan_of(step("each"), step("last", "each"))
    assert redrive(plan, {("last", -1): F}, new=once)[1] == {"each": [-1], "last": [-1]}
    assert redrive(once, {("last", -1): F}, new=plan)[1] == {"each": [0, 1, 2, 3], "last": [-1]}


def test_all_items_taken_over_end_the_step_at_once() -> None:
    plan = plan_of(step("each", map=each(5)), step("last", "each"))
    fewer = plan_of(step("each", map=each(3)), step("last", "each"))
    state, ran = redrive(plan, {("last", -1): F}, new=fewer)
    assert ran == {"last": [-1]}
    assert dict(state.maps)[0].succeeded == 3


def test_what_was_taken_over_is_taken_over_from_where_it_ran() -> None:
    plan = plan_of(step("a"), step("each", "a", map=each(5, max_parallel=1)), step("c", "each"))
    ends: dict[tuple[str, int], RunState] = {("each", 1): F}
    state, ran = run_flow(plan, ends)
    seed = seed_of(plan, FormerFlow(FIRST, plan, state), ran, ends)
    ends = {("each", 3): F}
    state, ran = run_flow(plan, ends, seed=seed)
    assert ran == {1: [1, 2, 3]}
    seed = seed_of(plan, FormerFlow(SECOND, plan, state), ran, ends)
    assert seed is not None
    assert seed.taken == (TakenStep(0, FIRST, 0), TakenStep(1, SECOND, 1, pack_items([0, 1, 2])))
    assert run_flow(plan, {}, seed=seed)[1] == {1: [3, 4], 2: [-1]}


def test_a_flow_of_which_all_is_taken_over_ends_at_once() -> None:
    state, ran = run_flow(CHAIN, {})
    seed = seed_of(CHAIN, FormerFlow(FIRST, CHAIN, state), ran, {})
    begun = begin_flow(CHAIN, now=START, seed=seed)
    assert begun.end is not None
    assert begun.end.state is S


@given(st.data())
def test_nothing_that_was_taken_over_runs_again(data: st.DataObject) -> None:
    steps: list[WorkflowStep] = []
    for number in range(data.draw(st.integers(1, 7), "steps")):
        names = [one.name for one in steps]
        after = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3) if names else st.just([]))
        rule = data.draw(st.sampled_from([one for one in StepRule if after or not one.needs_parents]))
        own = data.draw(st.none() | st.builds(each, st.integers(0, 6), max_parallel=st.none() | st.just(2)))
        steps.append(step(f"s{number}", " ".join(after), rule=rule, map=own))
    plan = plan_of(*steps)
    items = st.tuples(st.sampled_from([one.name for one in steps]), st.integers(-1, 5))
    ends = data.draw(st.dictionaries(items, st.sampled_from([F, C]), max_size=6), "ends")
    state, ran = run_flow(plan, ends, most_starts=data.draw(st.integers(1, 9)))
    seed = seed_of(plan, FormerFlow(FIRST, plan, state), ran, ends)
    if seed is None:
        return
    assert decode_flow_state(encode_flow_state(seed)) == seed
    again = data.draw(st.dictionaries(items, st.sampled_from([F, C]), max_size=3), "ends again")
    after_seed, ran_again = run_flow(plan, again, seed=seed, most_starts=data.draw(st.integers(1, 9)))
    for one in seed.taken:
        assert one.step not in ran_again or not one.is_whole
        assert not any(has_item(one.items, item) for item in ran_again.get(one.step, []))
    if not again:  # then it ends as a flow does of which all succeeds
        fresh, _ = run_flow(plan, {})
        assert after_seed.steps == fresh.steps


@given(st.sets(st.integers(0, 200)))
def test_packed_items_and_back(items: set[int]) -> None:
    packed = pack_items(items)
    assert unpack_items(packed) == sorted(items)
    assert [item for item in range(300) if has_item(packed, item)] == sorted(items)


def test_a_seed_that_does_not_fit_is_refused() -> None:
    state, ran = run_flow(CHAIN, {("c", -1): F})
    seed = seed_of(CHAIN, FormerFlow(FIRST, CHAIN, state), ran, {})
    assert seed is not None
    with pytest.raises(ValueError, match="4 steps, and the workflow 1"):
        begin_flow(plan_of(step("a")), now=START, seed=seed)
    for wrong, words in [
        (replace(seed, taken=(TakenStep(4, FIRST, 0),)), "steps that do not exist"),
        (replace(seed, taken=(TakenStep(2, FIRST, 0),)), "taken over steps that have not succeeded"),
    ]:
        with pytest.raises(UnreadableFlow, match=words):
            decode_flow_state(encode_flow_state(wrong))
    assert seed.phase is FlowPhase.OPEN


def test_items_that_an_expression_makes_of_another_input_run_again() -> None:
    plan = plan_of(step("each", map=StepMap(over="input.files")), step("last", "each"))
    state = FlowState(
        FlowPhase.ENDED,
        bytes([StepStatus.SUCCEEDED, StepStatus.FAILED]),
        0,
        b"",
        maps=((0, MapState(2, 2, 2, floor=2)),),
    )
    former = FormerFlow(FIRST, plan, state)
    assert find_taken_over(plan, former).whole == {0: 0}
    other = replace(former, has_same_input=False)
    over = find_taken_over(plan, other)
    assert (dict(over.whole), dict(over.partly)) == ({}, {})
    assert make_seed(plan, other, over, {}) is None
    changed = plan_of(step("each", map=StepMap(over="input.others")), step("last", "each"))
    assert make_seed(changed, former, find_taken_over(changed, former), {}) is None


def test_what_an_expression_has_skipped_for_another_input_is_asked_again() -> None:
    plan = plan_of(step("a"), step("b", "a", when="input.full"), step("c", "b", rule=StepRule.ALL_DONE))
    statuses = bytes([StepStatus.SUCCEEDED, StepStatus.SKIPPED, StepStatus.SUCCEEDED])
    former = FormerFlow(FIRST, plan, FlowState(FlowPhase.ENDED, statuses, 0, b"\0\0\2\0"))
    assert find_taken_over(plan, former).skipped == (1,)
    over = find_taken_over(plan, replace(former, has_same_input=False))
    assert (dict(over.whole), over.skipped) == ({0: 0}, ())


def test_items_of_a_map_that_was_taken_over_as_a_whole_need_no_runs() -> None:
    def plan_with(own: StepMap) -> FlowPlan:
        return plan_of(step("each", map=own), step("last", "each"))

    def follow_up(state: FlowState, *, failed: int = 0) -> FormerFlow:
        done = replace(MapState(3, 3, 3 - failed, failed), floor=3)
        return FormerFlow(SECOND, plan_with(each(3, tolerate=1)), replace(state, maps=((0, done),)))

    state = FlowState(
        FlowPhase.ENDED,
        bytes([StepStatus.SUCCEEDED, StepStatus.FAILED]),
        0,
        b"\0\0\1\0",
        taken=(TakenStep(0, FIRST, 0),),
    )
    longer = plan_with(each(4, tolerate=1))
    former = follow_up(state)
    over = find_taken_over(longer, former)
    assert (dict(over.whole), dict(over.partly), items_known(former, 0)) == ({}, {0: 0}, range(3))
    seed = make_seed(longer, former, over, {0: range(3)})
    assert seed is not None
    assert run_flow(longer, {}, seed=seed)[1] == {0: [3], 1: [-1]}
    some = find_taken_over(longer, follow_up(state, failed=1))
    assert (dict(some.whole), dict(some.partly)) == ({}, {}), (
        "which ones failed, only its first run could tell"
    )
