"""Turns: whatever the graph, the outcomes, and the order and batches of mail, a flow ends as an oracle says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.expressions import Evaluate
from mainspring.core.workflows.flow_ends import FlowEnd
from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep, StepEnded
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.timers import FlowTimer, TimerKind
from mainspring.core.workflows.turn import FlowTurn, begin_flow, turn
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from tests.unit.core.workflows.graphs import acyclic_links, layers

SUCCEEDED, FAILED, SKIPPED, CANCELLED = (
    RunState.SUCCEEDED,
    RunState.FAILED,
    RunState.SKIPPED,
    RunState.CANCELLED,
)
Links = Sequence[Sequence[int]]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
DEADLINE = timedelta(hours=4)


def plan_of(
    links: Links,
    rules: Sequence[StepRule] | None = None,
    may_fail: Iterable[int] = (),
    deadline: timedelta | None = None,
) -> FlowPlan:
    """Return the plan of a workflow whose steps are named s0, s1 and so on."""
    return FlowPlan.of(
        Workflow(
            tuple(
                WorkflowStep(
                    name=f"s{place}",
                    target=Target("function", {"function": "f"}),
                    after=tuple(f"s{parent}" for parent in parents),
                    rule=rules[place] if rules else StepRule.ALL_SUCCESS,
                    allow_failure=place in set(may_fail),
                )
                for place, parents in enumerate(links)
            ),
            deadline,
        )
    )


# What each rule says once all parents have ended: written from the words of the rules, apart from the code under test.
# Parents are letters: s succeeded, f failed, k skipped.
def _all_success(parents: str) -> str:
    return "upstream" if "f" in parents else "skip" if "k" in parents else "run"


def _min_one_success(parents: str) -> str:
    return "upstream" if "f" in parents else "run" if "s" in parents else "skip"


def _one_success(parents: str) -> str:
    return "run" if "s" in parents else "upstream" if "f" in parents else "skip"


FINALLY: dict[StepRule, Callable[[str], str]] = {
    StepRule.ALL_SUCCESS: _all_success,
    StepRule.ALL_DONE: lambda parents: "run",
    StepRule.NONE_FAILED: lambda parents: "upstream" if "f" in parents else "run",
    StepRule.NONE_FAILED_MIN_ONE_SUCCESS: _min_one_success,
    StepRule.ONE_SUCCESS: _one_success,
    StepRule.ONE_FAILED: lambda parents: "run" if "f" in parents else "skip",
    StepRule.ALL_FAILED: lambda parents: "run" if set(parents) <= {"f"} else "skip",
    StepRule.NONE_SKIPPED: lambda parents: "skip" if "k" in parents else "run",
}
LETTER = {
    StepStatus.SUCCEEDED: "s",
    StepStatus.FAILED: "f",
    StepStatus.CANCELLED: "f",
    StepStatus.UPSTREAM_FAILED: "f",
    StepStatus.SKIPPED: "k",
}


def evaluate(
    links: Links, rules: Sequence[StepRule], outcomes: Sequence[RunState], started: set[int] | None
) -> list[StepStatus]:
    """Return how all steps end, parents first.

    Args:
        started: the steps that were started before a cancel; None without a cancel.
    """
    ends: dict[int, StepStatus] = {}

    def end_of(step: int) -> StepStatus:
        if step not in ends:
            said = FINALLY[rules[step]]("".join(LETTER[end_of(parent)] for parent in links[step]))
            if said == "run":
                is_run = started is None or step in started
                ends[step] = StepStatus[outcomes[step].name] if is_run else StepStatus.CANCELLED
            else:
                ends[step] = StepStatus.SKIPPED if said == "skip" else StepStatus.UPSTREAM_FAILED
        return ends[step]

    return [end_of(step) for step in range(len(links))]


def is_allowed(rule: StepRule, ended: str, still_open: int) -> bool:
    """Say whether a step may start: its rule says "run" whatever the open parents become; `all_done` has none open."""
    if rule is StepRule.ALL_DONE and still_open:
        return False
    return all(
        FINALLY[rule](ended + "".join(more)) == "run"
        for more in combinations_with_replacement("sfk", still_open)
    )


class Player:
    """Plays a flow with its engine: keeps its state, sends it mail, and watches the laws of workflows."""

    def __init__(self, plan: FlowPlan, most_starts: int, evaluate: Evaluate | None = None) -> None:
        self.plan = plan
        self.evaluate = evaluate
        self.most_starts = most_starts
        self.started: set[int] = set()
        self.live: set[int] = set()
        self.outbox: list[Mail] = []
        self.end: FlowEnd | None = None
        self.is_cancelled = False
        self.is_late = False
        self.is_overdue = False
        self._follow(begin_flow(plan, now=NOW, evaluate=evaluate, most_starts=most_starts))

    def deliver(self, mails: Sequence[Mail]) -> None:
        told = {mail.step for mail in mails if isinstance(mail, StepEnded)}
        before = self.state
        self.is_cancelled |= FlowNotice.CANCEL in mails and self.end is None
        decided = turn(
            self.plan,
            decode_flow_state(encode_flow_state(before)),
            mails,
            now=NOW + DEADLINE if self.is_late else NOW + DEADLINE - timedelta(microseconds=1),
            evaluate=self.evaluate,
            most_starts=self.most_starts,
        )
        news = told & self.live
        self.live -= told
        if self.end is not None:
            assert decided == FlowTurn(before), "W3: nothing follows the end"
            return
        is_woken = self.is_late and bool(before.timers)
        if not (news or is_woken or FlowNotice.CANCEL in mails or StepStatus.READY in before.steps):
            assert decided == FlowTurn(before), "what was told before changes nothing"
        self._follow(decided)

    def _follow(self, decided: FlowTurn) -> None:
        self.state = decided.state
        statuses = [StepStatus(byte) for byte in decided.state.steps]
        assert len(decided.starts) <= self.most_starts
        self.is_overdue |= FlowPhase.OVERDUE in {decided.state.phase, decided.state.cause}
        assert self.is_late or not self.is_overdue, "W7: no early wake"
        if self.is_late:
            assert decided.state.timers == (), "a timer that was due is gone"
            assert decided.state.phase is not FlowPhase.OPEN, "nothing goes on after the deadline"
        for step in decided.starts:
            assert step not in self.started, "W2: a step starts once"
            assert not self.is_cancelled, "W3: nothing starts after a cancel"
            assert not self.is_late, "nothing starts after the deadline"
            parents = [statuses[parent] for parent in self.plan.graph.parents[step]]
            ended = "".join(LETTER[one] for one in parents if one in LETTER)
            rule = self.plan.rules[step]
            assert is_allowed(rule, ended, len(parents) - len(ended)), "W1: the rule allowed it"
        self.started.update(decided.starts)
        self.live.update(decided.starts)
        assert self.live == {step for step, status in enumerate(statuses) if status is StepStatus.LIVE}
        assert decided.state.live == len(self.live)
        assert set(decided.cancels) <= self.live
        if decided.goes_on:
            self.outbox.append(FlowNotice.GO_ON)
        assert decided.goes_on == (StepStatus.READY in statuses)
        self.end = decided.end
        assert (decided.end is not None) == (not self.live and not decided.goes_on), (
            "W3: an end after all steps"
        )
        assert (decided.state.phase is FlowPhase.ENDED) == (decided.end is not None)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Links, list[StepRule], list[RunState], set[int]]:
    """Return a graph, the rules of its steps, how the run of each would end, and which may fail."""
    links = draw(acyclic_links(most_steps=10, most_parents=4))
    # Rules without parents are refused in definitions, and judged all the same.
    rules = [draw(st.sampled_from(StepRule)) for _ in links]
    states = st.sampled_from([SUCCEEDED, SUCCEEDED, SUCCEEDED, FAILED, SKIPPED, CANCELLED])
    outcomes = [draw(states) for _ in links]
    may_fail = {step for step in range(len(links)) if draw(st.integers(0, 3)) == 0}
    return links, rules, outcomes, may_fail


@given(scenes(), st.data())
def test_a_flow_ends_as_the_oracle_says(
    scene: tuple[Links, list[StepRule], list[RunState], set[int]], data: st.DataObject
) -> None:
    links, rules, outcomes, may_fail = scene
    plan = plan_of(links, rules, may_fail, data.draw(st.sampled_from([None, DEADLINE])))
    player = Player(plan, most_starts=data.draw(st.integers(1, 4)))
    sent: list[Mail] = []
    is_cancel_wanted = data.draw(st.booleans())
    for _ in range(200):
        if player.end is not None:
            break
        waiting: list[Mail] = [StepEnded(step, outcomes[step]) for step in sorted(player.live)]
        waiting += player.outbox
        player.outbox = []
        batch = data.draw(st.permutations(waiting))
        kept = data.draw(st.integers(1, len(batch)))
        player.outbox += [mail for mail in batch[kept:] if mail is FlowNotice.GO_ON]
        batch = batch[:kept]
        if data.draw(st.booleans()) and sent:
            batch.insert(data.draw(st.integers(0, len(batch))), data.draw(st.sampled_from(sent)))
        if is_cancel_wanted and data.draw(st.integers(0, 5)) == 0:
            batch.insert(data.draw(st.integers(0, len(batch))), FlowNotice.CANCEL)
        sent += batch
        player.is_late |= plan.workflow.deadline is not None and data.draw(st.integers(0, 5)) == 0
        player.deliver(batch)
    assert player.end is not None, "every flow ends"
    ends = evaluate(
        links, rules, outcomes, player.started if player.is_cancelled or player.is_overdue else None
    )
    assert [StepStatus(byte) for byte in player.state.steps] == ends
    assert player.end.state is expected_end(ends, may_fail, player)
    failed = {f"s{step}" for step in player.started - may_fail if LETTER[ends[step]] == "f"}
    assert player.end.is_overdue == (player.end.state is FAILED and player.is_overdue)
    assert set(player.end.failed) == (failed if player.end.state is FAILED else set())
    assert sorted(player.state.order_of_ends()) == sorted(player.started)
    player.deliver([*sent, FlowNotice.CANCEL, FlowNotice.GO_ON])


def expected_end(ends: list[StepStatus], may_fail: set[int], player: Player) -> RunState:
    own = {StepStatus.FAILED, StepStatus.CANCELLED}
    has_failed = any(
        ends[step] in own and step not in may_fail for step in range(len(ends)) if step in player.started
    )
    if player.is_overdue:
        return FAILED
    if player.is_cancelled and (has_failed or StepStatus.CANCELLED in ends):
        return CANCELLED
    return FAILED if has_failed else SUCCEEDED


def play(plan: FlowPlan, *batches: Sequence[Mail], **options: Any) -> list[FlowTurn]:
    """Return the turns of a flow that gets these mails."""
    turns = [begin_flow(plan, now=NOW, **options)]
    for mails in batches:
        turns.append(turn(plan, turns[-1].state, mails, now=NOW, **options))
    return turns


def test_a_chain_starts_one_step_after_the_other() -> None:
    turns = play(
        plan_of([(), (0,), (1,)]),
        [StepEnded(0, SUCCEEDED)],
        [StepEnded(1, SUCCEEDED)],
        [StepEnded(2, SUCCEEDED)],
    )
    assert [each.starts for each in turns] == [(0,), (1,), (2,), ()]
    assert [each.end for each in turns] == [None, None, None, FlowEnd(SUCCEEDED)]
    assert turns[-1].state == FlowState(FlowPhase.ENDED, bytes([3, 3, 3]), 0, b"\0\0\1\0\2\0")


def test_a_failure_is_told_whatever_the_leaves_say() -> None:
    plan = plan_of([(), (), (0, 1)], [StepRule.ALL_SUCCESS, StepRule.ALL_SUCCESS, StepRule.ALL_DONE])
    turns = play(plan, [StepEnded(1, FAILED)], [StepEnded(0, CANCELLED)], [StepEnded(2, SUCCEEDED)])
    assert turns[2].starts == (2,)
    assert turns[-1].end == FlowEnd(FAILED, ("s1", "s0"))


def test_a_failure_that_is_allowed_leaves_the_workflow_well_and_its_children_out() -> None:
    [_, last] = play(plan_of([(), (0,)], may_fail=[0]), [StepEnded(0, FAILED)])
    assert last.end == FlowEnd(SUCCEEDED)
    assert last.state.status(1) is StepStatus.UPSTREAM_FAILED


def test_a_skipped_run_skips_what_follows() -> None:
    [_, last] = play(plan_of([(), (0,), (1,)]), [StepEnded(0, SKIPPED)])
    assert last.end == FlowEnd(SUCCEEDED)
    assert list(last.state.steps) == [StepStatus.SKIPPED] * 3


def test_starts_are_bounded_and_go_on() -> None:
    turns = play(plan_of([()] * 5), [FlowNotice.GO_ON], [FlowNotice.GO_ON], [FlowNotice.GO_ON], most_starts=2)
    assert [each.starts for each in turns] == [(0, 1), (2, 3), (4,), ()]
    assert [each.goes_on for each in turns] == [True, True, False, False]
    assert turns[3].state is turns[2].state


def test_any_mail_lets_a_flow_go_on() -> None:
    turns = play(plan_of([()] * 3), [StepEnded(0, SUCCEEDED)], [StepEnded(0, SUCCEEDED)], most_starts=1)
    assert [each.starts for each in turns] == [(0,), (1,), (2,)]


def test_a_cancel_stops_what_is_live_and_starts_nothing_more() -> None:
    plan = plan_of([(), (), (), (0,)])
    turns = play(
        plan,
        [StepEnded(0, SUCCEEDED), FlowNotice.CANCEL],
        [FlowNotice.CANCEL, FlowNotice.GO_ON],
        [StepEnded(1, SUCCEEDED)],
        most_starts=2,
    )
    assert turns[1].cancels == (1,)
    assert turns[1].state.phase is FlowPhase.CANCELLING
    assert turns[2] == FlowTurn(turns[1].state)
    assert turns[3].end == FlowEnd(CANCELLED)
    assert [turns[3].state.status(step).name for step in range(4)] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "CANCELLED",
        "CANCELLED",
    ]


@pytest.mark.parametrize("is_cancel_first", [True, False])
def test_a_success_wins_over_a_cancel_that_came_with_it(is_cancel_first: bool) -> None:
    mails: list[Mail] = [StepEnded(0, SUCCEEDED), FlowNotice.CANCEL]
    [_, last] = play(plan_of([()]), mails[::-1] if is_cancel_first else mails)
    assert last.end == FlowEnd(SUCCEEDED)


def test_a_cancel_before_anything_is_live_ends_the_flow() -> None:
    plan = plan_of([(), ()])
    state = FlowState(FlowPhase.OPEN, bytes([StepStatus.READY] * 2), 0, b"")
    assert turn(plan, state, [FlowNotice.CANCEL], now=NOW).end == FlowEnd(CANCELLED)


def test_mail_for_what_is_not_live_changes_nothing() -> None:
    plan = plan_of([(), (0,)])
    begun = begin_flow(plan, now=NOW).state
    odd: list[Mail] = [StepEnded(1, SUCCEEDED), StepEnded(2, FAILED), StepEnded(-1, FAILED), FlowNotice.GO_ON]
    decided = turn(plan, begun, odd, now=NOW)
    assert decided == FlowTurn(begun)
    assert decided.state is begun


def test_the_first_end_of_a_step_counts() -> None:
    [_, once] = play(plan_of([(), (0,)]), [StepEnded(0, SUCCEEDED), StepEnded(0, FAILED)])
    assert once.starts == (1,)
    assert once.state.order_of_ends() == (0,)


def test_the_state_of_another_workflow_is_refused() -> None:
    state = begin_flow(plan_of([()]), now=NOW).state
    with pytest.raises(ValueError, match="the flow has 1 steps, and the workflow 2"):
        turn(plan_of([(), ()]), state, [], now=NOW)


@pytest.mark.parametrize(
    "links",
    [
        layers(width=25, depth=40, fan=25),
        [(), *[(step,) for step in range(98)], tuple(range(99))],
    ],
    ids=["layers", "a chain, and a step after all of it"],
)
def test_each_step_is_judged_once_when_a_skip_runs_through_a_large_graph(
    links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its parents, their ends all count."""
    plan = plan_of(links)
    begun = begin_flow(plan, now=NOW)
    judged: list[Parents] = []

    def watch(rule: StepRule, parents: Parents) -> StepVerdict:
        judged.append(parents)
        return judge(rule, parents)

    monkeypatch.setattr("mainspring.core.workflows.judging.judge", watch)
    decided = turn(plan, begun.state, [StepEnded(step, SKIPPED) for step in begun.starts], now=NOW)
    assert decided.end == FlowEnd(SUCCEEDED)
    assert judged == [Parents(0, 0, len(parents), 0) for parents in links if len(parents) > 1]


