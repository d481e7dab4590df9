"""Draws jobs with calendars, and versions of their calendar, from a random source of their own."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from mainspring.testing.factories import START
from tools.simulator.plan import Action, FaultPlan, JobPlan

_FAR = "2999-01-01T00:00:00"
_VERBS = ("write_calendars", "replan_jobs", "read_calendar_uses")


def make_closings(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw jobs that a calendar keeps out of some windows, new versions of it, and crashes as one is written."""
    random = Random(f"closings:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 1, 3])):
        name = f"closed-{index}"
        body: dict[str, Any] = {
            "every": random.choice(["1s", "2s", "7s"]),
            "calendars": {"exclude": ["closed"]},
            "misfire": {
                "policy": random.choice(["skip", "fire_latest", "fire_all"]),
                "grace": random.choice(["1s", "3s", "60s"]),
            },
            "overlap": random.choice(["allow", "skip"]),
        }
        jobs.append(JobPlan(name=name, body=body))
        actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=name))
        for kind in ("pause", "resume", "edit", "delete"):
            if random.random() < 0.15:
                patch: dict[str, Any] = {"calendars": {"exclude": []}} if kind == "edit" else {}
                at = round(random.uniform(6, seconds), 3)
                actions.append(Action(at=at, kind=kind, job=name, body=patch))
    if not jobs:
        return (), (), ()
    writes = [0.1, *(round(random.uniform(5, seconds), 3) for _ in range(random.choice([0, 2, 6])))]
    actions += (
        Action(at=at, kind="calendar", job=jobs[0].name, body=_make_calendar(random, seconds))
        for at in writes
    )
    actions += _close_for_good(seed, jobs[0].name, seconds)
    crashes = tuple(
        FaultPlan(
            at=max(random.choice(writes) - 0.5, 0.0),
            seconds=random.choice([0.2, 5.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=random.choice(_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 0, 1]))
    )
    return tuple(jobs), tuple(actions), crashes


def _close_for_good(seed: int, job: str, seconds: float) -> list[Action]:
    """Draw a version that lets nothing through any more, and perhaps one that does again. From a source of its own."""
    random = Random(f"closed-for-good:{seed}")
    if random.random() < 0.5:
        return []
    at = random.uniform(6, seconds * 0.7)
    low = START + timedelta(seconds=random.randrange(int(seconds)))
    rules = [{"from": _wall(low), "to": _FAR}]
    actions = [Action(at=round(at, 3), kind="calendar", job=job, body={"rules": rules})]
    if random.random() < 0.7:
        later = round(random.uniform(at, seconds), 3)
        body = _make_calendar(random, seconds)
        actions.append(Action(at=later, kind="calendar", job=job, body=body))
    return actions


def _make_calendar(random: Random, seconds: float) -> dict[str, Any]:
    rules = []
    for _ in range(random.randint(1, 5)):
        low = START + timedelta(seconds=random.randrange(int(seconds)))
        high = low + timedelta(seconds=random.choice([1, 2, 5, 20]))
        rules.append({"from": _wall(low), "to": _wall(high)})
    return {"rules": rules}


def _wall(instant: Any) -> str:
    return str(instant.replace(tzinfo=None).isoformat())
