"""Cuts a failing plan down to what the failure needs: fewer faults, actions, jobs and processes, and less time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tools.simulator.plan import Plan
from tools.simulator.run import Result, simulate

T = TypeVar("T")


def shrink(plan: Plan, *, tries: int = 400, run: Callable[[Plan], Result] = simulate) -> Result:
    """Return the result of the smallest plan found that still breaks one of the rules that `plan` breaks.

    Raises:
        ValueError: the plan breaks no rule.
    """
    best = run(plan)
    if best.is_good:
        raise ValueError("a plan that breaks no rule cannot be cut down")
    rules = _broken(best)
    left = tries
    is_smaller = True
    while is_smaller and left > 0:
        is_smaller = False
        for smaller in _smaller(best.plan):
            left -= 1
            if left <= 0:
                break
            result = run(smaller)
            if _broken(result) & rules:
                best, is_smaller = result, True
                break
    return best


def _broken(result: Result) -> set[str]:
    return {found.rule for found in result.verdict.violations} | ({"uncaught"} if result.errors else set())


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are a step smaller, the boldest steps first."""
    for faults in _without(plan.faults):
        yield replace(plan, faults=tuple(faults))
    for jobs in _without(plan.jobs):
        if jobs:
            names = {job.name for job in jobs}
            theirs = tuple(action for action in plan.actions if action.job in names)
            yield replace(plan, jobs=tuple(jobs), actions=theirs)
    for actions in _without(plan.actions):
        yield replace(plan, actions=tuple(actions))
    if plan.failure_rate:
        yield replace(plan, failure_rate=0.0)
    if plan.drift:
        yield replace(plan, drift=0.0)
    if len(plan.workers) > 1:
        yield replace(plan, workers=plan.workers[:-1])
    if plan.servers > 1:
        yield replace(plan, servers=plan.servers - 1)
    last = max([*(action.at for action in plan.actions), *(fault.at for fault in plan.faults)], default=0.0)
    if plan.seconds > last + 10:
        yield replace(plan, seconds=last + 5)


def _without(items: Sequence[T]) -> Iterator[list[T]]:
    """Yield the items without a half of them, without a quarter, and so on down to single ones."""
    size = len(items)
    while size:
        size = size // 2 if size > 1 else 0
        step = max(size, 1)
        for start in range(0, len(items), step):
            yield [*items[:start], *items[start + step :]]


def describe(plan: Plan) -> list[str]:
    """Return a plan in lines that a person can read."""
    kinds = ", ".join("near" if is_near else "far" for is_near in plan.workers)
    lines = [
        f"seed {plan.seed}: {plan.servers} servers, workers {kinds}, {plan.slots} slots each, {plan.seconds:g} s",
        f"beat {plan.beat_period:g} s, latency {plan.latency:g} s",
        f"failures {plan.failure_rate:g}, drift {plan.drift:g}",
    ]
    lines += [f"job {_fields(job)}" for job in plan.jobs]
    lines += [f"client {_fields(action)}" for action in plan.actions]
    lines += [f"fault {_fields(fault)}" for fault in plan.faults]
    return lines


def _fields(item: Any) -> str:
    values = {name: getattr(item, name) for name in item.__slots__}
    return " ".join(
        f"{name}={value!r}" for name, value in values.items() if value not in ("", {}, 0.0, False)
    )
