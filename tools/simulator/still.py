"""Draws blackouts, their calendars, and servers and workers that stand still where one begins.

A source of its own leaves other draws as they are.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from mainspring.testing.factories import START
from tools.simulator.plan import BLACKOUT_VERBS, Action, FaultPlan, JobPlan

QUEUE = "still"
_SCOPES = (("queue", QUEUE), ("queue", QUEUE), ("queue", "default"), ("tenant", "default"), ("all", ""))
Drawn = tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]


def make_still(seed: int, names: list[str], seconds: float) -> Drawn:
    """Draw jobs of a queue with blackouts, what changes these, and faults around their beginnings.

    Args:
        names: of the processes.
        seconds: how long clients are active. After that, no calendar holds.
    """
    random = Random(f"still:{seed}")
    if random.random() < 0.5 or seconds < 20:
        return (), (), ()
    jobs = (
        JobPlan(
            name="still-fires",
            body={"every": random.choice(["1s", "2s"]), "queue": QUEUE},
            seconds=(0.0, random.choice([0.05, 0.5])),
        ),
        JobPlan(name="still-bulk", body={"queue": QUEUE}, seconds=(0.1, random.choice([0.3, 1.0]))),
    )
    lows = sorted(random.sample(range(9, int(seconds) - 6), random.choice([1, 2, 3])))
    are_stalled = random.random() < 0.5
    lengths = [8] if are_stalled else [2, 4, 8]
    windows = [(low, min(low + random.choice(lengths), int(seconds) - 1)) for low in lows]
    actions = [
        Action(at=0.3, kind="write_still", job="", body=_calendar(windows)),
        *(Action(at=round(random.uniform(1, 3), 3), kind="create", job=job.name) for job in jobs),
        _set(random, round(random.uniform(1, 4), 3), *_SCOPES[0]),
    ]
    for low in lows:
        # Workers that have room claim just as the blackout begins.
        at = low - round(random.uniform(0.01, 0.06), 4)
        count = random.choice([30, 60] if are_stalled else [0, 30, 60])
        if count:
            actions.append(Action(at=at, kind="flood", job="still-bulk", body={"count": count}))
    for _ in range(random.choice([0, 0, 1, 3])):
        at = round(random.uniform(5, seconds - 2), 3)
        moved = [(low + random.choice([-2, 1, 2]), high) for low, high in windows]
        drawn = random.choice(["write", "set", "unset"])
        if drawn == "write":
            actions.append(Action(at=at, kind="write_still", job="", body=_calendar(moved)))
        else:
            actions.append(_set(random, at, *random.choice(_SCOPES), is_empty=drawn == "unset"))
    faults = _make_faults(random, names, lows if are_stalled else [], seconds)
    change, deaf = _make_deaf(seed, names, [low for low, high in windows if high - low == 8])
    return jobs, (*actions, *change), (*faults, *deaf)


def _make_deaf(
    seed: int, names: list[str], lows: list[int]
) -> tuple[tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw a blackout that is set while all servers but the first are stopped: they make fires before they know of it.

    Args:
        lows: where the calendar holds for eight seconds from there on.
    """
    random = Random(f"deaf:{seed}")
    servers = [name for name in names if name.startswith("server")][1:]
    if random.random() < 0.5 or not lows or not servers:
        return (), ()
    at = round(random.choice(lows) + random.uniform(0.3, 1.0), 3)
    body = {"scope": "queue", "name": QUEUE, "modes": ["skip"]}
    stops = tuple(
        FaultPlan(
            at=round(at - random.uniform(0.05, 0.3), 3),
            seconds=round(random.uniform(3.5, 5.0), 3),
            kind="pause",
            target=name,
        )
        for name in servers
    )
    return (Action(at=at, kind="set_still", job="", body=body),), stops


def _make_faults(random: Random, names: list[str], lows: list[int], seconds: float) -> tuple[FaultPlan, ...]:
    """Draw processes that are stopped with a claim under way as a blackout begins, and crashes at its verbs.

    The first server goes on, and acts for all.
    """
    stalls = [
        FaultPlan(
            at=round(low - random.uniform(0.0, 0.03), 4),
            seconds=round(random.uniform(3.2, 4.5), 3),
            kind="pause",
            target=name,
        )
        for low in lows
        for name in names[1:]
        if random.random() < 0.7
    ]
    crashes = [
        FaultPlan(
            at=round(random.uniform(0.2, seconds * 0.8), 3),
            seconds=random.choice([0.2, 5.0]),
            kind="crash_at",
            target=random.choice([name for name in names if name.startswith("server")]),
            verb=random.choice(BLACKOUT_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 0, 1]))
    ]
    return (*stalls, *crashes)


def _set(random: Random, at: float, scope: str, name: str, *, is_empty: bool = False) -> Action:
    mode = random.choice(["hold", "skip"])
    body = {"scope": scope, "name": name, "modes": [] if is_empty else [mode]}
    return Action(at=at, kind="set_still", job="", body=body)


def _calendar(windows: list[tuple[int, int]]) -> dict[str, Any]:
    rules = [{"from": _wall(low), "to": _wall(high)} for low, high in windows if low < high]
    return {"rules": rules or [{"from": _wall(0), "to": _wall(1)}]}


def _wall(second: int) -> str:
    return (START + timedelta(seconds=second)).replace(tzinfo=None).isoformat()
