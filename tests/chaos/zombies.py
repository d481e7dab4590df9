"""Zombie trials: workers that are stopped for longer than their leases and then go on as if nothing had happened."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.chaos.plan import Plan, Zombie
from tests.chaos.processes import Worker
from tests.chaos.trials import Outcome, Scene, conclude, open_solo, under_load

WORKERS = 6
_SLOTS = 4
_PATIENCE = 2.0
"""Seconds for which a worker is waited for to come to the point at which it stops itself."""
_LOOK = 0.02


async def run_zombies(plan: Plan, folder: Path, *, rate: float) -> Outcome:
    """Carry out the plan's zombies, those of different workers side by side, and judge."""
    async with open_solo(folder, slots=0, workers=WORKERS, worker_slots=_SLOTS) as (scene, receiver):
        await scene.start()
        async with under_load(scene, receiver, rate=rate, seed=plan.seed) as stage:
            async with asyncio.TaskGroup() as group:
                for index, worker in enumerate(scene.workers):
                    mine = [zombie for zombie in plan.zombies if zombie.worker == index]
                    group.create_task(_haunt(scene, worker, mine))
            await asyncio.sleep(1)
        return await conclude(scene, stage, folder, slots=WORKERS * _SLOTS)


async def _haunt(scene: Scene, worker: Worker, zombies: list[Zombie]) -> None:
    for zombie in zombies:
        await asyncio.sleep(zombie.after)
        at = await _stop(scene, worker, zombie)
        await asyncio.sleep(zombie.seconds)
        scene.blame("zombie", worker.name, at, worker.resume())
        scene.reached[f"zombie at {zombie.point or 'any moment'}"] += 1


async def _stop(scene: Scene, worker: Worker, zombie: Zombie) -> float:
    """Stop a worker, or have it stop itself at its point; say when."""
    if not zombie.point:
        return worker.pause()
    asked = time.time()
    worker.order_halt(zombie.point)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        at = worker.halted(asked)
        if at is not None:
            return at
        await asyncio.sleep(_LOOK)
    worker.halt.unlink(missing_ok=True)
    at = worker.halted(asked)  # it may have come there in this very moment
    if at is None:
        scene.missed_failpoints.append(str(zombie))
        at = worker.pause()
    return at
