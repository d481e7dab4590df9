"""Each step that has no run says why, by the ends of its parents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice, StepEnded
from mainspring.core.workflows.reasons import explain_step
from mainspring.core.workflows.reports import report_step
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.core.workflows.turn import begin_flow, turn
from tests.unit.core.test_why import RUN
from tests.unit.core.workflows.graphs import acyclic_links
from tests.unit.core.workflows.test_turn import plan_of

S, F, K, U, C, W, L = (
    StepStatus.SUCCEEDED,
    StepStatus.FAILED,
    StepStatus.SKIPPED,
    StepStatus.UPSTREAM_FAILED,
    StepStatus.CANCELLED,
    StepStatus.WAITING,
    StepStatus.LIVE,
)


@pytest.mark.parametrize(
    ("rule", "parents", "own", "reason"),
    [
        ("all_success", [L, S, W], W, "waits for s0, s2"),
        ("all_success", [S, F, U], U, "s1 failed, s2 did not run"),
        ("all_success", [S, K, K], K, "s1 was skipped, s2 was skipped"),
        ("none_failed", [C, S, S], U, "s0 was cancelled"),
        ("none_failed_min_one_success", [K, K, K], K, "all parents were skipped"),
        ("one_success", [F, K, F], U, "s0 failed, s2 failed"),
        ("one_success", [K, K, K], K, "all parents were skipped"),
        ("one_failed", [S, K, S], K, "no parent failed"),
        ("all_failed", [F, S, K], K, "s1 succeeded, s2 was skipped"),
        ("none_skipped", [S, F, K], K, "s2 was skipped"),
        ("all_done", [S, F, K], C, "the workflow was cancelled before it started"),
        ("all_done", [S, F, K], StepStatus.READY, "starts next"),
    ],
)
def test_reason_names_the_parents(rule: str, parents: list[StepStatus], own: StepStatus, reason: str) -> None:
    plan = plan_of([(), (), (), (0, 1, 2)], [StepRule.ALL_SUCCESS] * 3 + [StepRule(rule)])
    assert explain_step(plan, bytes([*parents, own]), 3) == reason


def test_many_parents_are_counted() -> None:
    plan = plan_of([()] * 8 + [tuple(range(8))])
    assert explain_step(plan, bytes([W] * 9), 8) == "waits for s0, s1, s2, s3, s4 and 3 more"
    assert explain_step(plan, bytes([K] * 9), 8) == (
        "s0 was skipped, s1 was skipped, s2 was skipped, s3 was skipped, s4 was skipped and 3 more"
    )


@given(acyclic_links(), st.data())
def test_every_step_without_a_run_has_a_reason_that_names_somebody(
    links: list[tuple[int, ...]], data: st.DataObject
) -> None:
    rules = [
        data.draw(st.sampled_from([rule for rule in StepRule if parents or not rule.needs_parents]))
        for parents in links
    ]
    plan = plan_of(links, rules)
    done = begin_flow(plan)
    started = set(done.starts)
    while done.end is None:
        live = [step for step, status in enumerate(done.state.steps) if status == StepStatus.LIVE]
        end = data.draw(st.sampled_from(list(RunState)[-4:]))
        mails = [StepEnded(data.draw(st.sampled_from(live)), end)]
        is_cancelled = data.draw(st.integers(0, 9)) == 0
        done = turn(plan, done.state, [*mails, FlowNotice.CANCEL] if is_cancelled else mails)
        started |= set(done.starts)
        for step in set(range(len(links))) - started:
            reason = explain_step(plan, done.state.steps, step)
            assert reason
            assert not reason.endswith("for ")


def test_steps_of_a_run_that_has_not_begun_wait_or_ended_with_it() -> None:
    plan = plan_of([(), (0,)])
    waiting = RUN
    assert report_step(plan, waiting, None, {}, 1).reason == "the workflow has not begun"
    skipped = report_step(plan, replace(RUN, state=RunState.SKIPPED), None, {}, 1)
    assert (skipped.status, skipped.reason) == (K, "the workflow ended before it began")


def test_step_with_a_run_has_its_reason() -> None:
    plan = plan_of([()])
    own = replace(replace(RUN, state=RunState.FAILED), reason="deadline")
    report = report_step(
        plan,
        replace(RUN, state=RunState.RUNNING),
        FlowState(FlowPhase.ENDED, bytes([F]), 0, b""),
        {0: own},
        0,
    )
    assert (report.status, report.run, report.reason) == (F, own, "deadline")