def test_a_turn_that_may_start_nothing_does_not_end_the_flow() -> None:
    assert play(plan_of([()]), [FlowNotice.GO_ON], most_starts=0)[-1].end is None


# -- deadlines ---------------------------------------------------------------------------------------------------------


def wake(plan: FlowPlan, state: FlowState, *mails: Mail, late: timedelta = timedelta(0)) -> FlowTurn:
    """Return the turn of a flow at its deadline, or so late."""
    return turn(plan, state, mails, now=NOW + DEADLINE + late)


def test_a_deadline_cancels_what_is_live_and_starts_nothing_more() -> None:
    plan = plan_of(
        [(), (), (0, 1)], [StepRule.ALL_SUCCESS, StepRule.ALL_SUCCESS, StepRule.ALL_DONE], (), DEADLINE
    )
    [_, begun] = play(plan, [StepEnded(0, SUCCEEDED)])
    assert begun.state.timers == (FlowTimer(NOW + DEADLINE, TimerKind.DEADLINE),)
    early = turn(plan, begun.state, [], now=NOW + DEADLINE - timedelta(microseconds=1))
    assert early == FlowTurn(begun.state)
    woken = wake(plan, begun.state)
    assert (woken.starts, woken.cancels, woken.end) == ((), (1,), None)
    assert (woken.state.phase, woken.state.timers) == (FlowPhase.OVERDUE, ())
    done = wake(plan, woken.state, StepEnded(1, CANCELLED))
    assert done.end == FlowEnd(FAILED, ("s1",), is_overdue=True)
    assert [done.state.status(step) for step in range(3)] == [
        StepStatus.SUCCEEDED,
        StepStatus.CANCELLED,
        StepStatus.CANCELLED,
    ]


