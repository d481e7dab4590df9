"""Undos: what had succeeded is undone, the newest success first, if the workflow does not succeed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition.workflows import plain_from_workflow, read_workflow, workflow_from_plain
from mainspring.core.ids import RunId
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep, StepEnded
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.seeds import FormerFlow, find_taken_over
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.turn import FlowTurn, begin_flow, turn
from mainspring.errors import InvalidFields
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.testing.factories import START

S, F, C = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


def step(name: str, after: str = "", **fields: object) -> WorkflowStep:
    target = Target("function", {"function": "f"})
    return WorkflowStep(name=name, target=target, after=tuple(after.split()), **fields)  # type: ignore[arg-type]


def undo(name: str, **fields: object) -> WorkflowStep:
    return step(f"un{name}", "", undoes=name, **fields)


def plan_of(*steps: WorkflowStep, deadline: timedelta | None = None) -> FlowPlan:
    return FlowPlan.of(Workflow(steps, deadline))


class Player:
    """Takes turns of a flow, step by step."""

    def __init__(self, plan: FlowPlan) -> None:
        self.plan = plan
        self.names = [one.name for one in plan.workflow.steps]
        self.order: list[str] = []
        self.last = begin_flow(plan, now=START)
        self._note(self.last)

    def _note(self, decided: FlowTurn) -> None:
        assert decode_flow_state(encode_flow_state(decided.state)) == decided.state
        self.order += [self.names[place] for place in decided.starts]

    @property
    def live(self) -> list[str]:
        steps = enumerate(self.last.state.steps)
        return [self.names[place] for place, status in steps if status == StepStatus.LIVE]

    def tell(self, *mails: Mail, late: bool = False) -> None:
        now = START + timedelta(days=late)
        self.last = turn(self.plan, decode_flow_state(encode_flow_state(self.last.state)), mails, now=now)
        self._note(self.last)

    def end(self, name: str, state: RunState = S) -> None:
        self.tell(StepEnded(self.names.index(name), state))

    def finish(self) -> RunState:
        while self.last.end is None:
            self.end(self.live[0])
        return self.last.end.state

    def status(self, name: str) -> StepStatus:
        return self.last.state.status(self.names.index(name))

    def why(self, name: str) -> str | None:
        return explain_step(self.plan, self.last.state, self.names.index(name))


SAGA = (
    step("a"),
    undo("a"),
    step("b", "a"),
    undo("b"),
    step("c", "a"),
    undo("c"),
    step("d", "b c"),
    undo("d"),
    step("tell", at_end=True),
)


def test_the_newest_success_is_undone_first_one_after_the_other() -> None:
    player = Player(plan_of(*SAGA))
    assert player.why("una") == "undoes a if the workflow does not succeed"
    for name in ("a", "c", "b"):
        player.end(name)
    assert player.live == ["d"]
    player.end("d", F)
    assert (player.live, player.last.state.phase) == (["unb"], FlowPhase.UNDOING)
    assert player.why("unc") == "waits until what ended after its step is undone"
    assert player.why("und") == "d failed"
    assert player.finish() is F
    assert player.order == ["a", "b", "c", "d", "unb", "unc", "una", "tell"]
    assert player.last.end is not None
    assert player.last.end.failed == ("d",)
    assert player.status("und") is StepStatus.SKIPPED


def test_a_success_undoes_nothing() -> None:
    player = Player(plan_of(*SAGA))
    assert player.finish() is S
    assert player.order == ["a", "b", "c", "d", "tell"]
    assert player.why("una") == "nothing had to be undone"
    allowed = Player(plan_of(step("a"), undo("a"), step("b", "a", allow_failure=True)))
    allowed.end("a")
    allowed.end("b", F)
    assert allowed.last.end is not None
    assert allowed.last.end.state is S


def test_an_undo_that_fails_keeps_none_of_the_others_from_running() -> None:
    player = Player(plan_of(*SAGA))
    for name in ("a", "b", "c"):
        player.end(name)
    player.end("d", F)
    player.end("unc", F)
    assert player.live == ["unb"]
    assert player.finish() is F
    assert player.last.end is not None
    assert player.last.end.failed == ("d", "unc")


def test_a_cancel_and_a_deadline_undo_what_was_done() -> None:
    cancelled = Player(plan_of(*SAGA))
    cancelled.end("a")
    cancelled.tell(FlowNotice.CANCEL)
    cancelled.end("b", C)
    cancelled.end("c")  # it was faster than the cancel
    assert cancelled.live == ["unc"]
    cancelled.tell(FlowNotice.CANCEL)
    assert cancelled.last.cancels == (), "who cancels it now comes too late"
    assert cancelled.finish() is C
    assert cancelled.order == ["a", "b", "c", "unc", "una", "tell"]
    late = Player(plan_of(*SAGA, deadline=timedelta(hours=1)))
    late.end("a")
    late.tell(late=True)
    for name in ("b", "c"):
        late.end(name, C)
    assert (late.live, late.last.state.timers) == (["una"], ())
    assert late.finish() is F
    assert late.last.end is not None
    assert late.last.end.is_overdue


def test_a_step_at_the_end_that_fails_undoes_nothing() -> None:
    player = Player(plan_of(step("a"), undo("a"), step("tell", at_end=True)))
    player.end("a")
    player.end("tell", F)
    assert player.last.end is not None
    assert (player.last.end.state, player.order) == (F, ["a", "tell"])
    assert player.why("una") == "nothing had to be undone"


def test_a_paused_flow_undoes_nothing_until_it_is_resumed() -> None:
    player = Player(plan_of(*SAGA))
    player.end("a")
    player.tell(FlowNotice.PAUSE)
    player.end("b", F)
    player.end("c", F)
    assert player.live == []
    player.tell(FlowNotice.RESUME)
    assert player.live == ["una"]
    assert player.finish() is F


def test_an_undo_that_is_skipped_does_not_run() -> None:
    player = Player(plan_of(*SAGA))
    player.end("a")
    player.tell(SkipStep(player.names.index("una")))
    player.end("b", F)
    player.end("c")
    player.end("unc")
    assert player.order == ["a", "b", "c", "unc", "tell"]
    assert player.why("una") == "someone skipped it"
    assert player.finish() is F


def test_what_was_undone_is_not_taken_over() -> None:
    plan = plan_of(step("a"), step("b", "a"), undo("b"), step("c", "b"), step("d", "a"))
    player = Player(plan)
    for name, state in (("a", S), ("b", S), ("d", S), ("c", F)):
        player.end(name, state)
    assert player.finish() is F
    over = find_taken_over(plan, FormerFlow(RunId(1), plan, player.last.state))
    assert set(over.whole) == {0, 4}


def test_what_an_undo_has_skipped_by_its_own_run_is_not_taken_over() -> None:
    plan = plan_of(step("a"), undo("a"), step("b", "a"))
    player = Player(plan)
    player.end("a")
    player.end("b", F)
    player.end("una", RunState.SKIPPED)
    assert player.last.end is not None
    assert not find_taken_over(plan, FormerFlow(RunId(1), plan, player.last.state)).whole


@given(st.data())
def test_undos_are_the_ends_backwards_whatever_fails(data: st.DataObject) -> None:
    steps: list[WorkflowStep] = []
    for number in range(data.draw(st.integers(1, 6), "steps")):
        names = [one.name for one in steps if one.undoes is None]
        after = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2) if names else st.just([]))
        steps.append(step(f"s{number}", " ".join(after)))
        if data.draw(st.booleans(), "undo"):
            steps.append(undo(f"s{number}"))
    player = Player(plan_of(*data.draw(st.permutations(steps), "order")))
    ends: dict[str, RunState] = {}
    while player.last.end is None:
        name = data.draw(st.sampled_from(player.live), "ends")
        ends[name] = data.draw(st.sampled_from([S, S, F]), "as")
        player.end(name, ends[name])
    work = [name for name in ends if not name.startswith("un")]
    is_well = all(ends[name] is S for name in work)
    undone = [name for name in ends if name.startswith("un")]
    has_undo = {one.undoes for one in steps}
    expected = [f"un{name}" for name in reversed(work) if ends[name] is S and name in has_undo]
    assert undone == ([] if is_well else expected)
    assert player.last.end.state is (S if is_well else F)
    assert player.last.state.phase is FlowPhase.ENDED


def body(*steps: dict[str, object]) -> dict[str, object]:
    return {"steps": [{"function": "f", **one} for one in steps]}


def test_an_undo_is_read_and_kept() -> None:
    given = {"value": {"cel": "steps.a.result"}, "other": {"cel": "steps.b.status"}}
    end = {"name": "end", "at_end": True, "when": "steps.una.status == 'failed'"}
    read = read_workflow(
        body({"name": "a"}, {"name": "una", "undoes": "a", "with": given}, {"name": "b"}, end)
    )
    assert [one.undoes for one in read.steps] == [None, "a", None, None]
    assert read.steps[1].after == ()
    assert workflow_from_plain(plain_from_workflow(read)) == read
    plan = FlowPlan.of(read)
    assert (plan.undoes, plan.undo_of, plan.at_end) == ({1: 0}, {0: 1}, (False, True, False, True))


@pytest.mark.parametrize(
    ("steps", "field", "words"),
    [
        ([{"name": "u", "undoes": "aa"}], "steps[1].undoes", "there is no step 'aa'"),
        ([{"name": "u", "undoes": "u"}], "steps[1].undoes", "undoes another step itself"),
        (
            [{"name": "u", "undoes": "a"}, {"name": "v", "undoes": "a"}],
            "steps[2].undoes",
            "is undone by steps[1]",
        ),
        ([{"name": "e", "at_end": True}, {"name": "u", "undoes": "e"}], "steps[2].undoes", "runs at the end"),
        (
            [{"name": "m", "map": {"over": [1]}}, {"name": "u", "undoes": "m"}],
            "steps[2].undoes",
            "runs for many items",
        ),
        ([{"name": "u", "undoes": "a", "after": ["a"]}], "steps[1].after", "does not go with 'undoes'"),
        ([{"name": "u", "undoes": "a", "at_end": True}], "steps[1].at_end", "does not go with 'undoes'"),
        ([{"name": "u", "undoes": "a", "rule": "all_done"}], "steps[1].rule", "does not go with 'undoes'"),
        (
            [{"name": "u", "undoes": "a"}, {"name": "b", "after": ["u"]}],
            "steps[2].after[0]",
            "runs only to undo",
        ),
        ([{"name": "u", "undo": "a"}], "steps[1].undo", "undoes"),
        ([{"name": "u", "undoes": 7}], "steps[1].undoes", "must be"),
        (
            [{"name": "u", "undoes": "a"}, {"name": "b", "when": "steps.u.status == 'x'"}],
            "steps[2].when",
            "wait for",
        ),
    ],
)
def test_a_wrong_undo_is_refused(steps: list[dict[str, object]], field: str, words: str) -> None:
    with pytest.raises(InvalidFields) as caught:
        read_workflow(body({"name": "a"}, *steps))
    told = {error.field.removeprefix("workflow."): error.message for error in caught.value.errors}
    assert words in told.get(field, ""), told


def test_nothing_is_lost_of_a_state_that_undoes() -> None:
    state = FlowState(FlowPhase.UNDOING, bytes([3, 2]), 1, b"\0\0", cause=FlowPhase.OVERDUE)
    assert decode_flow_state(encode_flow_state(state)) == state
