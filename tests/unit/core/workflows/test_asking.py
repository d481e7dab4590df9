"""Expressions in turns: whatever they say, a flow ends as an oracle says, and what a step needs is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.expressions import ExpressionError
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.expressions import Expression, GivenPayload, Scope, follow
from mainspring.core.workflows.flow_ends import FlowEnd
from mainspring.core.workflows.mail import Mail, StepEnded
from mainspring.core.workflows.maps import MapState, StepMap
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.places import NO_ITEM
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.turn import begin_flow, turn
from tests.unit.core.workflows.test_turn import FINALLY, LETTER, NOW, Links, Player, scenes

SUCCEEDED, FAILED = RunState.SUCCEEDED, RunState.FAILED
VERDICTS = ("plain", "true", "false", "wrong", "error", "given", "bad")


def make(name: str, after: Sequence[str] = (), **fields: object) -> WorkflowStep:
    return WorkflowStep(
        name=name,
        target=Target("function", {"function": "f"}),
        after=tuple(after),
        **fields,  # type: ignore[arg-type]
    )


def evaluate(expression: Expression, scope: Scope) -> object:
    if expression.text in {"item", "index"}:
        assert scope.item is not None
        return scope.item[expression.text == "item"]
    if expression.text == "error":
        raise ExpressionError("told so")
    return {"true": True, "false": False}.get(expression.text, expression.text)


def plan_of(links: Links, rules: Sequence[StepRule], verdicts: Sequence[str], may_fail: set[int]) -> FlowPlan:
    steps = []
    for place, parents in enumerate(links):
        verdict = verdicts[place]
        more: dict[str, object] = {"when": verdict} if verdict in {"true", "false", "wrong", "error"} else {}
        if verdict in {"given", "bad"}:
            more["given"] = b'{"x":{"cel":"%s"},"y":1}' % (b"error" if verdict == "bad" else b"value")
        more |= {"rule": rules[place], "allow_failure": place in may_fail}
        steps.append(make(f"s{place}", [f"s{parent}" for parent in parents], **more))
    return FlowPlan.of(Workflow(tuple(steps)))


@given(scenes(), st.data())
def test_a_flow_ends_as_the_oracle_says(
    scene: tuple[Links, list[StepRule], list[RunState], set[int]], data: st.DataObject
) -> None:
    links, rules, outcomes, may_fail = scene
    verdicts = [data.draw(st.sampled_from(VERDICTS)) for _ in links]
    plan = plan_of(links, rules, verdicts, may_fail)
    player = Player(plan, data.draw(st.integers(1, 4)), evaluate)
    for _ in range(200):
        if player.end is not None:
            break
        waiting: list[Mail] = [StepEnded(step, outcomes[step]) for step in sorted(player.live)]
        batch = data.draw(st.permutations([*waiting, *player.outbox]))
        player.outbox = []
        player.deliver(batch)
    ends: dict[int, StepStatus] = {}

    def end_of(step: int) -> StepStatus:
        if step not in ends:
            said = FINALLY[rules[step]]("".join(LETTER[end_of(parent)] for parent in links[step]))
            own = {"false": StepStatus.SKIPPED, "wrong": StepStatus.FAILED, "error": StepStatus.FAILED}
            own["bad"] = StepStatus.FAILED
            status = own.get(verdicts[step], StepStatus[outcomes[step].name])
            words = {"skip": StepStatus.SKIPPED, "upstream": StepStatus.UPSTREAM_FAILED}
            ends[step] = status if said == "run" else words[said]
        return ends[step]

    expected = [end_of(step) for step in range(len(links))]
    assert [StepStatus(byte) for byte in player.state.steps] == expected
    for step, verdict in enumerate(verdicts):
        if verdict in {"false", "wrong", "error", "bad"}:
            assert step not in player.started
        why = explain_step(plan, player.state, step)
        assert step in player.started or why is not None
    unwell = {StepStatus.FAILED, StepStatus.CANCELLED}
    failed = {f"s{step}" for step, end in enumerate(expected) if end in unwell and step not in may_fail}
    assert player.end == FlowEnd(FAILED, player.end.failed) if failed else FlowEnd(SUCCEEDED)  # type: ignore[union-attr]
    assert player.end is not None
    assert set(player.end.failed) == failed


def test_what_starting_steps_get_is_made_and_what_cannot_be_made_fails_them() -> None:
    plan = plan_of([(), (), (1,)], [StepRule.ALL_SUCCESS] * 3, ["given", "bad", "plain"], {1})
    begun = begin_flow(plan, now=NOW, evaluate=evaluate)
    assert (begun.starts, begun.payloads) == ((0,), (((0, NO_ITEM), b'{"x":"value","y":1}'),))
    assert begun.state == FlowState(
        FlowPhase.OPEN, bytes([2, 4, 7]), 1, b"\1\0", errors=((1, "with: told so"),)
    )


def test_a_step_that_waits_for_its_turn_gets_what_there_is_when_it_starts() -> None:
    plan = plan_of([()] * 3, [StepRule.ALL_SUCCESS] * 3, ["given"] * 3, set())
    begun = begin_flow(plan, now=NOW, evaluate=evaluate, most_starts=2)
    assert [step for (step, _), _ in begun.payloads] == [0, 1]
    assert begun.goes_on
    further = turn(plan, begun.state, [], now=NOW, evaluate=evaluate)
    assert [step for (step, _), _ in further.payloads] == [2]


def test_nothing_is_decided_without_what_evaluates() -> None:
    with pytest.raises(ValueError, match="nothing evaluates them"):
        begin_flow(plan_of([()], [StepRule.ALL_SUCCESS], ["true"], set()), now=NOW)


def test_nothing_is_asked_once_the_flow_is_cancelled() -> None:
    def refuse(*_: object) -> object:
        raise AssertionError("it is asked")

    from mainspring.core.workflows.mail import FlowNotice

    plan = plan_of([(), (0,)], [StepRule.ALL_SUCCESS] * 2, ["plain", "error"], set())
    begun = begin_flow(plan, now=NOW, evaluate=refuse)
    cancelled = turn(
        plan, begun.state, [FlowNotice.CANCEL, StepEnded(0, SUCCEEDED)], now=NOW, evaluate=refuse
    )
    assert list(cancelled.state.steps) == [StepStatus.SUCCEEDED, StepStatus.CANCELLED]


@pytest.mark.parametrize(
    ("makes", "end"),
    [
        (lambda: {"n": 1}, FlowEnd(SUCCEEDED, result=b'{"n":1}')),
        (lambda: None, FlowEnd(SUCCEEDED, result=b"null")),
        (
            lambda: "x" * 65535,
            FlowEnd(FAILED, error="result: makes 65537 bytes; at most 65536 fit, pass an artifact instead"),
        ),
        (
            lambda: float("nan"),
            FlowEnd(
                FAILED,
                error="result: makes what is no JSON: Out of range float values are not JSON compliant",
            ),
        ),
    ],
)
def test_a_workflow_returns_what_its_result_makes(makes: Callable[[], object], end: FlowEnd) -> None:
    def answer(*_: object) -> object:
        return makes()

    plan = FlowPlan.of(Workflow((make("one"),), result="steps.one.result"))
    begun = begin_flow(plan, now=NOW, evaluate=answer)
    assert turn(plan, begun.state, [StepEnded(0, SUCCEEDED)], now=NOW, evaluate=answer).end == end
    assert turn(plan, begun.state, [StepEnded(0, FAILED)], now=NOW, evaluate=answer).end == FlowEnd(
        FAILED, ("one",)
    )


def test_values_are_kept_while_somebody_may_ask_for_them() -> None:
    steps = (
        make("a"),
        make("b", ["a"], when="steps.a.result"),
        make("c", ["b"], given=b'{"x":{"cel":"steps.a.error"}}'),
        make("d", ["c"], when="steps.c.status == 'succeeded'"),
    )
    plan = FlowPlan.of(Workflow(steps, result="steps.d.result"))
    assert set(plan.users) == {0, 3}
    assert plan.keeps(0, bytes([3, 0, 0, 0]))
    assert plan.keeps(0, bytes([3, 3, 1, 0]))
    assert not plan.keeps(0, bytes([3, 3, 2, 0]))
    assert plan.keeps(3, bytes([3, 3, 3, 3]))
    assert not plan.keeps(2, bytes([3, 3, 3, 0])), "its status is in the state"


@pytest.mark.parametrize(
    ("text", "path", "steps"),
    [
        ("steps.a.result", ("steps.a.result", ()), ("a",)),
        (" steps.a . result.x.y ", ("steps.a.result", ("x", "y")), ("a",)),
        ("input", ("input", ()), ()),
        ("run.id", ("run", ("id",)), ()),
        ("input + 1", None, ()),
        ("steps.a", None, ()),
        ("size(input)", None, ()),
        ("input.size()", None, ()),
        ("steps.a.result[0]", None, ("a",)),
        ("true", None, ()),
        ("", None, ()),
    ],
)
def test_what_is_only_a_name_passes_as_it_is(
    text: str, path: tuple[str, tuple[str, ...]] | None, steps: tuple[str, ...]
) -> None:
    assert (Expression(text).path, Expression(text).steps) == (path, steps)


def test_fields_that_are_not_there_are_errors() -> None:
    assert follow({"a": {"b": 2**70}}, ("a", "b")) == 2**70
    with pytest.raises(ExpressionError, match="there is no 'x' in the object"):
        follow({"a": 1}, ("x",))
    with pytest.raises(ExpressionError, match="there is no 'x' in what is no object"):
        follow([1], ("x",))


def test_given_values_are_told_from_expressions() -> None:
    text = b'{"a":{"cel":"input"},"b":{"cel":1},"c":{"cel":"x","d":1},"e":[{"cel":"input"}]}'
    made = GivenPayload.of(text)
    assert [one.text for one in made.expressions] == ["input"]
    assert made.make(lambda _: 7) == {
        "a": 7,
        "b": {"cel": 1},
        "c": {"cel": "x", "d": 1},
        "e": [{"cel": "input"}],
    }
    assert GivenPayload.of(b'{"cel":"input"}').make(lambda _: 7) == 7
    assert GivenPayload.of(b'{"cel":{"cel":"input"}}').make(lambda _: 7) == {"cel": 7}


def map_of(over: str | tuple[bytes, ...], given: str | None = None, **fields: object) -> FlowPlan:
    own = StepMap(over=over, **fields)  # type: ignore[arg-type]
    more: dict[str, Any] = {} if given is None else {"given": given.encode()}
    return FlowPlan.of(Workflow((make("each", map=own, **more),)))


def answer(made: object) -> Callable[[Expression, Scope], object]:
    """Return what makes this of the expression `list`, and evaluates the others."""
    return lambda expression, scope: made if expression.text == "list" else evaluate(expression, scope)


def test_the_items_of_a_map_are_made_and_each_turn_makes_those_that_it_starts() -> None:
    plan, makes = map_of("list", max_parallel=2), answer(["a", {"b": 1}, None])
    begun = begin_flow(plan, now=NOW, evaluate=makes)
    assert begun.state.maps == ((0, MapState(3, started=2)),)
    assert begun.payloads == (((0, 0), b'"a"'), ((0, 1), b'{"b":1}'))
    further = turn(plan, begun.state, [StepEnded(0, SUCCEEDED, 1)], now=NOW, evaluate=makes)
    assert (further.items, further.payloads) == (((0, range(2, 3)),), (((0, 2), b"null"),))


def test_an_empty_list_succeeds_at_once() -> None:
    begun = begin_flow(map_of("list"), now=NOW, evaluate=answer([]))
    assert begun.end == FlowEnd(SUCCEEDED)


@pytest.mark.parametrize("over", ["list", (b'"a"', b'"b"')])
def test_what_an_item_gets_is_made_of_it_and_its_place(over: str | tuple[bytes, ...]) -> None:
    plan = map_of(over, '{"file":{"cel":"item"},"at":{"cel":"index"},"plain":1}')
    begun = begin_flow(plan, now=NOW, evaluate=answer(["a", "b"]))
    assert begun.payloads == (
        ((0, 0), b'{"file":"a","at":0,"plain":1}'),
        ((0, 1), b'{"file":"b","at":1,"plain":1}'),
    )


@pytest.mark.parametrize(
    ("made", "error"),
    [
        ({"a": 1}, "map.over: makes an object, and not a list"),
        ([1] * 10_001, "map.over: makes 10001 items; at most 10000 fit"),
        (["x" * 65535], "map.over: item 0: makes 65537 bytes; at most 65536 fit, pass an artifact instead"),
    ],
)
def test_a_map_fails_whose_items_cannot_be_made(made: object, error: str) -> None:
    begun = begin_flow(map_of("list"), now=NOW, evaluate=answer(made))
    assert begun.state.errors == ((0, error),)
    assert (begun.items, begun.end) == ((), FlowEnd(FAILED, ("each",)))


def test_an_item_whose_payload_cannot_be_made_ends_the_map_once_the_others_have_ended() -> None:
    plan = map_of("list", '{"x":{"cel":"item"}}', max_parallel=1)

    def makes(expression: Expression, scope: Scope) -> object:
        if scope.item is not None and scope.item[0] == 1:
            raise ExpressionError("told so")
        return answer(["a", "b", "c"])(expression, scope)

    begun = begin_flow(plan, now=NOW, evaluate=makes)
    assert begun.items == ((0, range(1)),)
    ended = turn(plan, begun.state, [StepEnded(0, SUCCEEDED, 0)], now=NOW, evaluate=makes)
    assert ended.items == ()
    assert ended.state.errors == ((0, "with: item 1: told so"),)
    assert ended.end == FlowEnd(FAILED, ("each",))
