"""The simulated world: its time, chance and store, and the processes in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Protocol
from uuid import UUID

from mainspring.errors import StoreUnavailable
from mainspring.ports.store import Store
from tools.judge import Fault
from tools.simulator.loop import Process, VirtualLoop
from tools.simulator.plan import Plan
from tools.simulator.recorder import Recorder

_READING = ("read_", "list_", "get_", "count_")
TZDATA = "2026a"
LATE_SHARE = 0.3
LOST_PATIENCE = 3.0
"""How long a caller waits for a lost answer of another process, in seconds."""


@dataclass(slots=True)
class Trouble:
    """What is wrong with a process or its connections at the moment. Faults set it.

    Attributes:
        is_cut: requests to the store do not arrive.
        is_lossy: the store's answers are lost after the commit.
        is_cut_off: nothing passes between it and other processes.
        is_late: some requests from and to it are carried out long after their callers gave up.
        slowness: the factor of all latencies.
        host_skew: how far its host's wall clock is ahead of the store's, in seconds.
        tzdata: the version of the zone data at its next start.
        crash_at: the store call at which it is to crash next, as (verb, is_after).
    """

    is_cut: bool = False
    is_lossy: bool = False
    is_cut_off: bool = False
    is_late: bool = False
    slowness: float = 1.0
    host_skew: float = 0.0
    tzdata: str = TZDATA
    crash_at: tuple[str, bool] | None = None


class Node(Protocol):
    """A server or worker that faults can hit. Its name stays the same, but each start makes a new process."""

    name: str
    process: Process | None
    trouble: Trouble

    def boot(self) -> None:
        """Start it if it does not run."""
        ...

    def kill(self) -> None:
        """End it without warning."""
        ...

    def stop(self) -> None:
        """Ask it to end in an orderly way."""
        ...


@dataclass(slots=True)
class World:
    """Everything that the parts of a simulation share.

    Attributes:
        time: returns the store's time.
        store: the store that holds everything; on SQLite, that of the running server.
        folder: the folder of SQLite's files; None with the memory store.
        is_store_down: no process reaches the store.
        is_store_full: it can be read, but takes no write.
        failure_rate: the share of store calls that fail, half of them after the commit.
        worst_clock: the most by which any process's clock was off.
    """

    plan: Plan
    loop: VirtualLoop
    time: Callable[[], datetime]
    store: Store
    recorder: Recorder
    folder: Path | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    is_store_down: bool = False
    is_store_full: bool = False
    failure_rate: float = 0.0
    worst_clock: timedelta = timedelta(0)

    @property
    def patience(self) -> float:
        """How long a store call waits for an answer, in seconds: less than a lease, as drivers are set up."""
        return min(LOST_PATIENCE, self.plan.beat_period)

    def note_fault(self, kind: str, target: str, seconds: float) -> None:
        """Record a fault that begins now and lasts for some seconds."""
        now = self.time()
        fault = Fault(kind=kind, target=target, at=now, until=now + timedelta(seconds=seconds))
        self.recorder.faults.append(fault)

    def straggle(self, target: str, random: Random) -> float | None:
        """Draw how many seconds late a request arrives; None if it is not late.

        All have arrived when the faults end.
        """
        seconds = random.uniform(0.0, 9 * self.plan.beat_period)
        if random.random() >= LATE_SHARE or self.loop.time() + seconds >= self.plan.seconds:
            return None
        self.note_fault("late", target, seconds)
        return seconds

    def random(self, purpose: str) -> Random:
        """Return a random source for one purpose, so that others do not influence it."""
        return Random(f"{self.plan.seed}:{purpose}")


class SeededIds:
    """Job ids of version 7 drawn from a seed."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random

    def new_uuid(self) -> UUID:
        """Return a fresh id."""
        milliseconds = int(self._world.time().timestamp() * 1000)
        bits = milliseconds << 80 | 0x7 << 76 | self._random.getrandbits(12) << 64
        return UUID(int=bits | 0b10 << 62 | self._random.getrandbits(62))

    def new_secret(self, size: int) -> bytes:
        """Return so many bytes."""
        return self._random.randbytes(size)


class DriftingMonotonic:
    """A process's monotonic clock: it begins anywhere, and runs a little fast or slow."""

    def __init__(self, loop: VirtualLoop, random: Random, drift: float) -> None:
        self._loop = loop
        self._start = random.uniform(0, 1e6)
        self._rate = 1 + random.uniform(-drift, drift)

    def __call__(self) -> float:
        """Return its seconds."""
        return self._start + self._loop.now * self._rate


class Listener(Protocol):
    """Watches a process's store calls."""

    def check(self, verb: str, given: Mapping[str, Any]) -> None:
        """Called before each store call."""
        ...

    def learn(self, verb: str, args: tuple[Any, ...], given: Mapping[str, Any], result: Any) -> None:
        """Called with the answer of each store call. It is not called if no answer came."""
        ...


