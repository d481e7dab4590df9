"""A tenant with reserved slots, whose LOW runs meet a flood of HIGH ones of another tenant."""

from __future__ import annotations

from random import Random

from tools.simulator.plan import RESERVE_VERBS, Action, FaultPlan, JobPlan

PROMISED = "promised"
"""The tenant with the reserve."""


def make_reserved(
    seed: int, servers: int, slots: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the two jobs, the reserve, what they submit, and crashes as slots are counted.

    A random source of its own leaves other draws as they are.

    Args:
        slots: of all workers together.
    """
    random = Random(f"reserved:{seed}")
    if random.random() < 0.75:
        return (), (), ()
    length = random.choice([0.3, 1.0])
    jobs = (
        JobPlan(
            name="promised",
            body={"timeout": "60s", "priority": "LOW", "retry": {"max_retries": 0}}
            | random.choice([{}, {}, {"concurrency": [{"key": "$.customer", "limit": 50}]}]),
            seconds=(length / 2, length),
            tenant=PROMISED,
        ),
        JobPlan(
            name="rushing",
            body={"timeout": "60s", "priority": "HIGH", "retry": {"max_retries": 0}},
            seconds=(length / 2, length),
            tenant="rushing",
        ),
    )
    actions = [
        Action(at=round(random.uniform(0, 5), 3), kind="create", job=job.name, body={}) for job in jobs
    ]
    reserve = {"reserved": max(1, min(random.choice([1, 3, 6]), slots - 1))}
    # Before most faults, so that every process knows it.
    actions.append(Action(at=0.4, kind="reserve", job="promised", body=reserve))
    begin = random.uniform(10, seconds * 0.5)
    work = max(round(slots * 15 / length), 20)  # seconds of work for all slots
    for place in range(2):
        at = round(begin + place * random.uniform(2, 10), 3)
        actions.append(Action(at=at, kind="flood", job="rushing", body={"count": min(work, 400)}))
        later = round(at + random.uniform(0, 3), 3)
        body = {"count": random.choice([5, 40]), "customers": 2}
        actions.append(Action(at=later, kind="flood", job="promised", body=body))
    crashes = tuple(
        FaultPlan(
            at=round(begin, 3),
            seconds=random.choice([0.2, 3.0]),
            kind="crash_at",
            target=f"server-{random.randrange(servers)}",
            verb=verb,
            is_after=random.random() < 0.5,
        )
        for verb in RESERVE_VERBS
        if random.random() < 0.4
    )
    return jobs, tuple(actions), crashes
