"""Draws plans of workflows: random graphs, steps that fail, cancels, and servers that die between any two calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from mainspring.core.definition.workflows import plain_from_workflow
from mainspring.core.fields import encode_payload
from mainspring.core.model import JobSpec, Target
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.workflows.maps import StepMap
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.waits import EventWait, StepWait
from tools.simulator.plan import FLOW_VERBS, Action, FaultPlan, JobPlan, Plan

_SHARE = 0.05
_EARLY = frozenset({StepRule.ONE_SUCCESS.value, StepRule.ONE_FAILED.value})
"""Rules that may let a step run before all its parents have ended."""
_FAULTS = ("kill", "kill", "stop", "pause", "cut", "lossy", "late", "slow", "outage")


def draw_flowed(seed: int, seconds: float) -> Plan | None:
    """Draw such a plan for one of 20 seeds; for others, return None."""
    if seconds < 60 or Random(f"flowed:{seed}").random() >= _SHARE:
        return None
    return make_flowed(seed, seconds)


def make_flowed(seed: int, seconds: float) -> Plan:
    """Draw such a plan."""
    random = Random(f"made flowed:{seed}")
    servers = random.choice([1, 2, 3])
    workers = tuple(random.random() < 0.3 for _ in range(random.choice([2, 3])))
    jobs = tuple(_make_job(random, seed, place) for place in range(random.choice([1, 2, 4])))
    actions: list[Action] = []
    for job in jobs:
        actions.append(Action(at=round(random.uniform(1, 4), 3), kind="create_flow", job=job.name))
        for _ in range(random.choice([2, 5, 15])):
            at = round(random.uniform(5, seconds * 0.9), 3)
            actions.append(Action(at=at, kind="submit_flow", job=job.name))
            if random.random() < 0.3:
                late = round(at + random.uniform(0, 4), 3)
                actions.append(Action(at=late, kind="cancel_flow", job=job.name))
            if random.random() < 0.3:
                late = round(at + random.uniform(0, 2), 3)
                actions.append(Action(at=late, kind="pause_flow", job=job.name))
                until = round(late + random.uniform(0.5, 8), 3)
                actions.append(Action(at=until, kind="resume_flows", job=job.name))
            if random.random() < 0.2:
                late = round(at + random.uniform(0, 4), 3)
                actions.append(Action(at=late, kind="skip_step", job=job.name))
            for wait, kind in (("signal", "signal_flow"), ("event", "send_event")):
                if any(wait in step.get("wait", {}) for step in job.body["steps"]):
                    for _ in range(random.choice([0, 1, 3])):
                        late = round(at + random.uniform(0, 4), 3)
                        actions.append(Action(at=late, kind=kind, job=job.name))
    actions += _redrive(seed, jobs, seconds)
    names = [f"server-{index}" for index in range(servers)]
    return Plan(
        seed=seed,
        servers=servers,
        workers=workers,
        slots=random.choice([2, 10]),
        seconds=seconds,
        beat_period=random.choice([1.0, 2.0]),
        latency=random.choice([0.0005, 0.002, 0.02]),
        failure_rate=random.choice([0.0, 0.0, 0.01]),
        drift=random.choice([0.0, 1e-2]),
        jobs=jobs,
        actions=tuple(sorted(actions, key=lambda action: action.at)),
        faults=_make_faults(random, names, workers, seconds),
    )


def _redrive(seed: int, jobs: Sequence[JobPlan], seconds: float) -> list[Action]:
    """Draw when runs of workflows are run again. A random source of its own leaves other draws alone."""
    random = Random(f"redriven flows:{seed}")
    return [
        Action(at=round(random.uniform(8, seconds * 0.95), 3), kind="redrive_flow", job=job.name)
        for job in jobs
        for _ in range(random.choice([0, 2, 6]))
    ]


def _undo(seed: int, place: int, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Draw steps that undo others. A random source of its own leaves other draws alone."""
    random = Random(f"undone flows:{seed}:{place}")
    share = random.choice([0.0, 0.0, 0.5, 1.0])
    return [
        {
            "name": f"u{number}",
            "after": [],
            "rule": StepRule.ALL_SUCCESS.value,
            "allow_failure": False,
            "max_retries": random.choice([0, 1]),
            "at_end": False,
            "undoes": one["name"],
        }
        for number, one in enumerate(steps)
        if not one["at_end"] and "items" not in one and random.random() < share
    ]


def _make_job(random: Random, seed: int, place: int) -> JobPlan:
    steps: list[dict[str, Any]] = []
    for number in range(random.choice([1, 3, 6, 12])):
        after = random.sample([one["name"] for one in steps], k=random.randint(0, min(number, 4)))
        rules = [rule.value for rule in StepRule if after or not rule.needs_parents]
        rule = random.choice([*rules, *[StepRule.ALL_SUCCESS.value] * 6])
        step = {
            "name": f"s{number}",
            "after": after,
            "rule": rule,
            "allow_failure": random.random() < 0.2,
            "max_retries": random.choice([0, 0, 1]),
            "at_end": False,
        }
        wait = random.choice([*[None] * 6, "sleep", "signal", "event"])
        if wait is not None:
            step["wait"] = {wait: random.choice([0.05, 0.5, 3.0])}
        elif random.random() < 0.25:
            step["items"] = random.choice([1, 4, 12])
            step["max_parallel"] = random.choice([1, 2, 5])
            step["tolerate"] = random.choice([0, 1, 0.5])
        mute = {one["name"] for one in steps if "items" in one or "wait" in one}
        asked = [name for name in after if name not in mute]
        if asked and rule not in _EARLY and "items" in step:
            step["over"] = random.choice([None, *asked])
        elif asked and rule not in _EARLY and "wait" not in step:  # whoever is asked has ended by then
            step["when"] = random.choice([None, None, *asked])
            step["given"] = random.choice([None, *asked])
        steps.append(step)
    for number in range(random.choice([0, 0, 1, 2])):
        before = [one["name"] for one in steps if one["at_end"]]
        steps.append(
            {
                "name": f"e{number}",
                "after": before if random.random() < 0.5 else [],
                "rule": StepRule.ALL_DONE.value,
                "allow_failure": random.random() < 0.5,
                "max_retries": random.choice([0, 1]),
                "at_end": True,
            }
        )
    steps += _undo(seed, place, steps)
    return JobPlan(
        name=f"flow-{place}",
        body={"steps": steps, "deadline": random.choice([None, None, 2.0, 8.0])},
        seconds=(0.0, random.choice([0.05, 0.5, 3.0])),
        fail=random.choice([0.0, 0.1, 0.4]),
        crash=random.choice([0.0, 0.0, 0.03]),
    )


