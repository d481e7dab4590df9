"""Jobs whose runs fail for good, and what clients do with their dead letters; crashes at each call of a redrive."""

from __future__ import annotations

from random import Random

from tools.simulator.plan import REDRIVE_VERBS, Action, FaultPlan, JobPlan


def make_redriven(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, the redrives and discards, and crashes. A random source of its own leaves other draws alone."""
    random = Random(f"redriven:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 0, 1, 2])):
        name = f"dying-{index}"
        body = {
            "every": random.choice(["500ms", "1s", "3s"]),
            "overlap": "allow",
            "retry": {"max_retries": random.choice([0, 0, 1]), "backoff": "fixed", "delay": "500ms"},
            "timeout": "20s",
        }
        fail = random.choice([0.3, 0.6, 0.9])
        jobs.append(
            JobPlan(name=name, body=body, seconds=(0.0, 0.1), fail=fail, crash=random.choice([0.0, 0.05]))
        )
        actions.append(Action(at=round(random.uniform(2, 5), 3), kind="create", job=name))
        for _ in range(random.choice([1, 2, 4])):
            actions += _make_redrive(random, name, seconds)
        for kind in random.choice([(), ("discard",), ("discard", "redrive_one"), ("redrive_one",) * 3]):
            at = round(random.uniform(15, seconds), 3)
            actions.append(Action(at=at, kind=kind, job=name))
        if random.random() < 0.2:
            at = round(random.uniform(30, seconds), 3)
            actions.append(Action(at=at, kind="edit", job=name, body={"timeout": "19s"}))
        if random.random() < 0.1:
            actions.append(Action(at=round(random.uniform(60, seconds), 3), kind="delete", job=name))
    if not jobs:
        return (), (), ()
    crashes = tuple(
        FaultPlan(
            at=max(random.choice(actions).at - 0.5, 0.0),
            seconds=random.choice([0.2, 1.0, 8.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=random.choice((*REDRIVE_VERBS, "submit_runs")),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 3, 6]))
    )
    return tuple(jobs), tuple(actions), crashes


def _make_redrive(random: Random, name: str, seconds: float) -> list[Action]:
    begin = round(random.uniform(10, seconds), 3)
    body = {"rate": random.choice([2, 20, 1000]), "is_newest": random.random() < 0.7}
    actions = [Action(at=begin, kind="redrive", job=name, body=body)]
    for _ in range(random.choice([0, 0, 1, 3])):
        change = random.choice(["pause", "resume", "resume", "cancel"])
        at = min(round(begin + random.uniform(0.5, 15), 3), seconds)
        actions.append(Action(at=at, kind="change_redrive", job=name, body={"change": change}))
    return actions