def test_a_deadline_fails_a_workflow_whatever_its_leaves_say() -> None:
    plan = plan_of([()], may_fail=[0], deadline=DEADLINE)
    [begun] = play(plan)
    late = wake(plan, begun.state)
    assert wake(plan, late.state, StepEnded(0, SUCCEEDED)).end == FlowEnd(FAILED, (), is_overdue=True)


def test_a_workflow_whose_last_step_has_ended_has_kept_its_deadline() -> None:
    plan = plan_of([()], deadline=DEADLINE)
    [begun] = play(plan)
    done = wake(plan, begun.state, StepEnded(0, SUCCEEDED), late=timedelta(hours=1))
    assert done.end == FlowEnd(SUCCEEDED)
    assert done.state.timers == ()


def test_a_cancel_that_comes_before_the_deadline_wins() -> None:
    plan = plan_of([(), (0,)], deadline=DEADLINE)
    [begun] = play(plan)
    both = wake(plan, begun.state, FlowNotice.CANCEL)
    assert both.state.phase is FlowPhase.CANCELLING
    assert wake(plan, both.state, StepEnded(0, CANCELLED)).end == FlowEnd(CANCELLED)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_a_paused_flow_starts_nothing_until_it_is_resumed() -> None:
    plan = plan_of([(), (0,), (1,)])
    turns = play(
        plan,
        [FlowNotice.PAUSE],
        [StepEnded(0, SUCCEEDED)],
        [FlowNotice.GO_ON],
        [FlowNotice.RESUME],
    )
    assert [each.starts for each in turns] == [(0,), (), (), (), (1,)]
    assert not any(each.goes_on or each.end for each in turns)
    assert turns[2].state.status(1) is StepStatus.READY
    assert turns[3] == FlowTurn(turns[2].state)
    assert not turns[4].state.is_paused


