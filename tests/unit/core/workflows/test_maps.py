"""Maps: each item starts once and counts once, whatever order and batches mail comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, Mail, StepEnded
from mainspring.core.workflows.maps import MapState, StepMap, most_failures
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus, UnreadableFlow
from mainspring.core.workflows.turn import begin_flow, turn
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.testing.factories import START

SUCCEEDED, FAILED, SKIPPED, CANCELLED = (
    RunState.SUCCEEDED,
    RunState.FAILED,
    RunState.SKIPPED,
    RunState.CANCELLED,
)


def plan_of(count: int, **fields: object) -> FlowPlan:
    """Return the plan of a step that runs for so many items, and of one that follows it."""
    target = Target("function", {"function": "f"})
    own = StepMap(over=tuple(str(place).encode() for place in range(count)), **fields)  # type: ignore[arg-type]
    return FlowPlan.of(
        Workflow(
            (
                WorkflowStep(name="each", target=target, map=own),
                WorkflowStep(name="last", target=target, after=("each",)),
            )
        )
    )


@given(st.data())
def test_each_item_runs_once_and_counts_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 20), "count")
    most = data.draw(st.none() | st.integers(1, 5), "max_parallel")
    tolerate = data.draw(st.integers(0, 40) | st.floats(0, 1), "tolerate")
    most_starts = data.draw(st.integers(1, 12), "most starts")
    plan = plan_of(count, max_parallel=most, tolerate=tolerate)
    decided = begin_flow(plan, now=START, most_starts=most_starts)
    started: list[int] = []
    live: set[int] = set()
    ends: dict[int, RunState] = {}
    told: list[Mail] = []
    while True:
        state = decode_flow_state(encode_flow_state(decided.state))
        assert state == decided.state
        for step, items in decided.items:
            assert step == 0
            started += items
            live |= set(items)
        assert started == list(range(len(started))), "in their order, each once"
        assert len(live) <= (count if most is None else most)
        assert state.live == len(live) + (state.status(1) is StepStatus.LIVE)
        if state.status(0) not in {StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE}:
            break
        ending = (
            data.draw(st.lists(st.sampled_from(sorted(live)), unique=True, min_size=1), "ending")
            if live
            else []
        )
        mails: list[Mail] = []
        for item in ending:
            ends[item] = data.draw(st.sampled_from([SUCCEEDED, SUCCEEDED, FAILED, SKIPPED, CANCELLED]), "end")
            mails.append(StepEnded(0, ends[item], item))
            live.remove(item)
        again = data.draw(st.lists(st.sampled_from(told), max_size=3), "again") if told else []
        told += mails
        mails = data.draw(st.permutations([*mails, *again]), "mails")
        if not mails or decided.goes_on:
            mails = [*mails, FlowNotice.GO_ON]
        decided = turn(plan, state, mails, now=START, most_starts=most_starts)
    own = dict(decided.state.maps)[0]
    failed = sum(end in {FAILED, CANCELLED} for end in ends.values())
    assert (own.succeeded, own.failed) == (sum(end is SUCCEEDED for end in ends.values()), failed)
    has_failed = failed > most_failures(StepMap(over=(), tolerate=tolerate), count)
    assert decided.state.status(0) is (StepStatus.FAILED if has_failed else StepStatus.SUCCEEDED)
    assert has_failed or len(started) == count
    assert own.ended == b""
    assert own.floor == len(started)


@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 5))
def test_a_cancel_starts_nothing_more(count: int, done: int, most: int) -> None:
    plan = plan_of(count, max_parallel=most)
    decided = begin_flow(plan, now=START)
    ended = 0
    while ended < min(done, count - 1):
        decided = turn(plan, decided.state, [StepEnded(0, SUCCEEDED, ended)], now=START)
        ended += 1
    cancelled = turn(plan, decided.state, [FlowNotice.CANCEL], now=START)
    assert (cancelled.items, cancelled.cancels) == ((), (0,))
    own = dict(cancelled.state.maps)[0]
    over = turn(
        plan,
        cancelled.state,
        [StepEnded(0, CANCELLED, item) for item in range(ended, own.started)],
        now=START,
    )
    assert over.end is not None
    assert over.end.state is CANCELLED
    assert over.state.status(0) is StepStatus.CANCELLED


def test_an_item_of_before_or_of_later_changes_nothing() -> None:
    plan = plan_of(10, max_parallel=2)
    state = begin_flow(plan, now=START).state
    for mail in (
        StepEnded(0, SUCCEEDED, 5),
        StepEnded(0, SUCCEEDED),
        StepEnded(0, FAILED, -7),
        StepEnded(1, FAILED, 0),
    ):
        assert turn(plan, state, [mail], now=START).state is state


def test_the_state_stays_small_however_many_items() -> None:
    plan = plan_of(10_000, max_parallel=50)
    decided = begin_flow(plan, now=START)
    for item in range(5_000):
        decided = turn(plan, decided.state, [StepEnded(0, SUCCEEDED, item)], now=START)
    late = [StepEnded(0, SUCCEEDED, item) for item in range(5_049, 5_000, -1)]
    decided = turn(plan, decided.state, late, now=START)
    assert len(encode_flow_state(decided.state)) < 60


@pytest.mark.parametrize(
    ("tolerate", "count", "most"),
    [(0, 10, 0), (3, 10, 3), (0.29, 100, 29), (0.02, 49, 0), (1.0, 7, 7), (0.5, 3, 1)],
)
def test_a_part_is_rounded_down(tolerate: float, count: int, most: int) -> None:
    assert most_failures(StepMap(over=(), tolerate=tolerate), count) == most


@pytest.mark.parametrize(
    "parts",
    [
        (3, 4, 0, 0, 0, 0, b""),
        (3, 1, 2, 0, 0, 2, b""),
        (3, 3, 1, 0, 0, 0, b"\x01"),
        (3, 3, 1, 0, 0, 0, b""),
        (3, 3, -1, 1, 0, 0, b""),
    ],
)
def test_a_damaged_map_is_not_read(parts: tuple[int, int, int, int, int, int, bytes]) -> None:
    with pytest.raises(ValueError, match="items"):
        MapState.restore(*parts)


def test_a_state_with_a_map_of_another_step_is_not_read() -> None:
    state = FlowState(FlowPhase.OPEN, bytes([2]), 1, b"", maps=((3, MapState(1, 1)),))
    with pytest.raises(UnreadableFlow, match="steps that do not exist"):
        decode_flow_state(encode_flow_state(state))
    damaged = FlowState(FlowPhase.OPEN, bytes([2]), 1, b"", maps=((0, MapState(1, 2)),))
    with pytest.raises(UnreadableFlow, match="part 'maps' is damaged: items have ended"):
        decode_flow_state(encode_flow_state(damaged))


def test_steps_that_cannot_start_fail_when_their_time_has_come() -> None:
    target = Target("function", {"function": "f"})
    plan = FlowPlan.of(
        Workflow(
            (
                WorkflowStep(name="first", target=target),
                WorkflowStep(name="second", job="gone", after=("first",)),
                WorkflowStep(name="third", target=target, after=("second",)),
            )
        )
    )
    refused = {1: "there is no job 'gone'"}
    begun = begin_flow(plan, now=START, refused=refused)
    assert (begun.starts, begun.state.errors) == ((0,), ())
    ended = turn(plan, begun.state, [StepEnded(0, SUCCEEDED)], now=START, refused=refused)
    assert ended.end is not None
    assert (ended.end.state, ended.end.failed) == (FAILED, ("second",))
    assert ended.state.errors == ((1, "job: there is no job 'gone'"),)
    assert decode_flow_state(encode_flow_state(ended.state)) == ended.state
    assert ended.state.status(2) is StepStatus.UPSTREAM_FAILED
