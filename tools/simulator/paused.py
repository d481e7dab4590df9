"""Draws pauses of queues, of tenants and of everything, and crashes as one is written, from a source of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import PAUSE_VERBS, Action, FaultPlan

_SCOPES = (("queue", "default"), ("queue", "default"), ("queue", "other"), ("tenant", "default"), ("all", ""))


def make_pauses(
    seed: int, names: list[str], seconds: float
) -> tuple[tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw pauses that end by themselves or are lifted before, so that at the end none is on."""
    random = Random(f"pauses:{seed}")
    actions: list[Action] = []
    for _ in range(random.choice([0, 0, 2, 5, 10])):
        scope, name = random.choice(_SCOPES)
        at, length = random.uniform(3, seconds * 0.85), random.choice([0.5, 3.0, 12.0])
        body: dict[str, Any] = {"scope": scope, "name": name, "mode": random.choice(["hold", "hold", "skip"])}
        until = round(min(at + length, seconds - 1), 3)
        actions.append(Action(at=round(at, 3), kind="hold", job="", body={**body, "until": until}))
        if random.random() < 0.5:
            lifted_at = round(random.uniform(at, until), 3)
            actions.append(Action(at=lifted_at, kind="release", job="", body=body))
    crashes = [
        FaultPlan(
            at=round(random.uniform(2, seconds * 0.8), 3),
            seconds=random.choice([0.2, 5.0]),
            kind="crash_at",
            target=random.choice(names),
            verb=random.choice(PAUSE_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 2]) if actions else 0)
    ]
    return tuple(actions), tuple(crashes)