def test_a_paused_flow_ends_if_nothing_is_left_and_at_a_cancel_or_its_deadline() -> None:
    plan = plan_of([(), (0,)], deadline=DEADLINE)
    paused, waiting = play(plan, [FlowNotice.PAUSE], [StepEnded(0, SUCCEEDED)])[1:]
    assert turn(plan, waiting.state, [FlowNotice.CANCEL], now=NOW).end == FlowEnd(CANCELLED)
    assert wake(plan, waiting.state).end == FlowEnd(FAILED, (), is_overdue=True)
    done = turn(plan, paused.state, [StepEnded(0, FAILED)], now=NOW)
    assert done.end == FlowEnd(FAILED, ("s0",))
    assert not done.state.is_paused


def test_a_step_without_a_run_is_skipped_and_one_with_a_run_is_not() -> None:
    plan = plan_of([(), (0,), (1,)], [StepRule.ALL_SUCCESS, StepRule.ALL_SUCCESS, StepRule.ALL_DONE])
    [begun] = play(plan)
    decided = turn(plan, begun.state, [SkipStep(0), SkipStep(1), SkipStep(7)], now=NOW)
    assert decided.starts == (2,), "the step after it goes by its rule"
    assert [decided.state.status(step) for step in (0, 1)] == [StepStatus.LIVE, StepStatus.SKIPPED]
    assert turn(plan, decided.state, [SkipStep(1)], now=NOW) == FlowTurn(decided.state)
    assert explain_step(plan, decided.state, 1) == "someone skipped it"


