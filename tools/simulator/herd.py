"""Draws jobs that are all due at one instant."""

from __future__ import annotations

from random import Random
from typing import Any

from mainspring.testing.factories import at
from tools.simulator.plan import Action, FaultPlan, JobPlan


def make_herd(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw one-off jobs that are due at one instant, what clients do to them around it, and a crash as they fire.

    Most fire in sets. A random source of its own leaves other draws as they are.
    """
    random = Random(f"herd:{seed}")
    due = round(random.uniform(8, seconds * 0.8), 3)
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 6, 15])):
        name = f"herd-{index}"
        body: dict[str, Any] = {
            "run_at": at(due).isoformat(),
            "priority": random.choice(["HIGH", "MEDIUM", "LOW"]),
            "misfire": {
                "policy": random.choice(["skip", "fire_latest", "fire_all"]),
                "grace": random.choice(["1s", "3s", "60s"]),
            },
        }
        rarer = {"jitter": "3s", "expires_after": "5s", "overlap": "skip", "queue": "other"}
        body |= {key: value for key, value in rarer.items() if random.random() < 0.25}
        jobs.append(JobPlan(name=name, body=body))
        actions.append(Action(at=round(random.uniform(0, 5), 3), kind="create", job=name))
        actions += _make_changes(random, name, due, seconds)
    crash = FaultPlan(
        at=due - 1,
        seconds=random.choice([0.2, 5.0]),
        kind="crash_at",
        target=f"server-{random.randrange(servers)}",
        verb="fire_outlined",
        is_after=random.random() < 0.5,
    )
    return tuple(jobs), tuple(actions), (crash,) if jobs and random.random() < 0.3 else ()


def _make_changes(random: Random, job: str, due: float, seconds: float) -> list[Action]:
    """Draw what clients do to a one-off job shortly before, at, and after its instant."""
    actions = []
    for _ in range(random.choice([0, 0, 1, 2])):
        instant = round(due + random.choice([-2.0, -0.01, 0.0, 0.01, 1.0]) + random.uniform(0, 0.05), 3)
        kind = random.choice(["edit", "edit", "pause", "resume", "delete", "submit"])
        moved = {"run_at": at(round(due + random.uniform(-1, 3), 3)).isoformat()}
        body = random.choice([moved, {"queue": "third"}, {"overlap": "skip"}, {"jitter": "2s"}])
        actions.append(
            Action(at=min(instant, seconds), kind=kind, job=job, body=body if kind == "edit" else {})
        )
        if kind == "pause":
            later = round(instant + random.uniform(0, 2), 3)
            actions.append(Action(at=min(later, seconds), kind="resume", job=job))
    return actions
