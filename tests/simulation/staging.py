"""Plans in which the loss of a guard shows that seldom shows among the faults of the drawn ones.

What a rule allows grows with the faults of a history, so that a guard which only shifts whose turn it is needs a quiet
one, or one with just the fault that it is there for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from tools.simulator.accessed import make_accessed
from tools.simulator.flowed import make_flowed
from tools.simulator.kept import draw_kept
from tools.simulator.plan import Action, FaultPlan, Plan

Staging = Callable[[Plan], Plan | None]
"""Returns what to simulate instead of a drawn plan; None leaves the seed out."""
_STARTED = 3.0
"""Seconds after the start: by then, servers with a slow store have started."""
_LATER = 25.0
"""Seconds after the loss of the workers: by then, their sessions are declared dead, and their runs have run again."""


def without_faults(plan: Plan) -> Plan | None:
    """Leave out the faults of a plan in which tenants have weights."""
    if not any(action.kind == "weigh" for action in plan.actions):
        return None
    return replace(plan, faults=(), failure_rate=0.0)


def with_lost_workers(plan: Plan) -> Plan | None:
    """Lose all workers while a tenant with a reserve runs; later, it and another one have work again."""
    floods = [action for action in plan.actions if action.kind == "flood" and action.job == "promised"]
    if not floods:
        return None
    lost_at = floods[0].at + 0.5
    again = (
        Action(at=lost_at + _LATER, kind="flood", job="rushing", body={"count": 400}),
        Action(at=lost_at + _LATER + 1, kind="flood", job="promised", body={"count": 40, "customers": 2}),
    )
    actions = sorted((*plan.actions, *again), key=lambda action: action.at)
    faults = tuple(
        FaultPlan(at=lost_at, seconds=2.0, kind="kill", target=f"worker-{number}")
        for number in range(len(plan.workers))
    )
    return replace(plan, faults=faults, failure_rate=0.0, actions=tuple(actions))


def with_stopped_watchdogs(plan: Plan) -> Plan | None:
    """Have jobs fail and recover, and stop one server after the other for longer than its lease, as it judges that."""
    if not plan.judges_alerts or plan.servers < 2:
        return None
    jobs = tuple(
        replace(job, fail=0.5, body={**job.body, "every": "3s"}) for job in plan.jobs if "notify" in job.body
    )
    names = {job.name for job in jobs}
    actions = tuple(
        replace(one, at=one.at + _STARTED)
        for one in plan.actions
        if one.kind == "channel" or (one.kind == "create" and one.job in names)
    )
    stops = tuple(
        FaultPlan(at=10.0 + 9.0 * number, seconds=8.5, kind="pause", target=f"server-{number % plan.servers}")
        for number in range(11)
    )
    return replace(plan, jobs=jobs, actions=actions, faults=stops, failure_rate=0.0, latency=0.05)


def with_late_verdicts(plan: Plan) -> Plan | None:
    """Have jobs fail and recover, and carry out a part of what all servers ask for long after they gave it up."""
    if not plan.judges_alerts:
        return None
    jobs = tuple(
        replace(job, fail=0.5, body={**job.body, "every": "3s"}) for job in plan.jobs if "notify" in job.body
    )
    names = {job.name for job in jobs}
    actions = tuple(
        replace(one, at=one.at + _STARTED)
        for one in plan.actions
        if one.kind == "channel" or (one.kind == "create" and one.job in names)
    )
    faults = tuple(
        FaultPlan(at=12.0, seconds=90.0, kind="late", target=f"server-{number}")
        for number in range(plan.servers)
    )
    return replace(plan, jobs=jobs, actions=actions, faults=faults, failure_rate=0.0)


def with_tenants_and_tokens(plan: Plan) -> Plan | None:
    """Draw a plan, in place of the one that was drawn, with tenants and tokens, in which nothing goes wrong."""
    accessed = make_accessed(plan.seed, plan.seconds)
    return replace(accessed, faults=(), failure_rate=0.0)


def with_workflows(plan: Plan) -> Plan | None:
    """Draw a plan of workflows, in place of the one that was drawn, with servers that are late with what they ask."""
    flowed = make_flowed(plan.seed, plan.seconds)
    faults = tuple(
        FaultPlan(at=12.0, seconds=90.0, kind="late", target=f"server-{number}")
        for number in range(flowed.servers)
    )
    return replace(flowed, faults=faults, failure_rate=0.0)


def with_durable_functions(plan: Plan) -> Plan | None:
    """Have durable functions alone, whose workers die, with processes that are late with what they ask."""
    names = [f"server-{number}" for number in range(plan.servers)]
    names += [f"worker-{number}" for number in range(len(plan.workers))]
    jobs, actions, _ = draw_kept(Random(f"staged kept:{plan.seed}"), names, plan.seconds)
    late = tuple(FaultPlan(at=12.0, seconds=90.0, kind="late", target=name) for name in names)
    kills = tuple(
        FaultPlan(at=15.0 + 3 * number, seconds=1.0, kind="kill", target=name)
        for number, name in enumerate(name for _ in range(8) for name in names if name.startswith("worker"))
        if number < 25
    )
    return replace(
        plan,
        jobs=jobs,
        actions=tuple(sorted(actions, key=lambda action: action.at)),
        faults=(*late, *kills),
        failure_rate=0.0,
        judges_alerts=False,
        tenants=(),
        checks_tokens=False,
    )


STAGINGS: Mapping[str, Staging] = {
    "without_faults": without_faults,
    "with_lost_workers": with_lost_workers,
    "with_stopped_watchdogs": with_stopped_watchdogs,
    "with_late_verdicts": with_late_verdicts,
    "with_tenants_and_tokens": with_tenants_and_tokens,
    "with_workflows": with_workflows,
    "with_durable_functions": with_durable_functions,
}
"""By the names that guards use."""