@given(scenes(), st.data())
def test_whatever_is_paused_and_skipped_a_flow_that_is_resumed_ends(
    scene: tuple[Links, list[StepRule], list[RunState], set[int]], data: st.DataObject
) -> None:
    links, rules, outcomes, may_fail = scene
    plan = plan_of(links, rules, may_fail)
    done, mails = begin_flow(plan, now=NOW, most_starts=2), list[Mail]()
    for _ in range(200):
        if done.end is not None:
            break
        assert not (done.state.is_paused and done.starts), "W9: paused starts nothing"
        mails += [FlowNotice.GO_ON] if done.goes_on else []
        live = [step for step, status in enumerate(done.state.steps) if status == StepStatus.LIVE]
        if live:
            step = data.draw(st.sampled_from(live))
            mails.append(StepEnded(step, outcomes[step]))
        odd: list[Mail | None] = [FlowNotice.PAUSE, SkipStep(data.draw(st.integers(0, len(links)))), None]
        mails += [one for one in [data.draw(st.sampled_from(odd))] if one is not None]
        mails += [] if live or mails else [FlowNotice.RESUME]
        mails += [FlowNotice.RESUME] if not live else []
        done = turn(plan, decode_flow_state(encode_flow_state(done.state)), mails, now=NOW, most_starts=2)
        mails = []
    assert done.end is not None
    for step, status in enumerate(done.state.steps):
        parents = "".join(LETTER[StepStatus(done.state.steps[parent])] for parent in links[step])
        said = FINALLY[rules[step]](parents)
        if status != StepStatus.SKIPPED and step not in done.state.order_of_ends():
            assert said == "upstream", "only who skips it keeps a step from running"


