"""Draws jobs whose fires a calendar moves to another date, and its versions, from a random source of their own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from mainspring.testing.factories import START
from tools.simulator.plan import Action, JobPlan

_DAYS = (-2, -1, 0, 1, 2)
"""Days about that of the simulation, on which jobs fire, and which a calendar may close."""


def make_moved(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw jobs that fire some times on one day of the month, and days on which these times are closed.

    Fires of the days before and after come into the simulation, and its own fires leave it.
    """
    random = Random(f"moved:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    times: list[datetime] = []
    for index in range(random.choice([0, 0, 1, 3])):
        name = f"moved-{index}"
        shown = sorted(random.sample(range(60), random.choice([1, 2, 4])))
        minutes = range(random.choice([1, 2]))
        times += [START + timedelta(minutes=minute, seconds=second) for minute in minutes for second in shown]
        body: dict[str, Any] = {
            "cron": _cron(random.choice(_DAYS), minutes, shown),
            "calendars": {"exclude": ["moving"], "roll": random.choice(["next", "previous"])},
            "misfire": {"policy": random.choice(["skip", "fire_latest", "fire_all"])},
        }
        jobs.append(JobPlan(name=name, body=body))
        actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=name))
        for kind in ("pause", "resume", "edit", "delete"):
            if random.random() < 0.1:
                patch: dict[str, Any] = {"calendars": {"exclude": []}} if kind == "edit" else {}
                actions.append(
                    Action(at=round(random.uniform(6, seconds), 3), kind=kind, job=name, body=patch)
                )
    if not jobs:
        return (), ()
    writes = [0.2, *(round(random.uniform(5, seconds), 3) for _ in range(random.choice([0, 1, 4])))]
    actions += (
        Action(at=at, kind="calendar_of_moves", job=jobs[0].name, body=_make_calendar(random, times))
        for at in writes
    )
    return tuple(jobs), tuple(actions)


def _cron(day: int, minutes: range, seconds: Sequence[int]) -> str:
    date = START + timedelta(days=day)
    listed = ",".join(str(START.minute + minute) for minute in minutes)
    return f"{','.join(map(str, seconds))} {listed} {START.hour} {date.day} * *"


def _make_calendar(random: Random, times: Sequence[datetime]) -> dict[str, Any]:
    """Close some of the times, each on some days. A rule at least there must be."""
    rules = [_rule(START - timedelta(days=9), timedelta(seconds=1))]
    for time in times:
        closed = random.choice([0.4, 0.8, 0.95])
        for day in _DAYS:
            if random.random() < (closed if day else 0.3):
                low = time + timedelta(days=day, seconds=-random.choice([0, 0, 1]))
                rules.append(_rule(low, timedelta(seconds=random.choice([1, 2, 3]))))
    return {"rules": rules}


def _rule(low: datetime, length: timedelta) -> dict[str, str]:
    return {
        "from": low.replace(tzinfo=None).isoformat(),
        "to": (low + length).replace(tzinfo=None).isoformat(),
    }
