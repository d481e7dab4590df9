"""Long work that gives up its slots, and urgent work, or work with reserved slots, that takes them."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import PREEMPTION_VERBS, Action, FaultPlan, JobPlan

URGENT = "urgent"
VALUED = "valued"
"""The tenant with a reserve."""


def make_preempting(
    seed: int, servers: int, slots: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what they submit, and crashes while slots are sought.

    A random source of its own leaves other draws as they are.

    Args:
        slots: of all workers together.
    """
    random = Random(f"preempting:{seed}")
    if random.random() < 0.6:
        return (), (), ()
    fillers = [_draw_filler(random, place) for place in range(random.choice([1, 2, 3]))]
    tier: dict[str, Any] = random.choice(
        [{"priority": "HIGH"}, {"priority": "HIGH"}, {"priority": "MEDIUM", "preempts": True}]
    )
    urgent = JobPlan(
        name="urgent",
        body={"queue": URGENT, "timeout": "20s", "retry": {"max_retries": 1}, **tier},
        seconds=(0.0, random.choice([0.1, 1.0])),
        fail=random.choice([0.0, 0.2]),
    )
    waits = {"queue": URGENT, "preempt_after": random.choice(["1s", "1s", "3s"])}
    actions = [Action(at=0.4, kind="urge", job=urgent.name, body=waits)]
    actions += [
        Action(at=round(random.uniform(2, 5), 3), kind="create", job=job.name) for job in (*fillers, urgent)
    ]
    valued = _draw_valued(seed, actions, slots)
    floods = sorted(round(random.uniform(7, seconds * 0.7), 3) for _ in range(random.choice([1, 2, 3])))
    for instant in floods:
        count = {"count": round(slots * random.choice([1, 1.5]))}
        actions.append(Action(at=instant, kind="flood", job=random.choice(fillers).name, body=count))
        for _ in range(random.choice([1, 3, 6])):
            later = round(instant + random.uniform(0.2, 6), 3)
            some = {"count": random.choice([1, 1, 3])}
            actions.append(Action(at=later, kind="flood", job=urgent.name, body=some))
        for job in valued:
            at = round(instant + 0.5, 3)
            actions.append(Action(at=at, kind="flood", job=job.name, body={"count": max(slots, 2)}))
        if random.random() < 0.4:
            later = round(instant + random.uniform(2, 8), 3)
            actions.append(Action(at=later, kind="cancel", job=random.choice(fillers).name))
    crashes = tuple(
        FaultPlan(
            at=round(random.choice(floods), 3),
            seconds=random.choice([0.2, 3.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=verb,
            is_after=random.random() < 0.5,
        )
        for verb in PREEMPTION_VERBS
        if random.random() < 0.4
    )
    return (*fillers, urgent, *valued), tuple(actions), crashes


def _draw_valued(seed: int, actions: list[Action], slots: int) -> tuple[JobPlan, ...]:
    """Draw work of a tenant with reserved slots, and what sets it up. Other draws stay as they are."""
    random = Random(f"valued:{seed}")
    if random.random() < 0.5:
        return ()
    job = JobPlan(
        name=VALUED,
        body={"queue": URGENT, "timeout": "20s", "priority": "MEDIUM"},
        seconds=(0.5, random.choice([2.0, 6.0])),
        tenant=VALUED,
    )
    reserve = {"reserved": max(1, min(random.choice([3, slots // 2]), slots - 1))}
    actions.append(Action(at=0.45, kind="reserve", job=job.name, body=reserve))
    actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=job.name))
    return (job,)


def _draw_filler(random: Random, place: int) -> JobPlan:
    body: dict[str, Any] = {
        "queue": "filler",
        "priority": random.choice(["LOW", "LOW", "MEDIUM"]),
        "preemptible": True,
        "timeout": "60s",
        "retry": {"max_retries": random.choice([0, 2]), "backoff": "fixed", "delay": "500ms"},
    }
    if random.random() < 0.25:
        body |= {"preemptible": False, "delivery": random.choice(["at_most_once", "at_least_once"])}
    return JobPlan(
        name=f"filler-{place}",
        body=body,
        seconds=(3.0, random.choice([8.0, 20.0])),
        fail=random.choice([0.0, 0.2]),
        snooze=random.choice([0.0, 0.1]),
    )