class StoreLink:
    """One process's connection to the store. It takes the place of `Store`, with latency and faults.

    A call may fail before it is committed or after; the process may die between any two calls.
    """

    def __init__(self, world: World, node: Node, process: Process, random: Random) -> None:
        self._world = world
        self._node = node
        self._process = process
        self._random = random
        self.now: Callable[[], datetime] | None = None
        self.listener: Listener | None = None

    @cached_property
    def capabilities(self) -> Any:
        """What the store can do. The memory store represents one that several processes may write."""
        capabilities = self._world.store.capabilities
        return replace(capabilities, concurrent_writers=True) if self._world.folder is None else capabilities

    @property
    def failovers(self) -> Any:
        """The failovers of the store's database: none."""
        return self._world.store.failovers

    async def open(self) -> None:
        """Do nothing: the store is open."""

    async def close(self) -> None:
        """Do nothing: the store stays open for others."""

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        is_reading = verb.startswith(_READING)

        def call(*args: Any, **given: Any) -> Any:
            return self._call(verb, args, given, is_reading=is_reading)

        self.__dict__[verb] = call
        return call

    async def _call(
        self, verb: str, args: tuple[Any, ...], given: dict[str, Any], *, is_reading: bool
    ) -> Any:
        world, node, random = self._world, self._node, self._random
        trouble, listener = node.trouble, self.listener
        if listener is not None:
            listener.check(verb, given)
        await world.loop.nap(self._latency())
        await maybe_crash(world, node, verb, is_after=False)
        fate = random.random() / world.failure_rate if world.failure_rate else 1.0
        if fate < 1.0:
            world.note_fault("flaw", node.name, world.patience)
        is_refused = world.is_store_full and not is_reading
        if world.is_store_down or trouble.is_cut or fate < 0.5 or is_refused:
            await asyncio.sleep(random.choice([0.0, world.patience]))
            world.recorder.reached["store_call_failed_before_commit"] += 1
            raise StoreUnavailable(f"{verb}: no connection")
        if trouble.is_late and world.folder is None and not is_reading:
            await self._maybe_straggle(verb, args, given)
        result = await getattr(world.store, verb)(*args, **given)
        world.recorder.note(verb, node.name, args, given, result)
        if "now" in given:
            self._compare_clocks()
        await maybe_crash(world, node, verb, is_after=True)
        await world.loop.nap(self._latency())
        if trouble.is_lossy or 0.5 <= fate < 1.0:
            world.recorder.reached["commit_whose_answer_was_lost"] += 1
            await asyncio.sleep(random.choice([0.0, world.patience]))
            raise StoreUnavailable(f"{verb}: the answer was lost")
        if listener is not None:
            listener.learn(verb, args, given, result)
        return result

    async def _maybe_straggle(self, verb: str, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Perhaps delay a request, so that it is carried out long after its caller gave it up."""
        seconds = self._world.straggle(self._node.name, self._random)
        if seconds is None:
            return
        loop = self._world.loop
        _ = loop.create_task(self._carry_out_late(seconds, verb, args, given), context=Context())
        await asyncio.sleep(self._world.patience)
        raise StoreUnavailable(f"{verb}: no answer came in time")

    async def _carry_out_late(
        self, seconds: float, verb: str, args: tuple[Any, ...], given: dict[str, Any]
    ) -> None:
        world = self._world
        await world.loop.nap(seconds)
        if world.is_store_down or world.is_store_full:
            return
        result = await getattr(world.store, verb)(*args, **given)
        world.recorder.note(verb, self._node.name, args, given, result)
        world.recorder.reached["store_call_carried_out_late"] += 1

    def _latency(self) -> float:
        spread = self._random.random()
        return self._world.plan.latency * self._node.trouble.slowness * spread / (1.2 - spread)

    def _compare_clocks(self) -> None:
        if self.now is not None:
            world = self._world
            world.worst_clock = max(world.worst_clock, abs(self.now() - world.time()))


async def maybe_crash(world: World, node: Node, verb: str, *, is_after: bool) -> None:
    """Kill a process if this is the call at which it is to crash."""
    if node.trouble.crash_at != (verb, is_after):
        return
    node.trouble.crash_at = None
    where = f"crash_{'after' if is_after else 'before'}_{verb}"
    world.recorder.reached[where] += 1
    world.recorder.say(f"{node.name} {where}")
    world.note_fault("crash", node.name, 0.0)
    if world.folder is None:
        node.kill()
    else:  # not before everything that was committed together with this call is recorded
        world.loop.call_soon(node.kill)
    await world.loop.create_future()  # never done: the process is dead