# -- steps at the end --------------------------------------------------------------------------------------------------


def plan_with_end(deadline: timedelta | None = None) -> FlowPlan:
    """Return the plan of two steps in a row, and two others in a row at the end, which come first in the file."""
    target = Target("function", {"function": "f"})
    return FlowPlan.of(
        Workflow(
            (
                WorkflowStep(name="clean", target=target, at_end=True),
                WorkflowStep(
                    name="tell", target=target, at_end=True, after=("clean",), rule=StepRule.ALL_DONE
                ),
                WorkflowStep(name="one", target=target),
                WorkflowStep(name="two", target=target, after=("one",)),
            ),
            deadline,
        )
    )


def test_steps_at_the_end_run_once_all_others_have_ended() -> None:
    plan = plan_with_end()
    assert plan.graph.order == (2, 3, 0, 1)
    turns = play(
        plan,
        [StepEnded(2, SUCCEEDED)],
        [StepEnded(3, SUCCEEDED)],
        [FlowNotice.CANCEL, StepEnded(0, SUCCEEDED)],
        [StepEnded(1, SUCCEEDED)],
    )
    assert [each.starts for each in turns] == [(2,), (3,), (0,), (1,), ()]
    assert explain_step(plan, turns[0].state, 0) == "runs once all other steps have ended"
    assert turns[2].state.phase is FlowPhase.FINISHING
    assert turns[3].cancels == (), "who cancels it now comes too late"
    assert turns[4].end == FlowEnd(SUCCEEDED)


