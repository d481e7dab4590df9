"""Kill trials: one product that lives through one kill after the other."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.failpoints import Failpoint
from tests.chaos.plan import Kill, Plan
from tests.chaos.processes import Ended, Worker, must_be_asked
from tests.chaos.trials import Outcome, Solo, conclude, open_solo, under_load

WORKERS = 2
_SLOTS = 16
_WORKER_SLOTS = 8
_LOOK = 0.1
_TRIES = 20
_PATIENCE = 4.0
"""Seconds for which a failpoint is waited for, once the server listens."""


async def run_kills(plan: Plan, folder: Path, *, rate: float, calm: float) -> Outcome:
    """Carry out the plan's kills and judge.

    Args:
        rate: submissions a second.
        calm: seconds without a fault before the first one.
    """
    async with open_solo(folder, slots=_SLOTS, workers=WORKERS, worker_slots=_WORKER_SLOTS) as (
        scene,
        receiver,
    ):
        await scene.start()
        async with under_load(scene, receiver, rate=rate, seed=plan.seed) as stage:
            await asyncio.sleep(calm)
            await Killer(scene, plan.kills).run()
            await asyncio.sleep(2)
        return await conclude(scene, stage, folder, slots=_SLOTS + WORKERS * _WORKER_SLOTS)


class Killer:
    """Carries out kills in order. The failpoint of the next one is set when the server is started for it."""

    def __init__(self, scene: Solo, kills: tuple[Kill, ...]) -> None:
        self._scene = scene
        self._waiting = list(kills)
        self._down: list[tuple[str, float]] = []
        self._starting: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Carry out all kills; the product runs before and after."""
        first = self._upcoming()
        if first is not None and first.failpoint is not None:  # which is set when a process starts
            at = time.time()
            await asyncio.to_thread(self._scene.product.stop)
            self._down.append(("stop", at))
            await self._restart()
        while self._waiting:
            kill = self._waiting[0]
            if not self._scene.product.is_running:
                # It came to its failpoint meanwhile: that kill first, as no worker starts without a server.
                kill = self._upcoming() or kill
            self._waiting.remove(kill)
            if kill.scope == "worker":
                await self._kill_worker(kill)
            else:
                await self._kill_server(kill)
        await asyncio.gather(*self._starting.values())

    def _upcoming(self) -> Kill | None:
        """Return the kill that the server's next life is to end with."""
        return next((kill for kill in self._waiting if kill.scope != "worker"), None)

    async def _kill_worker(self, kill: Kill) -> None:
        worker = self._scene.workers[kill.worker]
        await asyncio.sleep(kill.after)
        starting = self._starting.get(worker.name)
        while starting is not None and not starting.done() and self._scene.product.is_running:
            await asyncio.wait([starting], timeout=_LOOK)
        if starting is None or starting.done():
            await self._restart_worker(worker)
        else:
            self._waiting.insert(0, kill)  # once there is a server for it to start with

    async def _restart_worker(self, worker: Worker) -> None:
        """Kill a worker and begin to start it, which takes until there is a server."""
        at = await asyncio.to_thread(worker.kill)
        self._starting[worker.name] = asyncio.create_task(self._start_worker(worker, at))

    async def _start_worker(self, worker: Worker, at: float) -> None:
        for _ in range(_TRIES):
            try:
                await asyncio.to_thread(worker.start)
                break
            except Ended:
                # It gives up when it loses the server while it starts; whoever runs it starts it again.
                self._scene.reached["worker gave up its start"] += 1
        else:
            raise Ended(f"{worker.name} did not start: see {worker.log.name}")
        self._scene.blame("kill", worker.name, at, time.time())

    async def _kill_server(self, kill: Kill) -> None:
        at = await (
            self._await_failpoint(kill, kill.failpoint) if kill.failpoint else self._await_moment(kill)
        )
        self._fell(str(kill.failpoint or "kill"), at)
        if kill.scope == "all":
            for worker in self._scene.workers:
                starting = self._starting.get(worker.name)
                if starting is None or starting.done():
                    await self._restart_worker(worker)
        await self._restart()

    async def _await_moment(self, kill: Kill) -> float:
        await asyncio.sleep(kill.after)
        if not self._scene.product.is_running:
            raise RuntimeError(f"the server ended by itself: see {self._scene.product.log.name}")
        return await asyncio.to_thread(self._scene.product.kill)

    async def _await_failpoint(self, kill: Kill, failpoint: Failpoint) -> float:
        """Return when the server ended itself; one that does not come to its failpoint is killed."""
        product = self._scene.product
        if must_be_asked(failpoint):
            await asyncio.sleep(kill.after)
            product.terminate()
        if await self._ends_within(_PATIENCE):
            await asyncio.to_thread(product.reap)
            at = product.reached()
            if at is not None:
                self._scene.reached[f"{failpoint.moment}:{failpoint.verb}"] += 1
                return at
            if not must_be_asked(failpoint):
                raise RuntimeError(f"the server ended by itself, not at {failpoint}")
        self._scene.missed_failpoints.append(str(failpoint))
        return await asyncio.to_thread(product.kill) if product.is_running else time.time()

    async def _ends_within(self, seconds: float) -> bool:
        return await asyncio.to_thread(self._scene.product.ends_within, seconds)

    async def _restart(self) -> None:
        """Start the server; a kill whose failpoint lies within the start has been carried out with it."""
        scene = self._scene
        while True:
            kill = self._upcoming()
            failpoint = kill.failpoint if kill is not None else None
            await asyncio.sleep(kill.down if kill is not None else 0)
            before = time.monotonic()
            try:
                await asyncio.to_thread(scene.product.start, failpoint)
                break
            except Ended:
                at = scene.product.reached()
                if kill is None or failpoint is None or at is None:
                    raise
                scene.reached[f"{failpoint.moment}:{failpoint.verb}"] += 1
                self._waiting.remove(kill)
                self._fell(str(failpoint), at)
        scene.restarts.append(time.monotonic() - before)
        for kind, at in self._down:
            scene.blame(kind, "server", at, time.time())
        self._down = []

    def _fell(self, kind: str, at: float) -> None:
        self._down.append((kind, at))
        self._scene.fallen.append(datetime.fromtimestamp(at, UTC))
