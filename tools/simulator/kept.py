"""Durable functions, in a share of the seeds: their steps write down what they do, and their workers die between."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from mainspring.ports.executor import AttemptContext
from mainspring.sdk.durable import DurableContext, make_durable
from tools.judge import Effect, StepNote
from tools.simulator.plan import KEPT_VERBS, Action, FaultPlan, JobPlan
from tools.simulator.world import Node, World

_BRANCHES = 3


def make_kept(
    seed: int, names: list[str], seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, what they submit, and crashes while steps are kept and read.

    A random source of its own leaves other draws as they are.

    Args:
        names: the processes that can crash.
    """
    random = Random(f"kept:{seed}")
    if random.random() < 0.7:
        return (), (), ()
    return draw_kept(random, names, seconds)


def draw_kept(
    random: Random, names: list[str], seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the same in any case."""
    jobs = tuple(
        JobPlan(
            name=f"kept-{place}",
            body={
                "function": "travel",
                "timeout": "20s",
                "poison_limit": random.choice([1, 3]),
                "retry": {"max_retries": random.choice([1, 4]), "backoff": "fixed", "delay": "300ms"},
            },
            seconds=(0.0, random.choice([0.05, 0.5, 1.5])),
            fail=random.choice([0.0, 0.05, 0.2]),
            crash=random.choice([0.0, 0.0, 0.02, 0.05]),
        )
        for place in range(random.choice([1, 2]))
    )
    actions = []
    for job in jobs:
        actions.append(Action(at=round(random.uniform(3, 6), 3), kind="create", job=job.name))
        for _ in range(random.randint(1, 3)):
            at = round(random.uniform(8, seconds * 0.8), 3)
            body = {"count": random.choice([1, 2, 5])}
            actions.append(Action(at=at, kind="flood", job=job.name, body=body))
        if random.random() < 0.3:
            actions.append(
                Action(at=round(random.uniform(10, seconds * 0.8), 3), kind="cancel", job=job.name)
            )
    crashes = tuple(
        FaultPlan(
            at=round(random.uniform(8, seconds * 0.8), 3),
            seconds=random.choice([0.2, 1.0, 8.0]),
            kind="crash_at",
            target=random.choice(names),
            verb=random.choice(KEPT_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 1, 3]))
    )
    return jobs, tuple(actions), crashes


def make_traveling(world: World, node: Node) -> Callable[..., Any]:
    """Return the durable function of all such jobs, for the workers of one node, as a worker calls it."""
    plans = {job.name: job for job in world.plan.jobs}

    async def travel(ctx: DurableContext, **_: object) -> int:
        plan = plans[ctx.attempt.job_name]
        journey = _Journey(world, node, plan, ctx)
        try:
            await journey.make()
        except Exception:
            journey.effect.ended_at = world.time()
            journey.effect.ending = "failed"
            journey.effect.cause = "RuntimeError"
            raise
        journey.effect.ended_at = world.time()
        journey.effect.ending = "done"
        return ctx.attempt.token

    return make_durable(travel)


@dataclass(slots=True, init=False)
class _Journey:
    """One attempt. Its steps and sleeps are drawn by the run, so that they are the same in each attempt."""

    effect: Effect

    _world: World
    _node: Node
    _plan: JobPlan
    _ctx: DurableContext
    _chance: Random
    _shape: Random
    _bodies: int

    def __init__(self, world: World, node: Node, plan: JobPlan, ctx: DurableContext) -> None:
        attempt = ctx.attempt
        self._world, self._node, self._plan, self._ctx = world, node, plan, ctx
        self._chance = Random(f"{world.plan.seed}:{attempt.run_id}:{attempt.token}")
        self._shape = Random(f"{world.plan.seed}:{attempt.run_id}")
        self._bodies = 0
        self.effect = _effect_of(attempt, node, world)
        world.recorder.effects.append(self.effect)
        self._say("begins")

    async def make(self) -> None:
        """Go through all of its legs: a step, several at once, steps of one name, or a sleep."""
        sleeps = again = 0
        for leg in range(self._shape.choice([2, 4, 8])):
            kind = self._shape.choice(["step", "step", "branches", "again", "sleep"])
            if kind == "sleep":
                await self._sleep(sleeps, self._shape.choice([0.5, 2.0, 5.0]))
                sleeps += 1
            elif kind == "branches":
                await asyncio.gather(*(self._step(f"branch {leg}.{one}", 0) for one in range(_BRANCHES)))
            elif kind == "again":
                await self._step("again", again)
                again += 1
            else:
                await self._step(f"step {leg}", 0)

    async def _step(self, name: str, number: int) -> None:
        value = await self._ctx.step(name, self._do, name, number)
        self._note("given", name, number, value)

    async def _do(self, name: str, number: int) -> str:
        self._note("began", name, number)
        await asyncio.sleep(self._chance.uniform(*self._plan.seconds))
        if self._chance.random() < self._plan.crash:
            self._die()
            await self._world.loop.create_future()
        if self._chance.random() < self._plan.fail:
            raise RuntimeError("the step fails")
        self._bodies += 1
        return f"{self._ctx.attempt.token}.{self._bodies}"

    async def _sleep(self, number: int, seconds: float) -> None:
        await self._ctx.sleep(seconds)
        self._note("given", "$sleep", number, seconds)

    def _die(self) -> None:
        world, node = self._world, self._node
        world.recorder.reached["step_killed_its_worker"] += 1
        pause = self._chance.uniform(0.1, 3)
        world.note_fault("job_crash", node.name, pause)
        world.loop.call_later(pause, node.boot, context=contextvars.Context())
        node.kill()

    def _note(self, what: str, name: str, number: int, value: object = None) -> None:
        attempt = self._ctx.attempt
        note = StepNote(
            run_id=attempt.run_id,
            token=attempt.token,
            name=name,
            number=number,
            what=what,
            at=self._world.time(),
            value=value,
        )
        self._world.recorder.note_step(note, self._node.name)

    def _say(self, what: str) -> None:
        attempt = self._ctx.attempt
        self._world.recorder.say(f"run {attempt.run_id} token {attempt.token} {what} on {self._node.name}")


def _effect_of(attempt: AttemptContext, node: Node, world: World) -> Effect:
    return Effect(
        run_id=attempt.run_id,
        job_id=attempt.job_id,
        token=attempt.token,
        attempt=attempt.attempt,
        worker=node.name,
        started_at=world.time(),
    )