def spec_of_flow(plan: JobPlan) -> JobSpec:
    """Return the definition of a drawn workflow."""
    steps = tuple(_make_step(one) for one in plan.body["steps"])
    seconds = plan.body["deadline"]
    deadline = None if seconds is None else timedelta(seconds=seconds)
    target = Target("workflow", plain_from_workflow(Workflow(steps, deadline)))
    return JobSpec(name=plan.name, target=target, retry=RetryPolicy(max_retries=0))


def _make_step(drawn: Mapping[str, Any]) -> WorkflowStep:
    if "wait" in drawn:
        return _make_wait(drawn)
    delay = timedelta(milliseconds=500)
    return WorkflowStep(
        name=drawn["name"],
        target=Target("function", {"function": "work"}),
        after=tuple(drawn["after"]),
        rule=StepRule(drawn["rule"]),
        allow_failure=drawn["allow_failure"],
        map=_make_map(drawn) if "items" in drawn else None,
        at_end=drawn["at_end"],
        undoes=drawn.get("undoes"),
        retry=RetryPolicy(max_retries=drawn["max_retries"], backoff=Backoff.FIXED, delay=delay),
        when=None if drawn.get("when") is None else _condition(drawn["when"]),
        given=None if drawn.get("given") is None else _given(drawn["given"]),
    )


def _make_wait(drawn: Mapping[str, Any]) -> WorkflowStep:
    [(kind, seconds)] = drawn["wait"].items()
    lasts = timedelta(seconds=seconds)
    name = drawn["name"]
    waits = {
        "sleep": StepWait(sleep=lasts),
        "signal": StepWait(signal=name, timeout=lasts),
        "event": StepWait(event=EventWait(topic=name), timeout=lasts),
    }
    return WorkflowStep(
        name=name,
        wait=waits[kind],
        after=tuple(drawn["after"]),
        rule=StepRule(drawn["rule"]),
        allow_failure=drawn["allow_failure"],
    )


def _make_map(drawn: Mapping[str, Any]) -> StepMap:
    over: tuple[bytes, ...] | str = (b"{}",) * drawn["items"]
    if drawn.get("over") is not None:
        items = ", ".join(["{}"] * drawn["items"])
        over = f"steps.{drawn['over']}.result == 'none' ? [] : [{items}]"  # which waits for the result
    return StepMap(over=over, max_parallel=drawn["max_parallel"], tolerate=drawn["tolerate"])


def count_items(own: StepMap) -> int:
    """Return for how many items a drawn step runs."""
    return own.over.count("{}") if isinstance(own.over, str) else len(own.over)


def _condition(step: str) -> str:
    return f"steps.{step}.status != 'succeeded' || steps.{step}.result % 2 == 1"


def _given(step: str) -> bytes:
    return encode_payload({"value": {"cel": f"steps.{step}.result"}})


def asked_by(steps: Sequence[WorkflowStep]) -> tuple[dict[int, int], dict[int, int]]:
    """Return which steps the conditions of drawn steps ask, and whose results are given to them, by place."""
    places = {step.name: place for place, step in enumerate(steps)}
    whens = {
        place: places[other.name]
        for place, step in enumerate(steps)
        for other in steps
        if step.when == _condition(other.name)
    }
    givens = {
        place: places[other.name]
        for place, step in enumerate(steps)
        for other in steps
        if step.given == _given(other.name)
    }
    return whens, givens


def _make_faults(
    random: Random, servers: list[str], workers: tuple[bool, ...], seconds: float
) -> tuple[FaultPlan, ...]:
    everybody = [*servers, *(f"worker-{index}" for index in range(len(workers)))]
    faults = []
    for _ in range(random.choice([0, 3, 8])):
        kind = random.choice(_FAULTS)
        faults.append(
            FaultPlan(
                at=round(random.uniform(4, seconds * 0.9), 3),
                seconds=round(random.choice([0.2, 1.0, 3.0, 8.0]), 3),
                kind=kind,
                target="" if kind == "outage" else random.choice(everybody),
            )
        )
    for _ in range(random.choice([0, 2, 6])):
        faults.append(  # noqa: PERF401 - as above
            FaultPlan(
                at=round(random.uniform(4, seconds * 0.9), 3),
                seconds=random.choice([0.2, 1.0, 8.0]),
                kind="crash_at",
                target=random.choice(servers),
                verb=random.choice(FLOW_VERBS),
                is_after=random.random() < 0.5,
            )
        )
    return tuple(sorted(faults, key=lambda fault: fault.at))
