"""Jobs of which one call takes many runs, and what such a call does."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from random import Random
from typing import Any

from mainspring.signals import Call, Done, Failed, SnoozeRun
from tools.judge import Effect
from tools.simulator.plan import Action, JobPlan
from tools.simulator.world import Node, World


def make_batched(seed: int, seconds: float) -> tuple[tuple[JobPlan, ...], tuple[Action, ...]]:
    """Draw the jobs, and what they submit. A random source of its own leaves other draws as they are."""
    random = Random(f"batched:{seed}")
    if random.random() < 0.6:
        return (), ()
    jobs = [
        JobPlan(
            name=f"batched-{place}",
            body={
                "function": "gather",
                "timeout": "20s",
                "retry": {"max_retries": random.choice([0, 2]), "backoff": "fixed", "delay": "300ms"},
                "priority": random.choice(["HIGH", "MEDIUM", "MEDIUM"]),
                "batch": batch,
            },
            seconds=(0.0, random.choice([0.05, 0.5, 2.0])),
            fail=random.choice([0.0, 0.3]),
            snooze=random.choice([0.0, 0.1]),
            crash=random.choice([0.0, 0.0, 0.0, 0.02]),
        )
        for place, batch in enumerate(_draw_batches(random))
    ]
    actions = []
    for job in jobs:
        actions.append(Action(at=round(random.uniform(4, 7), 3), kind="create", job=job.name))
        for _ in range(random.randint(1, 3)):
            body = {"count": random.choice([1, 5, 20, 40]), "customers": random.randint(1, 4)}
            at = round(random.uniform(8, seconds * 0.8), 3)
            actions.append(Action(at=at, kind="flood", job=job.name, body=body))
    for _ in range(random.randint(0, 6)):
        at = round(random.uniform(8, seconds), 3)
        actions.append(Action(at=at, kind="cancel", job=random.choice(jobs).name))
    return tuple(jobs), tuple(actions)


def _draw_batches(random: Random) -> list[dict[str, Any]]:
    return [
        {"size": random.choice([2, 5]), "wait": random.choice(["0s", "500ms"]), "key": "$.customer"},
        {"size": random.choice([3, 10]), "wait": random.choice(["1s", "3s"])},
    ]


def make_gathering(world: World, node: Node) -> Callable[..., Any]:
    """Return the function of all batched jobs, for the workers of one node."""
    plans = {job.name: job for job in world.plan.jobs}
    recorder = world.recorder

    async def gather(calls: list[Call]) -> list[object]:
        first = calls[0].attempt
        plan = plans[first.job_name]
        random = Random(f"{world.plan.seed}:{first.run_id}:{first.token}")
        effects = [
            Effect(
                run_id=call.attempt.run_id,
                job_id=call.attempt.job_id,
                token=call.attempt.token,
                attempt=call.attempt.attempt,
                worker=node.name,
                started_at=world.time(),
                call=f"{first.run_id}.{first.token}",
            )
            for call in calls
        ]
        recorder.effects.extend(effects)
        for effect in effects:
            recorder.say(
                f"run {effect.run_id} token {effect.token} begins on {node.name} in call {effect.call}"
            )
        await asyncio.sleep(random.uniform(*plan.seconds))
        if random.random() < plan.crash:
            recorder.reached["job_killed_its_worker"] += 1
            pause = random.uniform(0.1, 3)
            world.note_fault("job_crash", node.name, pause)
            world.loop.call_later(pause, node.boot, context=contextvars.Context())
            node.kill()
            await world.loop.create_future()
        outcomes: list[object] = []
        for effect in effects:
            effect.ended_at = world.time()
            if random.random() < plan.fail:
                effect.ending = "failed"
                outcomes.append(Failed("the job fails"))
            elif random.random() < plan.snooze:
                effect.ending = "snoozed"
                outcomes.append(SnoozeRun(random.uniform(0, 3)))
            else:
                effect.ending = "done"
                outcomes.append(Done(effect.token))
            recorder.say(f"run {effect.run_id} token {effect.token} ends on {node.name}: {effect.ending}")
        return outcomes

    return gather
