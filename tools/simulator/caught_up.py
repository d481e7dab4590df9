"""Jobs whose missed fires are made up for at a pace: outages of the store, and crashes while they are drained."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, FaultPlan, JobPlan


def make_caught_up(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, the outages, and crashes. A random source of its own leaves other draws as they are."""
    random = Random(f"caught up:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2])):
        name = f"late-{index}"
        body: dict[str, Any] = {
            **random.choice([{"every": "1s"}, {"every": "500ms"}, {"cron": "*/2 * * * * *"}]),
            "misfire": {"policy": "fire_all", "grace": "1s", "max_count": random.choice([5, 1000])},
            "catch_up": _make_pace(random),
            "overlap": random.choice(["allow", "allow", "allow", "queue_all"]),
            "priority": random.choice(["MEDIUM", "LOW"]),
            "timeout": "20s",
        }
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, random.choice([0.05, 0.3]))))
        actions.append(Action(at=round(random.uniform(0, 3), 3), kind="create", job=name))
        if random.random() < 0.5:
            at = round(random.uniform(20, seconds * 0.8), 3)
            actions.append(Action(at=at, kind="edit", job=name, body={"catch_up": _make_pace(random)}))
    if not jobs:
        return (), (), ()
    faults: list[FaultPlan] = []
    for _ in range(random.choice([1, 2])):
        begin, length = round(random.uniform(8, seconds * 0.6), 3), random.choice([5.0, 12.0, 25.0])
        faults.append(FaultPlan(at=begin, seconds=length, kind="outage"))
        faults += [
            FaultPlan(
                at=round(begin + length + random.uniform(0, 4), 3),
                seconds=random.choice([0.2, 3.0]),
                kind="crash_at",
                target=f"server-{random.randrange(servers)}",
                verb=random.choice(["read_fire_ranges", "advance_fire_ranges", "advance_fire_ranges"]),
                is_after=random.random() < 0.5,
            )
            for _ in range(random.choice([0, 1, 2]))
        ]
    return tuple(jobs), tuple(actions), tuple(faults)


def _make_pace(random: Random) -> dict[str, Any]:
    return {
        "rate": random.choice(["2/s", "5/s", "90/m", "100/s"]),
        "max_live": random.choice([1, 3, 20]),
    }
