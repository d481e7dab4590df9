"""Draws plans with tenants and tokens: a worker of one tenant, and tokens that are revoked while they are used."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.simulator.plan import Action, FaultPlan, JobPlan, Plan

OWN, OTHERS = "own", "others"
"""The tenant to which one of the workers is bound, and another one."""
_SHARE = 0.03
_FAULTS = ("kill", "stop", "pause", "cut", "lossy", "cut_off", "late", "slow")


def draw_accessed(seed: int, seconds: float) -> Plan | None:
    """Draw such a plan for one of 33 seeds; for others, return None."""
    if seconds < 60 or Random(f"accessed:{seed}").random() >= _SHARE:
        return None
    return make_accessed(seed, seconds)


def make_accessed(seed: int, seconds: float) -> Plan:
    """Draw such a plan. In half of them nothing goes wrong, so that the counters are judged."""
    random = Random(f"made accessed:{seed}")
    servers = random.choice([1, 2, 3])
    workers = tuple(random.random() < 0.3 for _ in range(random.choice([2, 3])))
    jobs = tuple(_make_job(random, tenant, place) for tenant in (OWN, OTHERS) for place in range(2))
    actions = [action for job in jobs for action in _change(random, job.name, seconds)]
    for number in range(random.choice([2, 4])):
        actions += _use_token(random, f"token-{number}", seconds)
    names = [f"server-{index}" for index in range(servers)]
    is_quiet = random.random() < 0.5
    return Plan(
        seed=seed,
        servers=servers,
        workers=workers,
        tenants=("",) * (len(workers) - 1) + (OWN,),
        checks_tokens=True,
        slots=20,
        seconds=seconds,
        beat_period=random.choice([1.0, 2.0]),
        latency=random.choice([0.0005, 0.002, 0.02]),
        failure_rate=0.0 if is_quiet else random.choice([0.0, 0.01]),
        drift=random.choice([0.0, 1e-2]),
        jobs=jobs,
        actions=tuple(sorted(actions, key=lambda action: action.at)),
        faults=() if is_quiet else _make_faults(random, names, seconds),
    )


def _make_job(random: Random, tenant: str, place: int) -> JobPlan:
    body: dict[str, Any] = {
        "timeout": "20s",
        "retry": {"max_retries": random.choice([0, 1]), "backoff": "fixed", "delay": "500ms"},
        "priority": random.choice(["HIGH", "MEDIUM", "LOW"]),
    }
    if place == 0:
        body |= {"every": random.choice(["1s", "3s"]), "overlap": "allow"}
    return JobPlan(name=f"{tenant}-{place}", body=body, seconds=(0.0, 0.2), fail=0.2, tenant=tenant)


def _change(random: Random, job: str, seconds: float) -> list[Action]:
    """Return changes of a job, of which some are refused: its name is taken, or it is deleted by then."""
    actions = [Action(at=round(random.uniform(1, 4), 3), kind="create", job=job)]
    for kind in random.choices(["create", "edit", "pause", "resume"], k=random.randint(2, 6)):
        body = {"priority": random.choice(["HIGH", "MEDIUM", "LOW"])} if kind == "edit" else {}
        actions.append(Action(at=round(random.uniform(5, seconds), 3), kind=kind, job=job, body=body))
    if random.random() < 0.2:
        late = round(random.uniform(seconds / 2, seconds), 3)
        actions += [Action(at=at, kind="delete", job=job) for at in (late, late + 1)]
    for _ in range(random.randint(1, 4)):
        at, count = round(random.uniform(5, seconds * 0.8), 3), random.choice([1, 5, 20])
        actions.append(Action(at=at, kind="flood", job=job, body={"count": count}))
    return actions


def _use_token(random: Random, name: str, seconds: float) -> list[Action]:
    """Return how a token is made, used at any server, and revoked; its owner goes on using it for a while."""
    revoked_at = random.uniform(20, seconds * 0.8)
    uses = [random.uniform(8, revoked_at) for _ in range(20)]
    uses += [revoked_at + random.uniform(0, 12) for _ in range(30)]
    body = {"name": name}
    return [
        Action(at=round(random.uniform(2, 6), 3), kind="token", job="", body=body),
        Action(at=round(revoked_at, 3), kind="revoke", job="", body=body),
        *(Action(at=round(at, 3), kind="use", job="", body=body) for at in uses),
    ]


def _make_faults(random: Random, names: list[str], seconds: float) -> tuple[FaultPlan, ...]:
    faults = (
        FaultPlan(
            at=round(random.uniform(8, seconds * 0.8), 3),
            seconds=round(random.uniform(1, 12), 3),
            kind=random.choice(_FAULTS),
            target=random.choice(names),
        )
        for _ in range(random.randint(1, 6))
    )
    return tuple(sorted(faults, key=lambda fault: fault.at))
