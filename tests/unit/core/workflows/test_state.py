"""The state of a flow as it is kept: small, an exact round trip, and refused where it cannot be read."""

from __future__ import annotations

from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.states import FINAL_STATES
from mainspring.core.workflows.state import (
    STATUS_OF_END,
    FlowPhase,
    FlowState,
    StepStatus,
    UnreadableFlow,
    pack_ends,
)
from mainspring.core.workflows.timers import FlowTimer, TimerKind, sort_timers
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state

OPEN_STATUSES = {StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.SUSPENDED}


flow_timers = st.builds(
    FlowTimer,
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(TimerKind),
    st.integers(-1, 5),
)


@st.composite
def states(draw: st.DrawFn) -> FlowState:
    phase = draw(st.sampled_from(FlowPhase))
    allowed = [one for one in StepStatus if phase is not FlowPhase.ENDED or one not in OPEN_STATUSES]
    steps = bytes(draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=300)))
    ends = draw(st.lists(st.integers(0, len(steps) - 1), unique=True, max_size=len(steps)))
    timers = sort_timers(draw(st.lists(flow_timers, max_size=3)))
    cause = draw(st.sampled_from(FlowPhase))
    return FlowState(
        phase, steps, steps.count(StepStatus.LIVE), pack_ends(ends), timers, cause, draw(st.booleans())
    )


@given(states())
def test_kept_form_and_back_is_the_same_state(state: FlowState) -> None:
    kept = encode_flow_state(state)
    assert decode_flow_state(kept) == state
    assert isinstance(decode_flow_state(kept).phase, FlowPhase)
    if state == FlowState(state.phase, state.steps, state.live, state.ends):
        assert kept[0] == 1, "who has nothing else does not pay for it"
        assert len(kept) <= len(state.steps) + len(state.ends) + 15


def test_a_thousand_steps_take_a_thousand_bytes_and_two_for_each_end() -> None:
    begun = FlowState(FlowPhase.OPEN, bytes(1000), 0, b"")
    assert len(encode_flow_state(begun)) == 1009
    done = FlowState(FlowPhase.ENDED, bytes([StepStatus.SUCCEEDED]) * 1000, 0, pack_ends(range(1000)))
    assert len(encode_flow_state(done)) == 3010


def test_ends_keep_their_order() -> None:
    state = FlowState(FlowPhase.OPEN, bytes([3, 4, 2, *[0] * 500]), 1, pack_ends([1, 0, 300]))
    assert state.order_of_ends() == (1, 0, 300)
    assert [state.status(step) for step in (0, 1, 2, 3)] == [
        StepStatus.SUCCEEDED,
        StepStatus.FAILED,
        StepStatus.LIVE,
        StepStatus.WAITING,
    ]


def test_every_end_of_a_run_has_a_status() -> None:
    assert STATUS_OF_END.keys() == FINAL_STATES
    assert all(state.name == status.name for state, status in STATUS_OF_END.items())


def kept(*parts: object, form: int = 1) -> bytes:
    return bytes([form]) + msgspec.msgpack.encode(parts)


GOOD = (0, bytes([2, 3]), 1, pack_ends([1]))


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"", "form none is not known"),
        (kept(*GOOD, form=3), "form 3 is not known; this program knows 2"),
        (kept(*GOOD, form=2), "is damaged"),
        (kept(*GOOD, {"later": 1}, form=2), "part 'later' is not known"),
        (kept(*GOOD, {"unheard": 1}, form=2), "part 'unheard' is not known"),
        (kept(*GOOD, {"timers": 1}, form=2), "part 'timers' is damaged"),
        (kept(*GOOD, {"timers": [(0, 200, -1)]}, form=2), "part 'timers' is damaged: 200 is not a valid"),
        (kept(*GOOD, {"timers": [(2**62, 0, -1)]}, form=2), "part 'timers' is damaged"),
        (kept(*GOOD, {"cause": 99}, form=2), "part 'cause' is damaged"),
        (kept(*GOOD, {"errors": 1}, form=2), "part 'errors' is damaged"),
        (kept(*GOOD, {"errors": [[0, "x"]]}, form=2), "errors of steps that have not failed"),
        (kept(*GOOD, {"errors": [[2, "x"]]}, form=2), "it tells of steps that do not exist"),
        (kept(*GOOD)[:-1], "is damaged"),
        (kept(*GOOD) + b"\0", "is damaged"),
        (kept(*GOOD, 1), "is damaged"),
        (kept(0, "ab", 1, b""), "is damaged"),
        (kept(99, *GOOD[1:]), "phase 99 is not known"),
        (kept(-1, *GOOD[1:]), "phase -1 is not known"),
        (kept(0, bytes([2, 9]), 1, b""), "a status of a step is not known"),
        (
            kept(*GOOD, {"waits": [[7, None, None, None, None, None, False]]}, form=2),
            "steps that do not exist",
        ),
        (kept(*GOOD, {"waits": [[0, 1, "wave", 1, None, None, False]]}, form=2), "part 'waits' is damaged"),
        (kept(0, bytes([2, 3]), 0, b""), "0 runs do not fit 1 of live steps"),
        (kept(2, *GOOD[1:]), "the flow has ended, and a step has not"),
        (kept(0, bytes([2, 3]), 1, pack_ends([2])), "names steps that do not exist"),
        (kept(0, bytes([2, 3]), 1, b"\0"), "names steps that do not exist"),
    ],
)
def test_what_cannot_be_read_is_refused(damaged: bytes, words: str) -> None:
    assert decode_flow_state(kept(*GOOD)) == FlowState(FlowPhase.OPEN, *GOOD[1:])
    with pytest.raises(UnreadableFlow, match=words):
        decode_flow_state(damaged)


@given(st.binary(max_size=40), st.sampled_from([b"", b"\1", b"\2"]))
def test_whatever_is_kept_is_read_or_refused(text: bytes, form: bytes) -> None:
    damaged = form + text
    try:
        state = decode_flow_state(damaged)
    except UnreadableFlow:
        return
    assert decode_flow_state(encode_flow_state(state)) == state
