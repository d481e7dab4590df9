"""All features of workflows together: whatever is told, in whatever order, the laws of flows hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.expressions import ExpressionError
from mainspring.core.ids import RunId
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.answers import Said, StepAnswer, encode_words, pack_event
from mainspring.core.workflows.expressions import Expression, Scope
from mainspring.core.workflows.flow_ends import FlowEnd
from mainspring.core.workflows.mail import FlowNotice, Mail, SkipStep, StepEnded
from mainspring.core.workflows.maps import StepMap, count_startable
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.seeds import (
    FormerFlow,
    find_taken_over,
    items_known,
    items_of_runs,
    make_seed,
)
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.taken import unpack_items
from mainspring.core.workflows.timers import WHOLE, sort_timers
from mainspring.core.workflows.turn import FlowTurn, begin_flow, turn
from mainspring.core.workflows.waits import (
    AnswerKind,
    Approval,
    EventWait,
    MadeValue,
    OnTimeout,
    StepWait,
)
from mainspring.ports.flow_codec import decode_flow_state, encode_flow_state
from mainspring.testing.factories import START
from tests.unit.core.workflows.test_turn import FINALLY, LETTER, is_allowed

S, F, C, K = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED
HOUR = timedelta(hours=1)
_UNRUN = {"skip": StepStatus.SKIPPED, "upstream": StepStatus.UPSTREAM_FAILED}
OPEN = {StepStatus.WAITING, StepStatus.READY, StepStatus.LIVE, StepStatus.SUSPENDED}
UNWELL = {StepStatus.FAILED, StepStatus.CANCELLED}
WAITS = (
    StepWait(sleep=timedelta(0)),
    StepWait(sleep=HOUR),
    StepWait(until=START + 2 * HOUR),
    StepWait(until=MadeValue("until")),
    StepWait(until=MadeValue("error")),
    StepWait(signal="go"),
    StepWait(signal="go", timeout=HOUR),
    StepWait(approval=Approval(), timeout=2 * HOUR, on_timeout=OnTimeout.SKIP),
    StepWait(event=EventWait(topic="t", key=MadeValue("key"))),
    StepWait(event=EventWait(topic="t"), timeout=3 * HOUR),
)
VALUES: dict[str, object] = {
    "true": True,
    "false": False,
    "many": [1, 2, 3, 4],
    "none": [],
    "until": (START + HOUR).isoformat(),
    "key": "k",
}


def evaluate(expression: Expression, scope: Scope) -> object:
    if expression.text == "error":
        raise ExpressionError("told so")
    if expression.text == "item":
        assert scope.item is not None
        if scope.item[0] == 3:
            raise ExpressionError("not that one")
        return scope.item[1]
    return VALUES[expression.text]


@st.composite
def maps(draw: st.DrawFn) -> StepMap:
    items = tuple(b"%d" % item for item in range(6))
    overs: list[tuple[bytes, ...] | str] = [items, items[:3], items[:1], (), "many", "many", "none", "error"]
    over = draw(st.sampled_from(overs))
    return StepMap(
        over=over,
        max_parallel=draw(st.sampled_from([None, 1, 2])),
        tolerate=draw(st.sampled_from([0, 0, 1, 0.5])),
    )


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """Return a workflow with steps of all kinds, in any order."""
    names: list[str] = []
    steps: list[WorkflowStep] = []
    target = Target("function", {"function": "f"})
    payloads = st.sampled_from([None] * 8 + ["key", "error"])
    whens = st.sampled_from([None] * 12 + ["true", "false", "error"])

    def add(name: str, known: Sequence[str], kind: str, **fields: object) -> None:
        after = draw(st.lists(st.sampled_from(known), unique=True, max_size=2)) if known else []
        rule = draw(st.sampled_from(StepRule)) if after else StepRule.ALL_SUCCESS
        made = None if kind == "wait" else draw(payloads)
        made = "item" if made and kind == "map" else made
        step = WorkflowStep(
            name=name,
            target=None if kind == "wait" else target,
            wait=draw(st.sampled_from(WAITS)) if kind == "wait" else None,
            map=draw(maps()) if kind == "map" else None,
            after=tuple(after),
            rule=rule if draw(st.integers(0, 3)) == 3 else StepRule.ALL_SUCCESS,
            when=draw(whens),
            given=None if made is None else b'{"x":{"cel":"%s"}}' % made.encode(),
            **fields,  # type: ignore[arg-type]
        )
        steps.append(step)

    for number in range(draw(st.integers(3, 6))):
        name = f"s{number}"
        kind = draw(st.sampled_from(["plain", "plain", "wait", "map"]))
        add(name, names, kind, allow_failure=draw(st.integers(0, 4)) == 0)
        names.append(name)
        if kind != "map" and draw(st.booleans()):
            add(f"un{name}", [], "plain", undoes=name)
    lasts: list[str] = []
    for number in range(draw(st.integers(0, 2))):
        add(f"end{number}", lasts, draw(st.sampled_from(["plain", "map"])), at_end=True)
        lasts.append(f"end{number}")
    return Workflow(
        tuple(draw(st.permutations(steps))),
        deadline=draw(st.sampled_from([None, 1.5 * HOUR])),
        result=draw(st.sampled_from([None, None, "true", "error"])),
    )


class Player:
    """Plays a flow with its engine, and watches the laws of flows."""

    def __init__(
        self, plan: FlowPlan, most_starts: int, refused: Iterable[int], seed: FlowState | None = None
    ) -> None:
        self.plan, self.most_starts = plan, most_starts
        self.refused = dict.fromkeys(refused, "no such job")
        self.now: datetime = START
        self.live: set[tuple[int, int]] = set()
        self.ran: dict[tuple[int, int], RunState | None] = {}
        self.skipped: set[int] = set()
        self.undone: list[int] = []
        self.end: FlowEnd | None = None
        self.goes_on = False
        taken = () if seed is None else seed.taken
        self.taken = {(one.step, NO_ITEM) for one in taken if one.is_whole}
        self.taken |= {(one.step, item) for one in taken for item in unpack_items(one.items)}
        begun = begin_flow(
            plan, now=START, evaluate=evaluate, most_starts=most_starts, refused=self.refused, seed=seed
        )
        self.state = begun.state
        self._follow(begun, None)

    def turn(self, state: FlowState, mails: Sequence[Mail]) -> FlowTurn:
        kept = decode_flow_state(encode_flow_state(state))
        assert kept == state
        return turn(
            self.plan,
            kept,
            mails,
            now=self.now,
            evaluate=evaluate,
            most_starts=self.most_starts,
            refused=self.refused,
        )

    def deliver(self, *mails: Mail) -> None:
        before = self.state
        decided = self.turn(before, mails)
        assert decided == self.turn(before, mails), "a turn is decided once"
        for mail in mails:
            if isinstance(mail, StepEnded) and (mail.step, mail.item) in self.live:
                self.live.discard((mail.step, mail.item))
                self.ran[mail.step, mail.item] = mail.state
            elif isinstance(mail, SkipStep):
                self.skipped.add(mail.step)
        if self.end is not None:
            assert decided == FlowTurn(before), "nothing follows the end"
            return
        if FlowNotice.CANCEL in mails and before.phase is FlowPhase.OPEN:
            stopped = {step for step, _ in self.live}
            assert set(decided.cancels) == stopped, "a cancel reaches all that is live"
        notices = [mail for mail in mails if isinstance(mail, FlowNotice) and mail is not FlowNotice.GO_ON]
        if notices and decided.end is None:
            assert decided.state.is_paused is (notices[-1] is FlowNotice.PAUSE), "a cancel ends a pause, too"
        self._follow(decided, before)
        if not decided.goes_on:
            assert self.turn(decided.state, mails) == FlowTurn(decided.state), "told twice, it counts once"

    def _follow(self, decided: FlowTurn, before: FlowState | None) -> None:
        self.state = state = decided.state
        assert decode_flow_state(encode_flow_state(state)) == state
        starts = [(step, NO_ITEM) for step in decided.starts]
        starts += [(step, item) for step, items in decided.items for item in items]
        assert len(starts) <= self.most_starts
        for start in starts:
            assert start not in self.ran, "a step has one run"
            assert start not in self.taken, "what was taken over does not run again"
            self._check_start(start[0], before)
        self.ran |= dict.fromkeys(starts)
        self.live |= set(starts)
        assert state.live == len(self.live)
        has_runs = {step for step, _ in self.live}
        mapped = {step for step in self.plan.maps if self.status(step) is StepStatus.LIVE}
        assert has_runs - mapped == self.all_of(StepStatus.LIVE) - mapped
        assert set(decided.cancels) <= has_runs | mapped
        assert not (starts and (state.is_paused or state.phase.is_stopping))
        assert decided.goes_on == (self._has_more() and not state.is_paused), "what is left is told of"
        self._check_rest(decided)
        self.end, self.goes_on = decided.end, decided.goes_on

    def _has_more(self) -> bool:
        """Say whether anything could start at once."""
        if self.all_of(StepStatus.READY):
            return True
        state = self.state
        barred = dict(state.errors).keys()
        return not state.phase.is_stopping and any(
            step not in barred and count_startable(self.plan.maps[step], own) > 0
            for step, own in state.maps
            if self.status(step) is StepStatus.LIVE
        )

    def _check_start(self, step: int, before: FlowState | None) -> None:
        plan = self.plan
        parents = [self.status(parent) for parent in plan.graph.parents[step]]
        ended = "".join(LETTER[one] for one in parents if one in LETTER)
        assert is_allowed(plan.rules[step], ended, len(parents) - len(ended)), "its rule has allowed it"
        if plan.workflow.deadline is not None and self.now >= START + plan.workflow.deadline:
            assert plan.at_end[step], "no work starts after the deadline"
        work = [one for one in range(len(plan.at_end)) if not plan.at_end[one]]
        if plan.at_end[step]:
            assert all(self.status(one) not in OPEN for one in work), "first, all work has ended"
        if step in plan.undoes:
            undone = plan.undoes[step]
            assert self.status(undone) is StepStatus.SUCCEEDED
            assert not self.live, "undos run one by one"
            order = self.state.order_of_ends()
            assert all(order.index(undone) < order.index(other) for other in self.undone), "newest first"
            assert not self._is_well(), "what was done is not undone"
            self.undone.append(undone)
        elif plan.at_end[step]:
            assert all(self.status(undo) not in OPEN for undo in plan.undoes), "then all undos"
        if before is not None and before.phase.is_stopping:
            assert plan.at_end[step], "a flow that stops starts no work"

    def _check_rest(self, decided: FlowTurn) -> None:
        state, plan = self.state, self.plan
        for step, own in plan.maps.items():
            many = sum(one == step for one, _ in self.live)
            assert many <= (own.max_parallel or many)
        suspended = self.all_of(StepStatus.SUSPENDED)
        assert suspended <= plan.waits.keys()
        if state.phase.is_stopping:
            assert not suspended | self.all_of(StepStatus.READY), "it only waits for what is live"
        assert {one.step for one in decided.waits} <= suspended
        timed = {timer.step for timer in state.timers}
        assert timed - {WHOLE} <= suspended
        for step in suspended:
            wait = plan.waits[step]
            if wait.timeout or wait.sleep or wait.until:
                assert step in timed, "it wakes"
        assert state.timers == sort_timers(state.timers)
        order = state.order_of_ends()
        assert len(set(order)) == len(order)
        told = self.all_of(StepStatus.SUCCEEDED) | self.all_of(StepStatus.FAILED)
        assert told <= set(order), "undos need the order of all ends"
        is_over = not (self.live or suspended or state.is_paused or decided.goes_on)
        assert (decided.end is not None) == is_over, "a flow of which nothing is left ends"
        assert (state.phase is FlowPhase.ENDED) == is_over
        for step in range(len(state.steps)):
            explain_step(plan, state, step)
        if decided.end is not None:
            self._check_end(decided.end)

    def _check_end(self, end: FlowEnd) -> None:
        plan, state = self.plan, self.state
        assert (state.timers, state.is_paused, state.live) == ((), False, 0)
        assert not any(self.status(step) in OPEN for step in range(len(state.steps)))
        for step, parents in enumerate(plan.graph.parents):
            said = FINALLY[plan.rules[step]]("".join(LETTER[self.status(parent)] for parent in parents))
            own = self.status(step)
            assert said == "run" or own in {_UNRUN[said], StepStatus.SKIPPED}, "as its rule says"
            assert said != "run" or own is not StepStatus.UPSTREAM_FAILED
            if own is StepStatus.SKIPPED and said == "upstream":
                assert step in self.skipped
            is_whole = own is StepStatus.SUCCEEDED and (step, NO_ITEM) not in self.taken
            if is_whole and step in plan.maps and not dict(state.maps)[step].failed:
                count = dict(state.maps)[step].count
                places = {(step, item) for item in range(count)}
                assert places <= self.ran.keys() | self.taken, "all items have run"
        is_well = self._is_well()
        for undo, step in plan.undoes.items():
            if is_well or self.status(step) is not StepStatus.SUCCEEDED:
                assert self.status(undo) is StepStatus.SKIPPED
            elif undo not in self.skipped and plan.workflow.steps[undo].when != "false":
                is_asked = (undo, NO_ITEM) in self.ran or self.status(undo) is StepStatus.FAILED
                assert is_asked, "what has succeeded is undone"
        if not is_well:
            assert end.state is not S
        lasts = [step for step, is_last in enumerate(plan.at_end) if is_last]
        if is_well and all(self.status(step) not in UNWELL for step in lasts):
            assert end.state is (F if plan.workflow.result == "error" else S)

    def _is_well(self) -> bool:
        cause = self.state.cause
        unwell = {
            step
            for step in self.all_of(StepStatus.FAILED) | self.all_of(StepStatus.CANCELLED)
            if not self.plan.at_end[step]
        }
        if cause is FlowPhase.OVERDUE:
            return False
        failed = {step for step in unwell if not self.plan.may_fail[step]} & set(self.state.order_of_ends())
        is_cut_short = any(self.status(step) is StepStatus.CANCELLED for step in unwell)
        return not failed and not (cause is FlowPhase.CANCELLING and is_cut_short)

    def status(self, step: int) -> StepStatus:
        return self.state.status(step)

    def all_of(self, status: StepStatus) -> set[int]:
        return {step for step, own in enumerate(self.state.steps) if own == status}

    def finish(self) -> None:
        """Resume it, let all succeed, and let time pass, until it ends."""
        for _ in range(100):
            if self.end is not None:
                return
            self.now += HOUR
            mails: list[Mail] = [StepEnded(step, S, item) for step, item in sorted(self.live)]
            mails += [StepAnswer(step, AnswerKind.COMPLETE) for step in self.all_of(StepStatus.SUSPENDED)]
            self.deliver(FlowNotice.RESUME, FlowNotice.GO_ON, *mails)
        raise AssertionError("it does not end")


def play(*steps: WorkflowStep, told: Sequence[Sequence[Mail]], most_starts: int = 3) -> Player:
    player = Player(FlowPlan.of(Workflow(steps)), most_starts, ())
    for mails in told:
        player.deliver(*mails)
    return player


def make(name: str, after: str = "", **fields: object) -> WorkflowStep:
    target = None if "wait" in fields else Target("function", {"function": "f"})
    return WorkflowStep(name=name, target=target, after=tuple(after.split()), **fields)  # type: ignore[arg-type]


def test_an_undo_says_that_its_when_was_false() -> None:
    steps = make("a"), make("una", undoes="a", when="false"), make("b", "a")
    player = play(*steps, told=[[StepEnded(0, S)]])
    assert explain_step(player.plan, player.state, 1) == "undoes a if the workflow does not succeed"
    player.deliver(StepEnded(2, F))
    assert explain_step(player.plan, player.state, 1) == "when is false: false"
    early = play(*steps, told=[[SkipStep(1)]])
    assert explain_step(early.plan, early.state, 1) == "someone skipped it"


def test_a_wait_that_has_begun_was_not_skipped_by_its_when() -> None:
    player = play(make("a", wait=StepWait(signal="go"), when="true"), told=[[SkipStep(0)]])
    assert explain_step(player.plan, player.state, 0) == "someone skipped it"


def test_a_wait_that_was_cancelled_had_begun() -> None:
    player = play(make("a", wait=StepWait(signal="go")), told=[[FlowNotice.CANCEL]])
    assert explain_step(player.plan, player.state, 0) == "the workflow was cancelled while it waited"


def answers(step: int, kind: AnswerKind) -> StepAnswer:
    words = pack_event("t", b"1") if kind is AnswerKind.EVENT else encode_words(Said("me", "so", b"2"))
    return StepAnswer(step, kind, words)


@st.composite
def mails_for(draw: st.DrawFn, player: Player, sent: list[Mail]) -> list[Mail]:
    """Return what a flow is told in one turn."""
    steps = st.integers(0, len(player.state.steps) - 1)
    found: list[Mail] = []
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["end"] * 5 + ["answer"] * 3 + ["skip", "notice", "again"]))
        if what == "end" and player.live:
            step, item = draw(st.sampled_from(sorted(player.live)))
            found.append(StepEnded(step, draw(st.sampled_from([S, S, S, S, S, F, C, K])), item))
        elif what == "answer":
            places = st.sampled_from(sorted(player.plan.waits)) if player.plan.waits else steps
            found.append(answers(draw(places), draw(st.sampled_from(AnswerKind))))
        elif what == "skip":
            found.append(SkipStep(draw(steps)))
        elif what == "notice":
            notices = [*FlowNotice, *[FlowNotice.PAUSE, FlowNotice.RESUME] * 2]
            found.append(draw(st.sampled_from(notices)))
        elif what == "again" and sent:
            found.append(draw(st.sampled_from(sent)))
    return found


@given(workflows(), st.data())
def test_the_laws_of_flows_hold_whatever_they_are_told(workflow: Workflow, data: st.DataObject) -> None:
    player = Player(FlowPlan.of(workflow), data.draw(st.integers(1, 4)), ())
    tell(player, data, at_least=3)
    for number in range(1, 3):  # a redrive, and one of that
        if data.draw(st.booleans()):
            return
        player = redrive(player, RunId(number), data)
        tell(player, data, at_least=0)


def tell(player: Player, data: st.DataObject, *, at_least: int) -> None:
    """Tell a flow all kinds of things, until it has ended."""
    runnable = [step for step in range(len(player.plan.rules)) if step not in player.plan.waits]
    sent: list[Mail] = []
    for _ in range(data.draw(st.integers(at_least, 20))):
        mails = data.draw(mails_for(player, sent))
        if data.draw(st.integers(0, 5)) == 5:
            player.now += HOUR / 2
        if runnable and data.draw(st.integers(0, 9)) == 9:
            player.refused = {data.draw(st.sampled_from(runnable)): "its job has gone"}
        sent += mails
        player.deliver(*mails)
    player.finish()
    player.deliver(*sent, FlowNotice.CANCEL, FlowNotice.PAUSE)


def redrive(player: Player, flow_id: RunId, data: st.DataObject) -> Player:
    """Repeat a flow from where it failed, maybe with another definition."""
    former = FormerFlow(flow_id, player.plan, player.state, data.draw(st.booleans()))
    steps = player.plan.workflow.steps
    if data.draw(st.booleans()):
        changed = data.draw(maps())
        steps = tuple([one if one.map is None else replace(one, map=changed) for one in steps])
    plan = FlowPlan.of(replace(player.plan.workflow, steps=tuple(data.draw(st.permutations(steps)))))
    over = find_taken_over(plan, former)
    succeeded: dict[int, Sequence[int]] = {}
    for step, before in over.partly.items():
        known = items_known(former, before)
        if known is not None:
            succeeded[step] = known
            continue
        items = [item for (one, item), state in sorted(player.ran.items()) if one == before and state is S]
        assert len(items) == items_of_runs(former, before)
        succeeded[step] = items
    seed = make_seed(plan, former, over, succeeded)
    for one in () if seed is None else seed.taken:
        before = player.plan.places[plan.workflow.steps[one.step].name]
        assert before not in player.undone, "what was undone runs again"
    return Player(plan, data.draw(st.integers(1, 4)), (), seed)
