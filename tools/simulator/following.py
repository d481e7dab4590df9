"""Jobs whose runs follow one another or cancel each other, and jobs that pause themselves when their runs fail."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, FaultPlan, JobPlan

_OVERLAPS = ("queue_one", "queue_one", "queue_all", "cancel_running", "cancel_running")


def make_following(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what clients do to them, and crashes as jobs are paused.

    A random source of its own leaves other draws as they are.
    """
    random = Random(f"following:{seed}")
    jobs: list[JobPlan] = []
    actions: list[Action] = []
    for index in range(random.choice([0, 1, 1, 2, 3])):
        name = f"following-{index}"
        body: dict[str, Any] = {
            "every": random.choice(["1s", "2s", "5s"]),
            "overlap": random.choice(_OVERLAPS),
            "timeout": "20s",
            "retry": {"max_retries": random.choice([0, 0, 2]), "backoff": "fixed", "delay": "700ms"},
            "misfire": {
                "policy": random.choice(["skip", "fire_latest", "fire_all"]),
                "grace": random.choice(["1s", "60s"]),
                "max_count": 20,
            },
        }
        if random.random() < 0.3:
            body["concurrency"] = [{"limit": 2}]
        if random.random() < 0.2:
            body["expires_after"] = "4s"
        fail = random.choice([0.0, 0.3])
        if random.random() < 0.5:
            body["pause_after_failures"] = random.choice([1, 2, 3])
            fail = random.choice([0.3, 0.8])
        longest = random.choice([0.2, 1.0, 4.0])
        jobs.append(JobPlan(name=name, body=body, seconds=(0.0, longest), fail=fail))
        actions.append(Action(at=round(random.uniform(0, 5), 3), kind="create", job=name))
        actions += _make_changes(random, name, seconds, is_watched="pause_after_failures" in body)
    crash = FaultPlan(
        at=round(random.uniform(2, seconds * 0.5), 3),
        seconds=random.choice([0.2, 5.0]),
        kind="crash_at",
        target=f"server-{random.randrange(servers)}",
        verb="pause_failing",
        is_after=random.random() < 0.5,
    )
    is_watched = any("pause_after_failures" in job.body for job in jobs)
    return tuple(jobs), tuple(actions), (crash,) if is_watched and random.random() < 0.3 else ()


def _make_changes(random: Random, job: str, seconds: float, *, is_watched: bool) -> list[Action]:
    """Draw submissions, cancels, pauses, and edits of the policy while runs of the one before are under way."""
    actions = []
    kinds = ["submit", "submit", "cancel", "edit"] + ["resume"] * 3 * is_watched
    for _ in range(random.choice([2, 6, 12])):
        kind = random.choice(kinds)
        body: dict[str, Any] = {}
        if kind == "submit" and random.random() < 0.3:
            body = {"delay": round(random.uniform(0, 8), 3)}
        elif kind == "edit":
            overlap = {"overlap": random.choice(["allow", "skip", *_OVERLAPS])}
            body = random.choice([overlap, overlap, {"timeout": "15s"}, {"pause_after_failures": 2}])
        actions.append(Action(at=round(random.uniform(6, seconds), 3), kind=kind, job=job, body=body))
    if random.random() < 0.3:
        begin = random.uniform(6, seconds * 0.8)
        actions.append(Action(at=round(begin, 3), kind="pause", job=job))
        actions.append(Action(at=round(begin + random.uniform(0.5, 10), 3), kind="resume", job=job))
    return actions
