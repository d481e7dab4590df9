"""The nemesis: injects the faults of the plan into the world, and repairs them afterwards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from random import Random

from mainspring.core.ids import SessionId
from mainspring.core.outcomes import Failure
from mainspring.engine.assembly import Engine
from mainspring.errors import StoreUnavailable, Unreachable
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Ending, HandedBack, Report, ReportResult
from tools.judge import Fault
from tools.simulator.nodes import ServerNode
from tools.simulator.plan import FaultPlan
from tools.simulator.world import TZDATA, Node, Trouble, World

_SLOWNESS = 100.0
_FALSE_ENDINGS: tuple[Ending, ...] = (
    Success(result=b"false"),
    Failure(error="false"),
    HandedBack(was_started=True),
)
_LONGEST_WAIT = 30
"""How long a process may take to end when it was asked to, or to reach the call at which it is to crash, in seconds."""


class Nemesis:
    """Injects the plan's faults. Faults of one kind on one target may overlap, and end with the last one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holds: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Start every fault at its instant. Return when all are over."""
        tasks = []
        for plan in self._world.plan.faults:
            await asyncio.sleep(max(plan.at - self._world.loop.time(), 0))
            tasks.append(asyncio.create_task(self._do(plan)))
        await asyncio.gather(*tasks)

    def heal(self) -> None:
        """Start or resume whatever does not run, and repair all connections."""
        self._world.is_store_down = self._world.is_store_full = False
        self._world.failure_rate = 0.0
        for node in self._world.nodes.values():
            node.trouble.is_cut = node.trouble.is_lossy = node.trouble.is_cut_off = False
            node.trouble.is_late = False
            node.trouble.slowness = 1.0
            node.trouble.host_skew = 0.0
            node.trouble.tzdata = TZDATA
            node.trouble.crash_at = None
            if node.process is not None:
                node.process.go_on()
            node.boot()

    async def _do(self, plan: FaultPlan) -> None:
        world = self._world
        began: datetime | None = world.time()
        world.recorder.say(f"fault {plan.kind} {plan.target} {plan.verb} for {plan.seconds}")
        world.recorder.reached[f"fault_{plan.kind}"] += 1
        node = world.nodes.get(plan.target)
        if node is None:
            await self._break_store("is_store_full" if plan.kind == "full" else "is_store_down", plan.seconds)
        elif plan.kind == "crash_at":
            began = await self._crash(plan, node)
        elif plan.kind in {"kill", "stop"}:
            await self._end(plan, node)
        elif plan.kind == "tzdata":
            await self._reinstall(plan, node)
        elif plan.kind == "stranger":
            await self._impersonate(plan, node)
        elif plan.kind == "pause":
            await self._pause(plan.seconds, node)
        else:
            await self._trouble(plan, node)
        if began is not None:
            fault = Fault(kind=plan.kind, target=plan.target, at=began, until=world.time())
            world.recorder.faults.append(fault)

    async def _break_store(self, how: str, seconds: float) -> None:
        setattr(self._world, how, True)
        self._take("store", how)
        await asyncio.sleep(seconds)
        if self._release("store", how):
            setattr(self._world, how, False)

    async def _end(self, plan: FaultPlan, node: Node) -> None:
        if plan.kind == "kill":
            node.kill()
        else:
            await self._stop(node)
        await asyncio.sleep(plan.seconds)
        node.boot()

    async def _stop(self, node: Node) -> None:
        node.stop()
        for _ in range(_LONGEST_WAIT):  # a drain takes its time
            if node.process is None:
                break
            await asyncio.sleep(1)
        else:
            node.kill()  # as a service manager does

    async def _reinstall(self, plan: FaultPlan, node: Node) -> None:
        """Restart a server with other zone data, and later with the data that it had."""
        node.trouble.tzdata = plan.version
        self._take(node.name, "tzdata")
        await self._stop(node)
        node.boot()
        await asyncio.sleep(plan.seconds)
        if self._release(node.name, "tzdata"):
            node.trouble.tzdata = TZDATA
            await self._stop(node)
            node.boot()

    async def _crash(self, plan: FaultPlan, node: Node) -> datetime | None:
        """Crash at a call of a verb, if need be after a restart: some verbs are called only at the start.

        Return when the crash was noticed; None if the process never made that call.
        """
        crash = (plan.verb, plan.is_after)
        node.trouble.crash_at = crash
        waited = 0
        while node.trouble.crash_at is crash and waited < _LONGEST_WAIT:
            await asyncio.sleep(1)
            waited += 1
        if node.trouble.crash_at is crash:
            node.trouble.crash_at = None
            return None
        found_at = self._world.time()  # reached, or another crash has taken its place
        await asyncio.sleep(plan.seconds)
        node.boot()
        return found_at

    async def _pause(self, seconds: float, node: Node) -> None:
        process = node.process
        if process is None:
            return
        process.pause()
        self._take(process.name, "pause")
        await asyncio.sleep(seconds)
        if self._release(process.name, "pause"):
            process.go_on()

    async def _impersonate(self, plan: FaultPlan, node: Node) -> None:
        """Let a stranger report leases of other sessions to one server."""
        assert isinstance(node, ServerNode)
        world, random = self._world, Random(f"stranger:{self._world.plan.seed}:{plan.at}")
        until = world.loop.time() + plan.seconds
        while world.loop.time() < until:
            await asyncio.sleep(random.uniform(0.05, 0.3))
            leases = world.recorder.leases
            if not leases:
                continue
            run_id = random.choice(sorted(leases))
            token, holder = leases[run_id]
            others = [session for session in sorted(world.recorder.workers) if session != holder]
            session_id = random.choice([*others, SessionId(holder + 1)])
            ending = random.choice(_FALSE_ENDINGS)
            reports = (Report(run_id=run_id, token=token, ending=ending),)
            world.recorder.reached["lease_reported_by_a_stranger"] += 1
            with suppress(Unreachable, StoreUnavailable):
                await node.ask(Trouble(), partial(_report, session_id=session_id, reports=reports))

    async def _trouble(self, plan: FaultPlan, node: Node) -> None:
        values: dict[str, tuple[str, float]] = {
            "slow": ("slowness", _SLOWNESS),
            "skew": ("host_skew", plan.skew),
        }
        name, value = values.get(plan.kind, (f"is_{plan.kind}", True))
        setattr(node.trouble, name, value)
        self._take(node.name, name)
        await asyncio.sleep(plan.seconds)
        if self._release(node.name, name):
            setattr(node.trouble, name, getattr(Trouble(), name))

    def _take(self, target: str, what: str) -> None:
        self._holds[target, what] = self._holds.get((target, what), 0) + 1

    def _release(self, target: str, what: str) -> bool:
        self._holds[target, what] -= 1
        return not self._holds[target, what]


async def _report(
    engine: Engine, *, session_id: SessionId, reports: tuple[Report, ...]
) -> tuple[ReportResult, ...]:
    return await engine.gateway.report(session_id, reports)


def margin(beat_period: float) -> timedelta:
    """Return the longest time until a silent worker is declared dead."""
    return timedelta(seconds=4 * beat_period + 1)
