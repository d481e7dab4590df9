"""Jobs with a maximum of fires: edits that keep the count and others, pauses, outages, and crashes at the fire."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, FaultPlan, JobPlan


def make_counted(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what happens to them, and faults. A random source of its own leaves other draws as they are."""
    random = Random(f"counted:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 0, 1, 2])):
        name = f"counted-{index}"
        body: dict[str, Any] = {
            **_make_trigger(random),
            "max_fires": random.choice([1, 4, 12, 30]),
            "misfire": {
                "policy": random.choice(["skip", "fire_latest", "fire_all", "fire_all"]),
                "grace": random.choice(["1s", "3s"]),
            },
            "overlap": random.choice(["allow", "allow", "skip"]),
            "timeout": "20s",
        }
        if random.random() < 0.2:
            body["jitter"] = "1s"
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, random.choice([0.1, 3.0]))))
        actions.append(Action(at=round(random.uniform(0, 3), 3), kind="create", job=name))
        for _ in range(random.choice([0, 1, 2, 4])):
            begin = round(random.uniform(5, seconds * 0.8), 3)
            if random.random() < 0.3:
                end = min(round(begin + random.uniform(1, 15), 3), seconds)
                actions.append(Action(at=begin, kind="pause", job=name))
                actions.append(Action(at=end, kind="resume", job=name))
            else:
                actions.append(Action(at=begin, kind="edit", job=name, body=_make_edit(random)))
    if not jobs:
        return (), (), ()
    faults: list[FaultPlan] = []
    for _ in range(random.choice([0, 1, 2])):
        begin = round(random.uniform(4, seconds * 0.6), 3)
        faults.append(FaultPlan(at=begin, seconds=random.choice([5.0, 12.0]), kind="outage"))
    faults += [
        FaultPlan(
            at=round(random.uniform(4, seconds * 0.8), 3),
            seconds=random.choice([0.2, 3.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=random.choice(["record_fires", "record_fires", "advance_fire_ranges"]),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 2]))
    ]
    return tuple(jobs), tuple(actions), tuple(faults)


def _make_trigger(random: Random) -> dict[str, Any]:
    return random.choice(
        [{"every": "1s"}, {"every": "2500ms"}, {"cron": "*/2 * * * * *"}, {"cron": "7,37 * * * * *"}]
    )


def _make_edit(random: Random) -> dict[str, Any]:
    """Draw an edit: most keep the count."""
    return random.choice(
        [
            {"timeout": "30s"},
            {"priority": "LOW"},
            {"priority": "HIGH"},
            {"misfire": {"policy": "fire_all", "grace": "1s"}},
            {"jitter": "1s"},
            {"max_fires": random.choice([1, 5, 20])},
            {"max_fires": None},
            _make_trigger(random),
        ]
    )
