"""Tenants that all have more to run at one time than the workers can do: by weight, in turn, or by age."""

from __future__ import annotations

from random import Random

from tools.simulator.plan import Action, JobPlan

SECONDS = 0.3
"""What each of their attempts takes: if it differed, so would the numbers of runs that are a fair share."""
APART = 4.0
"""Seconds between the tenants' submissions where runs go by age, so that there is an order to follow."""
RUNS = 60
"""The runs of a tenant of weight 1. A heavier one has as many more, so that all wait for about the same time."""


def make_crowd(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the tenants' jobs, and what they submit. A random source of its own leaves other draws as they are."""
    random = Random(f"crowd:{seed}")
    if random.random() < 0.75:
        return (), ()
    at = round(random.uniform(12, seconds * 0.6), 3)
    order = Random(f"order:{seed}").choice(["fair", "fair", "round_robin", "fifo"])
    jobs: list[JobPlan] = []
    actions = []
    for name, weight in zip("abc", random.choice([(1, 1, 1), (1, 1, 3), (1, 2, 4), (1, 5)]), strict=False):
        job = JobPlan(
            name=f"crowd-{name}",
            body={"timeout": "60s"} if order == "fair" else {"timeout": "60s", "queue": "crowd"},
            seconds=(SECONDS, SECONDS),
            tenant=f"tenant-{name}",
        )
        jobs.append(job)
        actions.append(Action(at=round(random.uniform(0, 5), 3), kind="create", job=job.name))
        actions.append(
            Action(at=round(random.uniform(5, 8), 3), kind="weigh", job=job.name, body={"weight": weight})
        )
        # The second one submits a little later: no instant of its own makes anybody's share.
        late = round(random.uniform(0, 0.2) + (APART * (len(jobs) - 1) if order == "fifo" else 0.0), 3)
        actions.append(Action(at=at + late, kind="flood", job=job.name, body={"count": RUNS * weight}))
    if order != "fair":
        instant = round(Random(f"ordered:{seed}").uniform(5, 8), 3)
        actions.append(Action(at=instant, kind="order", job=jobs[0].name, body={"order": order}))
    return tuple(jobs), tuple(actions)