def test_steps_at_the_end_run_after_a_failure_a_cancel_and_the_deadline() -> None:
    plan = plan_with_end(DEADLINE)
    [begun] = play(plan)
    failed = turn(plan, begun.state, [StepEnded(2, FAILED)], now=NOW)
    cancelled = turn(plan, begun.state, [FlowNotice.CANCEL, StepEnded(2, CANCELLED)], now=NOW)
    late = wake(plan, wake(plan, begun.state).state, StepEnded(2, CANCELLED))
    for stopped, end in [
        (failed, FlowEnd(FAILED, ("one",))),
        (cancelled, FlowEnd(CANCELLED)),
        (late, FlowEnd(FAILED, ("one",), is_overdue=True)),
    ]:
        assert (stopped.starts, stopped.end, stopped.state.timers) == ((0,), None, ())
        again = wake(plan, stopped.state, StepEnded(0, SUCCEEDED), late=timedelta(days=1))
        assert (again.starts, again.cancels) == ((1,), ())
        assert wake(plan, again.state, StepEnded(1, SUCCEEDED)).end == end


def test_what_follows_a_skipped_step_at_the_end_waits_for_the_end_too() -> None:
    plan = plan_with_end()
    turns = play(plan, [SkipStep(0)], [StepEnded(2, SUCCEEDED)], [StepEnded(3, SUCCEEDED)])
    assert [each.starts for each in turns] == [(2,), (), (3,), (1,)]


def test_a_failed_step_at_the_end_fails_the_workflow() -> None:
    plan = plan_with_end()
    turns = play(plan, *[[StepEnded(step, FAILED if step == 0 else SUCCEEDED)] for step in (2, 3, 0, 1)])
    assert turns[-1].end == FlowEnd(FAILED, ("clean",))


def test_a_paused_flow_does_not_start_its_steps_at_the_end() -> None:
    plan = plan_with_end()
    turns = play(plan, [FlowNotice.PAUSE, StepEnded(2, FAILED)], [FlowNotice.RESUME])
    assert [each.starts for each in turns] == [(2,), (), (0,)]
