"""Jobs that fire at a delay after the end of the run before, and crashes where that end is looked up and followed."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import END_VERBS, Action, FaultPlan, JobPlan


def make_ending(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what clients do to them, and the crashes.

    A random source of its own leaves other draws as they are.
    """
    random = Random(f"ending:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2])):
        name = f"ending-{index}"
        body: dict[str, Any] = {
            "after_end": _draw_delay(random),
            "misfire": {
                "policy": random.choice(["skip", "fire_latest"]),
                "grace": random.choice(["1s", "60s"]),
            },
            "overlap": random.choice(["allow", "skip"]),
            "retry": {"max_retries": random.choice([0, 1]), "backoff": "fixed", "delay": "500ms"},
            "timeout": "20s",
        }
        longest = random.choice([0.2, 4.0, 10.0])
        fail, crash = random.choice([0.0, 0.3]), random.choice([0.0, 0.0, 0.02])
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, longest), fail=fail, crash=crash))
        actions.append(Action(at=round(random.uniform(0, 3), 3), kind="create", job=name))
        for _ in range(random.choice([0, 0, 2, 5])):
            actions += _make_change(random, name, round(random.uniform(5, seconds * 0.8), 3), seconds)
    crashes = [
        FaultPlan(
            at=round(random.uniform(2, seconds * 0.8), 3),
            seconds=random.choice([0.2, 5.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=random.choice(END_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 2]) if jobs else 0)
    ]
    return tuple(jobs), tuple(actions), tuple(crashes)


def _draw_delay(random: Random) -> str:
    return random.choice(["2s", "3500ms", "7s"])


def _make_change(random: Random, name: str, at: float, seconds: float) -> list[Action]:
    kind = random.choice(["edit", "edit", "pause", "submit", "cancel"])
    if kind == "edit":
        body = random.choice([{"after_end": _draw_delay(random)}, {"timeout": "30s"}, {"priority": "LOW"}])
        return [Action(at=at, kind="edit", job=name, body=body)]
    if kind == "pause":
        end = min(round(at + random.uniform(1, 20), 3), seconds)
        return [Action(at=at, kind="pause", job=name), Action(at=end, kind="resume", job=name)]
    return [Action(at=at, kind=kind, job=name)]
