"""The work of simulated jobs: they record their beginning, take some time, may fail or crash, and record their end."""

from __future__ import annotations

import asyncio
import builtins
import contextvars
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from mainspring.signals import SnoozeRun, current_attempt
from tools.judge import Effect
from tools.simulator.world import Node, World


def make_work(world: World, node: Node, count_waiting: Callable[[], int]) -> Callable[..., Any]:
    """Return the function of all simulated jobs, for the workers of one node.

    Args:
        count_waiting: says how many leases wait there for a slot.
    """
    plans = {job.name: job for job in world.plan.jobs}
    recorder = world.recorder

    async def work(**_: object) -> int:
        context = current_attempt()
        parts = context.job_name.split(".")  # that of a step is the workflow's, and its own name
        plan = plans[parts[0]]
        random = Random(f"{world.plan.seed}:{context.run_id}:{context.token}")
        effect = Effect(
            run_id=context.run_id,
            job_id=context.job_id,
            token=context.token,
            attempt=context.attempt,
            worker=node.name,
            started_at=world.time(),
        )
        (recorder.flow_effects if len(parts) > 1 else recorder.effects).append(effect)
        recorder.reached["lease_waited_for_a_slot"] += count_waiting() > 0
        recorder.say(f"run {context.run_id} token {context.token} begins on {node.name}")
        await asyncio.sleep(random.uniform(*plan.seconds))
        if random.random() < plan.crash:
            recorder.reached["job_killed_its_worker"] += 1
            pause = random.uniform(0.1, 3)
            world.note_fault("job_crash", node.name, pause)
            world.loop.call_later(pause, node.boot, context=contextvars.Context())
            node.kill()
            await world.loop.create_future()
        effect.ended_at = world.time()
        effect.ending = "done"
        if random.random() < plan.fail:
            effect.ending = "failed"
            effect.cause = random.choice(plan.errors)
        elif random.random() < plan.snooze:
            effect.ending = "snoozed"
        recorder.say(f"run {context.run_id} token {context.token} ends on {node.name}: {effect.ending}")
        if effect.cause is not None:
            raise getattr(builtins, effect.cause)("the job fails")
        if effect.ending == "snoozed":
            raise SnoozeRun(timedelta(seconds=random.uniform(0, 3)))
        return context.token

    return work
