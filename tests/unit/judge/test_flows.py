"""W1 to W4: when steps start, that each has one run, and how a workflow ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import LaneKey, Priority, Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.step_jobs import step_job_id
from mainspring.testing.factories import START, IdSequence, at
from tests.unit.judge.histories import LEASE, Story
from tools.judge import Event, FlowStory, History, judge

JOB = JobId(IdSequence().new_uuid())
FLOW = RunId(256)
SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


def run(number: int, state: RunState, *, step: int | None = None, made_at: float = 0.0) -> Run:
    return Run(
        id=RunId(number * 256),
        job_id=JOB if step is None else step_job_id(JOB),
        version=1,
        tenant="default",
        lane=LaneKey("default", "workflow", "default", Priority.MEDIUM),
        kind=RunKind.WORKFLOW,
        state=state,
        fire_at=None,
        due_at=START,
        ready_at=START,
        created_at=at(made_at),
        started_at=START,
        finished_at=at(50),
        attempt=1,
        token=1,
        crashes=0,
        session_id=None,
        is_cancel_requested=False,
        reason=None,
        error=None,
        payload=None,
        result=None,
        output=None,
        idempotency_key=None,
        fire_range_id=None,
        redrive_of=None,
        place=None if step is None else StepPlace(FLOW, step),
    )


def event(one: Run, what: str, target: RunState) -> Event:
    return Event(at=at(1), job_id=one.job_id, run_id=one.id, target=target, token=1, what=what, actor="s")


FIRST, SECOND = run(2, SUCCEEDED, step=0), run(3, SUCCEEDED, step=1)
WHOLE = run(1, SUCCEEDED)


def tell(
    runs: Sequence[Run] = (FIRST, SECOND),
    *,
    whole: Run = WHOLE,
    steps: Sequence[str] = ("SUCCEEDED", "SUCCEEDED"),
    rule: str = "all_success",
    cancelled_at: datetime | None = None,
    asks: bool = False,
    order: Callable[[list[Event]], list[Event]] = lambda events: events,
) -> History:
    """Tell of a workflow of two steps, the second after the first."""
    events = []
    for one in runs:
        if one.state is not CANCELLED:
            events.append(event(one, "claimed", RunState.RUNNING))
        events.append(event(one, one.state.value.lower(), one.state))
    events.append(event(whole, whole.state.value.lower(), whole.state))
    history = Story().history
    history.flow_events = order(events)
    history.flows = [
        FlowStory(
            run=whole,
            links=((), (0,)),
            rules=("all_success", rule),
            may_fail=frozenset(),
            runs=tuple(runs),
            steps=tuple(steps),
            cancelled_at=cancelled_at,
            whens={1: 0} if asks else {},
            givens={1: 0} if asks else {},
        )
    ]
    return history


def broken(history: History) -> set[str]:
    return {found.rule for found in judge(history).violations}


def test_a_workflow_that_went_well_breaks_nothing() -> None:
    verdict = judge(tell())
    assert verdict.is_good
    assert (verdict.counts["flows"], verdict.counts["flow_starts_judged"]) == (1, 2)


def test_a_step_that_gets_what_another_has_returned_breaks_nothing() -> None:
    giver = replace(FIRST, result=b"7")
    getter = replace(SECOND, payload=b'{"value":7}')
    verdict = judge(tell([giver, getter], asks=True))
    assert verdict.is_good
    assert verdict.counts["flow_values_judged"] == 1


@pytest.mark.parametrize("payload", [b'{"value":8}', b'{"value":null}', None])
def test_a_step_that_gets_something_else_breaks_w14(payload: bytes | None) -> None:
    runs = [replace(FIRST, result=b"7"), replace(SECOND, payload=payload)]
    assert broken(tell(runs, asks=True)) == {"W14"}


def test_a_step_whose_condition_is_false_is_skipped() -> None:
    giver = replace(FIRST, result=b"8")
    assert judge(tell([giver], steps=["SUCCEEDED", "SKIPPED"], asks=True)).is_good
    assert broken(tell([giver], steps=["SUCCEEDED", "CANCELLED"], asks=True)) == {"W4"}
    runs = [giver, replace(SECOND, payload=b'{"value":8}')]
    assert broken(tell(runs, asks=True)) == {"W14"}


def test_a_step_that_began_too_early_breaks_w1() -> None:
    assert broken(tell(order=lambda events: [*events[2:4], *events[:2], *events[4:]])) == {"W1"}


@pytest.mark.parametrize(
    ("rule", "found"), [("one_failed", {"W1", "W4"}), ("all_done", set()), ("one_success", set())]
)
def test_a_step_that_its_rule_forbids_breaks_w1(rule: str, found: set[str]) -> None:
    assert broken(tell(rule=rule)) == found


def test_two_runs_of_a_step_break_w2() -> None:
    assert "W2" in broken(tell((FIRST, SECOND, replace(SECOND, id=RunId(4 * 256)))))


def test_an_end_before_a_step_has_ended_breaks_w3() -> None:
    assert broken(tell(order=lambda events: [*events[:3], events[4], events[3]])) == {"W3"}


def test_a_second_end_breaks_w3() -> None:
    assert broken(tell(order=lambda events: [*events, events[-1]])) == {"W3"}


@pytest.mark.parametrize(("after", "found"), [(1.0, set()), (LEASE.total_seconds() + 1, {"W3"})])
def test_a_step_that_is_made_long_after_a_cancel_breaks_w3(after: float, found: set[str]) -> None:
    late = replace(SECOND, created_at=at(10 + after))
    assert broken(tell((FIRST, late), cancelled_at=at(10))) == found


def test_what_is_left_in_the_end_breaks_w4() -> None:
    for name in ("flow_mail", "open_flows"):
        history = tell()
        setattr(history, name, 1)
        assert broken(history) == {"W4"}
    assert broken(tell(whole=replace(WHOLE, state=RunState.RUNNING))) == {"W4"}


def test_a_step_that_never_ran_breaks_w4_unless_it_was_cancelled() -> None:
    assert "W4" in broken(tell((FIRST,)))
    cut = tell((FIRST,), whole=run(1, CANCELLED), steps=("SUCCEEDED", "CANCELLED"), cancelled_at=at(2))
    assert broken(cut) == set()


def test_a_workflow_that_ends_otherwise_than_its_steps_breaks_w4() -> None:
    failed = run(3, FAILED, step=1)
    steps = ("SUCCEEDED", "FAILED")
    assert broken(tell((FIRST, failed), steps=steps)) == {"W4"}
    assert broken(tell((FIRST, failed), steps=steps, whole=run(1, FAILED))) == set()


def test_a_state_that_does_not_fit_its_runs_breaks_w4() -> None:
    assert "W4" in broken(tell(steps=("SUCCEEDED", "FAILED")))


def test_what_a_deadline_stops_before_it_has_come_breaks_w7() -> None:
    whole = replace(run(1, FAILED), reason="deadline")
    history = tell((FIRST, replace(SECOND, state=FAILED)), whole=whole, steps=("SUCCEEDED", "FAILED"))
    for seconds, found in ((40, set()), (60, {"W7"}), (None, {"W7"})):
        deadline = None if seconds is None else timedelta(seconds=seconds)
        history.flows = [replace(history.flows[0], deadline=deadline)]
        assert broken(history) == found


def test_what_starts_long_after_the_deadline_breaks_w7() -> None:
    late = run(3, SUCCEEDED, step=1, made_at=LEASE.total_seconds() + 12)
    history = tell((FIRST, late))
    for seconds, found in ((20, set()), (10, {"W7"})):
        history.flows = [replace(history.flows[0], deadline=timedelta(seconds=seconds))]
        assert broken(history) == found


def tell_redrive(runs: Sequence[Run], steps: Sequence[str], **fields: object) -> History:
    """Tell of a workflow whose second step failed, and of a run that repeats it with these runs of steps."""
    failed = replace(SECOND, state=FAILED)
    history = tell((FIRST, failed), whole=replace(WHOLE, state=FAILED), steps=("SUCCEEDED", "FAILED"))
    whole = replace(run(10, SUCCEEDED), redrive_of=WHOLE.id)
    more = tell(runs, whole=whole, steps=steps)
    history.flow_events = [*history.flow_events, *more.flow_events]
    story = replace(more.flows[0], **fields)  # type: ignore[arg-type]  # the test's
    history.flows = [*history.flows, story]
    return history


def test_a_redrive_that_takes_over_what_succeeded_breaks_nothing() -> None:
    again = run(11, SUCCEEDED, step=1)
    good = tell_redrive([again], ["SUCCEEDED", "SUCCEEDED"], taken={0: FIRST}, again=frozenset())
    verdict = judge(good)
    assert verdict.is_good, verdict.violations
    assert (verdict.counts["flows_redriven"], verdict.counts["flow_steps_taken_over"]) == (1, 1)


def test_a_success_that_is_repeated_breaks_w10_unless_someone_asked_for_it() -> None:
    runs = [run(11, SUCCEEDED, step=0), run(12, SUCCEEDED, step=1)]
    ends = ["SUCCEEDED", "SUCCEEDED"]
    assert broken(tell_redrive(runs, ends, again=frozenset())) == {"W10"}
    assert broken(tell_redrive(runs, ends, again=frozenset({0}))) == set()
    assert broken(tell_redrive(runs, ends, again=None)) == set(), "nobody knows what was asked for"


def test_a_redrive_that_never_began_breaks_nothing_unless_its_steps_ran() -> None:
    fields: dict[str, object] = {"taken": {0: FIRST}, "again": frozenset[int](), "has_begun": False}
    for runs, found in (([], set()), ([run(11, SUCCEEDED, step=1)], {"W4"})):
        history = tell_redrive(runs, ["SUCCEEDED", "WAITING"], **fields)
        ended = history.flows[1]
        history.flows[1] = replace(ended, run=replace(ended.run, state=CANCELLED))
        assert broken(history) - {"W3"} == found


def test_what_had_not_succeeded_and_is_taken_over_breaks_w10() -> None:
    ends = ["SUCCEEDED", "SUCCEEDED"]
    taken = {0: FIRST, 1: SECOND}
    assert broken(tell_redrive([], ends, taken=taken, again=frozenset())) == {"W10"}


def test_an_item_that_succeeded_and_is_repeated_breaks_w10() -> None:
    def item(number: int, state: RunState, place: int) -> Run:
        return replace(run(number, state, step=1), place=StepPlace(FLOW, 1, place))

    fields = {"maps": {1: (2, None, 0)}, "taken": {0: FIRST}, "again": frozenset[int]()}
    first = tell([FIRST, item(3, SUCCEEDED, 0), item(4, FAILED, 1)], steps=("SUCCEEDED", "FAILED"))
    former = replace(first.flows[0], run=replace(WHOLE, state=FAILED), maps=fields["maps"])  # type: ignore[arg-type]
    for again, taken, found in (
        ([item(12, SUCCEEDED, 1)], frozenset({0}), set[str]()),
        ([item(11, SUCCEEDED, 0), item(12, SUCCEEDED, 1)], frozenset[int](), {"W10"}),
        ([], frozenset({0, 1}), {"W10"}),
    ):
        history = tell_redrive(again, ["SUCCEEDED", "SUCCEEDED"], **fields, taken_items={1: taken})
        history.flows = [former, history.flows[1]]
        assert broken(history) & {"W10", "W8"} == found


@pytest.mark.parametrize(
    ("undone", "ends", "found"),
    [
        ([3, 2], (0, 1), set()),
        ([2, 3], (1, 0), set()),
        ([2, 3], (0, 1), {"W11"}),
        ([3], (0, 1), {"W11"}),
        ([], (0, 1), {"W11"}),
    ],
)
def test_undos_in_another_order_break_w11(undone: list[int], ends: tuple[int, int], found: set[str]) -> None:
    for state, expected in ((FAILED, found), (SUCCEEDED, {"W11"} if undone else set())):
        last = run(4, state, step=4)
        undos = [run(5 + place, SUCCEEDED, step=step) for place, step in enumerate(undone)]
        words = ["SUCCEEDED", "SUCCEEDED", *["SUCCEEDED" if step in undone else "SKIPPED" for step in (2, 3)]]
        history = tell(
            [FIRST, replace(SECOND, state=SUCCEEDED), last, *undos], whole=replace(WHOLE, state=state)
        )
        history.flows = [
            replace(
                history.flows[0],
                links=((), (0,), (), (), (1,)),
                rules=("all_success",) * 5,
                steps=(*words, state.value),
                at_end=frozenset({2, 3}),
                undoes={2: 0, 3: 1},
                ends=(*ends, 4, *undone),
            )
        ]
        assert broken(history) == expected


def test_undos_at_the_same_time_break_w11() -> None:
    last = run(4, FAILED, step=4)
    undos = [run(5, SUCCEEDED, step=3), run(6, SUCCEEDED, step=2)]
    history = tell(
        [FIRST, SECOND, last, *undos],
        whole=replace(WHOLE, state=FAILED),
        order=lambda events: [*events[:7], events[8], events[7], *events[9:]],
    )
    story = replace(history.flows[0], links=((), (0,), (), (), (1,)), rules=("all_success",) * 5)
    words = ("SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED")
    story = replace(story, steps=words, at_end=frozenset({2, 3}), undoes={2: 0, 3: 1}, ends=(0, 1, 4, 3, 2))
    history.flows = [story]
    assert broken(history) == {"W11"}


def test_what_starts_while_it_is_paused_breaks_w9() -> None:
    history = tell((FIRST, run(3, SUCCEEDED, step=1, made_at=20)))
    for since, until, found in ((10, None, {"W9"}), (10, 30, {"W9"}), (10, 20, set()), (30, None, set())):
        pauses = ((at(since), None if until is None else at(until)),)
        history.flows = [replace(history.flows[0], pauses=pauses)]
        assert broken(history) == found
