"""Jobs that tell of their failures, the channel that they tell, and crashes where that is saved, taken and sent."""

from __future__ import annotations

import asyncio
from random import Random

from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.notifications import Message
from mainspring.ports.channel import ChannelUnavailable
from tools.judge import AlertTold
from tools.simulator.plan import ALERT_VERBS, Action, FaultPlan, JobPlan
from tools.simulator.world import Node, World, maybe_crash

CHANNEL = "ops"
_SHARE = 0.15
"""The share of the seeds in which alerts are judged. In others, nothing of them runs, and no draw is another one."""
_LONGEST_SEND = 0.3
_LOST, _ANSWER_LOST, _DOUBLED = 0.15, 0.15, 0.1


def make_alerted(
    seed: int, servers: int, seconds: float
) -> tuple[tuple[JobPlan, ...], tuple[Action, ...], tuple[FaultPlan, ...]]:
    """Draw the jobs, the channel and what befalls their servers, in a share of the seeds; else nothing."""
    random = Random(f"alerted:{seed}")
    if random.random() >= _SHARE:
        return (), (), ()
    jobs: list[JobPlan] = []
    body = {
        "kind": "webhook",
        "config": {"url": "https://ops.example.org/"},
        "group_wait": random.choice(["0s", "1s", "5s"]),
    }
    actions = [Action(at=0.5, kind="channel", job="", body=body)]
    for index in range(random.choice([1, 2, 4])):
        name = f"watched-{index}"
        job = {
            "every": random.choice(["1s", "3s", "7s", "20s"]),
            "overlap": "allow",
            "retry": {"max_retries": random.choice([0, 0, 1]), "backoff": "fixed", "delay": "500ms"},
            "timeout": "20s",
            "notify": {"to": [CHANNEL]},
        }
        fail = random.choice([0.1, 0.4, 0.8])
        jobs.append(JobPlan(name=name, body=job, seconds=(0.0, 0.1), fail=fail))
        actions.append(Action(at=round(random.uniform(3, 6), 3), kind="create", job=name))
        for _ in range(random.choice([0, 2])):
            kind, at = random.choice(["pause", "resume"]), round(random.uniform(10, seconds), 3)
            actions.append(Action(at=at, kind=kind, job=name))
        if random.random() < 0.1:
            actions.append(Action(at=round(random.uniform(60, seconds), 3), kind="delete", job=name))
    names = [f"server-{index}" for index in range(servers)]
    return (
        tuple(jobs),
        tuple(actions),
        (*_make_crashes(random, names, seconds), *_make_pauses(random, names, seconds)),
    )


def _make_crashes(random: Random, names: list[str], seconds: float) -> tuple[FaultPlan, ...]:
    return tuple(
        FaultPlan(
            at=round(random.uniform(5, seconds * 0.8), 3),
            seconds=random.choice([0.2, 1.0, 8.0]),
            kind="crash_at",
            target=random.choice(names),
            verb=random.choice(ALERT_VERBS),
            is_after=random.random() < 0.5,
        )
        for _ in range(random.choice([0, 2, 4, 8]))
    )


def _make_pauses(random: Random, names: list[str], seconds: float) -> tuple[FaultPlan, ...]:
    return tuple(
        FaultPlan(
            at=round(random.uniform(5, seconds * 0.8), 3),
            seconds=round(random.uniform(5, 20), 3),
            kind="pause",
            target=random.choice(names),
        )
        for _ in range(random.choice([0, 0, 2, 6]))
    )


class FlakyChannel:
    """Takes the messages of one server. Some get lost, of some the answer, and some come twice, until all is healed."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        self._random = world.random(f"channel:{node.name}")

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        """Accept all settings."""

    async def send(self, config: ChannelConfig, message: Message) -> None:
        """Take a message, or lose it.

        Raises:
            ChannelUnavailable: no answer came.
        """
        del config
        world, random = self._world, self._random
        await world.loop.nap(random.random() * _LONGEST_SEND)
        await maybe_crash(world, self._node, "send", is_after=False)
        fate = random.random() if world.loop.time() < world.plan.seconds else 1.0
        if fate < _LOST:
            await self._fail("message_lost")
        for _ in range(2 if _LOST + _ANSWER_LOST <= fate < _LOST + _ANSWER_LOST + _DOUBLED else 1):
            ids = message.alert_ids or tuple(one.alert_id for one in message.alerts)
            told = AlertTold(at=world.time(), id=message.id, kind=str(message.kind), alert_ids=ids)
            world.recorder.note_told(told)
        await maybe_crash(world, self._node, "send", is_after=True)
        if fate < _LOST + _ANSWER_LOST:
            await self._fail("answer_of_a_channel_lost")

    async def _fail(self, what: str) -> None:
        self._world.recorder.reached[what] += 1
        await asyncio.sleep(self._random.choice([0.0, 3.0]))
        raise ChannelUnavailable("no answer came")
