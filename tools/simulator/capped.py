"""Jobs of a queue, of tenants and with a label that have caps, which are set, changed and unset meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import CAP_VERBS, Action, FaultPlan, JobPlan

QUEUE, LABEL, EVERYONE = "capped", "scarce", "everyone"
"""The queue and the label that are capped, and the limit that all tenants share."""
TENANTS = ("capped-a", "capped-b")
_SCOPES = (("queue", QUEUE), ("queue", QUEUE), ("label", LABEL), *(("tenant", tenant) for tenant in TENANTS))


def make_capped(
    seed: int, names: list[str], seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what they submit, and the caps. A random source of its own leaves other draws as they are."""
    random = Random(f"capped:{seed}")
    if random.random() < 0.55:
        return (), (), ()
    is_shared = random.random() < 0.5
    jobs = [
        JobPlan(
            name=f"capped-{place}",
            body={"queue": QUEUE, "timeout": "20s", **_draw_body(random, is_shared=is_shared)},
            seconds=(0.0, random.choice([0.05, 0.5, 2.0])),
            fail=random.choice([0.0, 0.3]),
            crash=random.choice([0.0, 0.0, 0.0, 0.02]),
            tenant=random.choice(TENANTS),
        )
        for place in range(random.choice([2, 3, 4]))
    ]
    actions: list[Action] = []
    body: dict[str, Any]
    if is_shared:
        rule = {"max_running": random.choice([1, 2, 4])}
        body = {"name": EVERYONE, "rule": rule, "scope": "cluster"}
        actions.append(Action(at=0.5, kind="limit", job=jobs[0].name, body=body))
    for job in jobs:
        actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=job.name))
        for _ in range(random.randint(1, 4)):
            body = {"count": random.choice([5, 20, 40]), "customers": random.randint(1, 3)}
            at = round(random.uniform(5, seconds * 0.8), 3)
            actions.append(Action(at=at, kind="flood", job=job.name, body=body))
    for _ in range(random.choice([1, 3, 6, 12])):
        scope, name = random.choice(_SCOPES)
        body = {"scope": scope, "name": name, "max_running": random.choice([1, 1, 2, 3, 5, None])}
        at = round(random.uniform(1, seconds * 0.85), 3)
        actions.append(Action(at=at, kind="cap", job="", body=body))
    for _ in range(random.randint(0, 6)):
        at = round(random.uniform(8, seconds), 3)
        actions.append(Action(at=at, kind="cancel", job=random.choice(jobs).name))
    # So that all ends in time, nothing is capped in the end.
    for scope, name in dict.fromkeys(_SCOPES):
        body = {"scope": scope, "name": name, "max_running": None}
        actions.append(Action(at=round(seconds * 0.9, 3), kind="cap", job="", body=body))
    crashes = tuple(
        FaultPlan(
            at=round(random.uniform(2, seconds * 0.8), 3),
            seconds=random.choice([0.2, 5.0]),
            kind="crash_at",
            target=random.choice(names),
            verb=random.choice(CAP_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 0, 1, 2]))
    )
    return tuple(jobs), tuple(actions), crashes


def _draw_body(random: Random, *, is_shared: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "priority": random.choice(["HIGH", "MEDIUM", "LOW"]),
        "retry": {"max_retries": random.choice([0, 2]), "backoff": "fixed", "delay": "300ms"},
    }
    if random.random() < 0.5:
        body["labels"] = [LABEL]
    if is_shared and random.random() < 0.6:
        body["concurrency"] = [{"use": EVERYONE}]
    elif random.random() < 0.3:
        body["concurrency"] = [{"key": "$.customer", "limit": random.choice([1, 2]), "hold": "run"}]
    if random.random() < 0.3:
        body |= {"every": "2s", "payload": {"customer": 1}}
    return body
