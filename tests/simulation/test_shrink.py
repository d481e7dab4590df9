"""A failing plan is cut down to what its failure needs, and is told so that a person can read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.judge import Verdict, Violation
from tools.simulator.draw import make_plan
from tools.simulator.plan import Plan
from tools.simulator.run import Result
from tools.simulator.shrink import describe, shrink


def run(plan: Plan) -> Result:
    """Fail where a pause and the third job are in the plan."""
    is_bad = any(fault.kind == "pause" for fault in plan.faults) and any(
        job.name == "job-2" for job in plan.jobs
    )
    violations = (Violation("S1", "job-2", ("it was missed",)),) if is_bad else ()
    return Result(
        plan=plan, verdict=Verdict(violations, {}), reached={}, log=(), seconds=1.0, steps=1, errors=()
    )


def make_bad_plan() -> Plan:
    plan = make_plan(1069)
    assert run(plan).verdict.violations, "the seed has a pause and three jobs"
    return plan


def test_only_what_the_failure_needs_is_left() -> None:
    result = shrink(make_bad_plan(), run=run)
    plan = result.plan
    assert [job.name for job in plan.jobs] == ["job-2"]
    assert [fault.kind for fault in plan.faults] == ["pause"]
    assert plan.actions == ()
    assert (plan.servers, len(plan.workers), plan.failure_rate, plan.drift) == (1, 1, 0.0, 0.0)


def test_another_failure_is_not_taken_for_the_same() -> None:
    bad = make_bad_plan()

    def changes_its_mind(plan: Plan) -> Result:
        result = run(plan)
        if plan == bad:
            return result
        return replace(result, verdict=Verdict((Violation("S2", "x", ()),), {}))

    assert shrink(bad, run=changes_its_mind).plan == bad


def test_plan_that_breaks_nothing_is_refused() -> None:
    plan = replace(make_plan(1), faults=())
    with pytest.raises(ValueError, match="no rule"):
        shrink(plan, run=run)


def test_plan_is_told_in_lines() -> None:
    plan = make_plan(1069)
    lines = describe(plan)
    assert lines[0].startswith("seed 1069: ")
    assert len(lines) == 3 + len(plan.jobs) + len(plan.actions) + len(plan.faults)
