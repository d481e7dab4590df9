"""Jobs whose runs start under limits: caps for each customer, a cap that jobs share, and a rate."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, JobPlan

SHARED = "shared"
"""The limit that jobs share."""


def make_limited(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the jobs, and what they submit. A random source of its own leaves other draws as they are."""
    random = Random(f"limited:{seed}")
    if random.random() < 0.6:
        return (), ()
    jobs = [
        JobPlan(
            name=f"limited-{place}",
            body={"timeout": "20s", "retry": _draw_retry(random), **body},
            seconds=(0.0, random.choice([0.05, 0.5, 2.0])),
            fail=random.choice([0.0, 0.3]),
            crash=random.choice([0.0, 0.0, 0.0, 0.02]),
        )
        for place, body in enumerate(_draw_limits(random))
    ]
    first = jobs[0].name
    rule = {"max_running": random.choice([1, 2, 4])}
    actions = [Action(at=0.5, kind="limit", job=first, body={"name": SHARED, "rule": rule})]
    for job in jobs:
        actions.append(Action(at=round(random.uniform(4, 7), 3), kind="create", job=job.name))
        for _ in range(random.randint(1, 3)):
            body = {"count": random.choice([5, 20, 40]), "customers": random.randint(1, 4)}
            at = round(random.uniform(8, seconds * 0.8), 3)
            actions.append(Action(at=at, kind="flood", job=job.name, body=body))
    for _ in range(random.randint(0, 6)):
        at = round(random.uniform(8, seconds), 3)
        actions.append(Action(at=at, kind="cancel", job=random.choice(jobs).name))
    return tuple(jobs), tuple(actions)


def _draw_limits(random: Random) -> list[dict[str, Any]]:
    """Draw what the definitions say about limits."""
    by_customer = {
        "key": "$.customer",
        "limit": random.choice([1, 2]),
        "hold": random.choice(["attempt", "run"]),
    }
    bodies: list[dict[str, Any]] = [
        {"concurrency": [by_customer]},
        {"concurrency": [{"key": "$.customer", "limit": 3}, {"use": SHARED}]},
        {
            "concurrency": [
                {"rate": random.choice(["3/s", "20/s"]), "burst": random.choice([1, 3])},
                {"use": SHARED},
            ]
        },
    ]
    if random.random() < 0.5:
        fixed = {"key": "$.customer", "limit": 1}
        bodies.append({"every": "2s", "payload": {"customer": "x"}, "concurrency": [fixed]})
    return bodies


def _draw_retry(random: Random) -> dict[str, Any]:
    return {"max_retries": random.choice([0, 2]), "backoff": "fixed", "delay": random.choice(["300ms", "2s"])}
