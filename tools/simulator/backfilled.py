"""Jobs whose past is made up for: backfills, what clients do to them, and crashes at each of their calls."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import BACKFILL_VERBS, Action, FaultPlan, JobPlan


def make_backfilled(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, their backfills, and crashes. A random source of its own leaves other draws as they are."""
    random = Random(f"backfilled:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 1, 2])):
        name = f"past-{index}"
        body = {
            **random.choice(_TRIGGERS),
            "overlap": random.choice(["allow", "allow", "skip"]),
            "retry": {"max_retries": random.choice([0, 1]), "backoff": "fixed", "delay": "500ms"},
            "timeout": "20s",
        }
        longest = random.choice([0.05, 0.3, 1.0])
        jobs.append(
            JobPlan(name=name, body=body, seconds=(0.0, longest), fail=random.choice([0.0, 0.2, 0.5]))
        )
        actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=name))
        if random.random() < 0.5:
            at = round(random.uniform(8, 30), 3)
            actions.append(Action(at=at, kind="edit", job=name, body=random.choice(_TRIGGERS)))
        for _ in range(random.choice([1, 2, 4])):
            actions += _make_backfill(random, name, seconds)
    if not jobs:
        return (), (), ()
    crashes = tuple(
        FaultPlan(
            at=max(random.choice(actions).at - 0.5, 0.0),
            seconds=random.choice([0.2, 1.0, 8.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=random.choice(BACKFILL_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 3, 6]))
    )
    return tuple(jobs), tuple(actions), crashes


_TRIGGERS: tuple[dict[str, Any], ...] = (
    {"every": "2s"},
    {"every": "7s"},
    {"cron": "*/5 * * * * *"},
    {"cron": "0-30/3 * * * * *"},
)


def _make_backfill(random: Random, name: str, seconds: float) -> list[Action]:
    begin = round(random.uniform(12, seconds * 0.7), 3)
    body = {
        "width": random.choice([20, 60, 200]),
        "ago": random.choice([3, 10]),
        "options": {
            "skip_done": random.choice(["succeeded", "succeeded", "any", "none"]),
            "rate": random.choice(["2/s", "10/s", "100/s", "30/m"]),
            "max_live": random.choice([1, 3, 50]),
            "priority": random.choice(["LOW", "MEDIUM"]),
        },
    }
    actions = [Action(at=begin, kind="backfill", job=name, body=body)]
    for _ in range(random.choice([0, 0, 1, 3])):
        change = random.choice(["pause", "resume", "resume", "cancel"])
        at = min(round(begin + random.uniform(0.5, 15), 3), seconds)
        actions.append(Action(at=at, kind="change_backfill", job=name, body={"change": change}))
    return actions
