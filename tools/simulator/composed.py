"""Jobs whose triggers are made of others: unions, windows that begin and end in the story, calendar intervals."""

from __future__ import annotations

from random import Random
from typing import Any

from mainspring.testing.factories import START, at
from tools.simulator.plan import Action, JobPlan


def make_composed(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the jobs, and what happens to them. A random source of its own leaves other draws as they are."""
    random = Random(f"composed:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2, 3])):
        name = f"composed-{index}"
        body: dict[str, Any] = {
            **_make_trigger(random, seconds),
            "misfire": {"policy": random.choice(["skip", "fire_latest", "fire_all"]), "grace": "1s"},
            "timeout": "20s",
        }
        if random.random() < 0.2:
            body["jitter"] = "1s"
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, 0.1)))
        actions.append(Action(at=round(random.uniform(0, 3), 3), kind="create", job=name))
        for _ in range(random.choice([0, 1, 2])):
            begin = round(random.uniform(5, seconds * 0.8), 3)
            if random.random() < 0.5:
                edit = _make_trigger(random, seconds, since=begin + 5)
                actions.append(Action(at=begin, kind="edit", job=name, body=edit))
            else:
                end = min(round(begin + random.uniform(1, 15), 3), seconds)
                actions.append(Action(at=begin, kind="pause", job=name))
                actions.append(Action(at=end, kind="resume", job=name))
    return tuple(jobs), tuple(actions)


def _make_trigger(random: Random, seconds: float, since: float = 5.0) -> dict[str, Any]:
    """Draw a trigger in full form, so that an edit replaces all of it."""
    kind = random.choice(["union", "union", "window", "window", "daily"])
    if kind == "union":
        return {
            "trigger": {
                "type": "any_of",
                "triggers": [_make_part(random) for _ in range(random.choice([2, 3]))],
            }
        }
    if kind == "window":
        starts = round(random.uniform(since, since + 20), 3)
        ends = round(random.uniform(starts + 20, max(starts + 25, seconds)), 3)
        bounds = {"starts_at": at(starts).isoformat(), "ends_at": at(ends).isoformat()}
        bounds.pop(random.choice(["starts_at", "ends_at", ""]), None)
        return {"trigger": {**_make_part(random), **bounds}}
    fires = at(round(random.uniform(since + 20, since + 60)))
    every = random.choice(["1 day", "2 days", "1 week"])
    form = {
        "type": "calendar_interval",
        "every": every,
        "at": f"{fires:%H:%M:%S}",
        "anchor": START.date().isoformat(),
    }
    return {"trigger": form}


def _make_part(random: Random) -> dict[str, Any]:
    if random.random() < 0.5:
        return {"type": "interval", "every": random.choice(["1s", "2s", "7s", "2500ms"])}
    return {"type": "cron", "expression": f"{random.choice(['*/2', '*/5', '0-20/4', '7,37'])} * * * * *"}
