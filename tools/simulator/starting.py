"""Jobs at start, and faults that end all servers at about the same time."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, FaultPlan, JobPlan


def make_starting(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what clients do to them, and the faults.

    A random source of its own leaves other draws as they are.
    """
    random = Random(f"starting:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2])):
        name = f"starting-{index}"
        body: dict[str, Any] = {"schedule": "@reboot", "timeout": "20s", "retry": {"max_retries": 1}}
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, 0.5), fail=random.choice([0.0, 0.2])))
        actions.append(Action(at=round(random.uniform(0, 3), 3), kind="create", job=name))
        for _ in range(random.choice([0, 0, 2])):
            begin = round(random.uniform(5, seconds * 0.8), 3)
            actions.append(Action(at=begin, kind="pause", job=name))
            end = min(round(begin + random.uniform(1, 30), 3), seconds)
            actions.append(Action(at=end, kind="resume", job=name))
    faults: list[FaultPlan] = []
    for _ in range(random.choice([1, 1, 2]) if jobs else 0):
        begin, kind = random.uniform(10, seconds * 0.7), random.choice(["kill", "kill", "stop"])
        faults += (
            FaultPlan(
                at=round(begin + random.uniform(0, 1), 3),
                seconds=round(random.choice([0.2, 3.0, 15.0]) + random.uniform(0, 2), 3),
                kind=kind,
                target=f"server-{index}",
            )
            for index in range(servers)
        )
    return tuple(jobs), tuple(actions), tuple(faults)
