"""Draws plans with hardly any work: claims wait for long, and sessions end while they do.

Elsewhere a claim is soon answered, and a silent worker sends no other.
"""

from __future__ import annotations

from random import Random

from tools.simulator.plan import Action, FaultPlan, JobPlan, Plan


def draw_quiet(seed: int, seconds: float) -> Plan | None:
    """Draw a plan in which all workers pause until their sessions end, and some runs come at about that time.

    A random source of its own leaves other draws as they are. None for all but one of 50 seeds.
    """
    random = Random(f"quiet:{seed}")
    if random.random() >= 0.02 or seconds < 60:
        return None
    workers = tuple(random.random() < 0.2 for _ in range(random.choice([2, 3, 4])))
    beat_period = random.choice([1.0, 2.0])
    job = JobPlan(name="sudden", body={"timeout": "20s"}, seconds=(0.0, 0.2))
    actions = [Action(at=1.0, kind="create", job=job.name), Action(at=3.0, kind="submit", job=job.name)]
    faults: list[FaultPlan] = []
    for begin in (10.0, 40.0):
        length = 4 * beat_period + random.uniform(3, 6)
        faults += (
            FaultPlan(at=begin, seconds=round(length, 3), kind="pause", target=f"worker-{index}")
            for index in range(len(workers))
        )
        # Each takes a claim that waits, so they are few.
        times = sorted(round(begin + random.uniform(3, 4.5) * beat_period, 3) for _ in workers)
        actions += (Action(at=at, kind="submit", job=job.name) for at in times)
    return Plan(
        seed=seed,
        servers=random.choice([1, 2, 3]),
        workers=workers,
        slots=random.choice([2, 5]),
        seconds=seconds,
        beat_period=beat_period,
        latency=random.choice([0.0005, 0.002, 0.02]),
        failure_rate=0.0,
        drift=random.choice([0.0, 1e-2]),
        jobs=(job,),
        actions=tuple(actions),
        faults=tuple(faults),
    )
