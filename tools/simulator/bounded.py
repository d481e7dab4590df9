"""Draws a tenant whose submissions are bounded, in a queue with a cap and an expiry."""

from __future__ import annotations

from random import Random
from typing import Any

from mainspring.testing.factories import at
from tools.simulator.plan import INTAKE_VERBS, Action, FaultPlan, JobPlan

BOUNDED = "bounded"
"""The tenant, and the queue."""


def make_bounded(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw jobs, what bounds them, floods that are more than that, and crashes as they are counted.

    A random source of its own leaves other draws as they are.
    """
    random = Random(f"bounded:{seed}")
    if random.random() < 0.6:
        return (), (), ()
    jobs = _draw_jobs(random, seconds)
    bounds = {"queue": _draw_queue(random), "tenant": _draw_tenant(random)}
    # The bounds come before the jobs, and before most faults, so that every server knows them.
    actions = [Action(at=0.3, kind="bound", job=jobs[0].name, body=bounds)]
    actions += [Action(at=round(random.uniform(5, 8), 3), kind="create", job=job.name) for job in jobs]
    floods = sorted(round(random.uniform(9, seconds * 0.8), 3) for _ in range(random.randint(3, 8)))
    for instant in floods:
        job = random.choice(jobs[:2]).name
        count = random.choice([1, 2, 5, 20])
        if count > 1:
            actions.append(Action(at=instant, kind="flood", job=job, body={"count": count}))
        for index in range(random.randint(2, 12)):
            key = {"key": f"{job}-{instant}-{index}"} if random.random() < 0.3 else {}
            later = round(instant + random.uniform(0, 4), 3)
            actions.append(Action(at=later, kind="submit", job=job, body=dict(key)))
    crashes = tuple(
        FaultPlan(
            at=max(round(random.choice(floods) - 0.3, 3), 0.0),
            seconds=random.choice([0.2, 3.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=verb,
            is_after=random.random() < 0.5,
        )
        for verb in INTAKE_VERBS
        if random.random() < 0.5
    )
    return tuple(jobs), tuple(actions), crashes


def _draw_jobs(random: Random, seconds: float) -> list[JobPlan]:
    """Draw what is submitted, what expires by itself, and what fires beside them, at intervals and once."""
    common: dict[str, Any] = {
        "queue": BOUNDED,
        "timeout": "20s",
        "priority": "LOW",
        "retry": {"max_retries": 1},
    }
    bodies: list[dict[str, Any]] = [
        {},
        {"expires_after": "4s"},
        {"every": random.choice(["1s", "3s"]), "misfire": {"policy": "fire_all", "grace": "1s"}},
        {"run_at": at(round(random.uniform(12, seconds * 0.7), 3)).isoformat()},
    ]
    longest = random.choice([0.2, 2.0, 5.0])
    return [
        JobPlan(
            name=f"bounded-{place}",
            body=common | body,
            seconds=(0.1, longest),
            fail=random.choice([0.0, 0.2]),
            tenant=BOUNDED,
        )
        for place, body in enumerate(bodies)
    ]


def _draw_queue(random: Random) -> dict[str, Any]:
    body: dict[str, Any] = {"max_queued": random.choice([3, 10])} if random.random() < 0.7 else {}
    return body | ({"expires_after": random.choice(["3s", "8s"])} if random.random() < 0.6 else {})


def _draw_tenant(random: Random) -> dict[str, Any]:
    body: dict[str, Any] = {"max_queued": random.choice([2, 15])} if random.random() < 0.4 else {}
    return body | ({"submit_rate": random.choice(["2/s", "30/m"])} if random.random() < 0.5 else {})
