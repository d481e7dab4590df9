"""F8 to F10: lines that swallow, lose or delay."""

from __future__ import annotations

import asyncio
import time
from random import Random

from tests.chaos.cluster.scene import Cluster
from tests.support.proxy import Cut, Flow, Proxy

_FLAP = (0.5, 3.0)
_FLAPS = 3
_CUTS = 5
_CUT_PATIENCE = 2.0
_DELAYS = (0.05, 2.0)
_ROLES = ("submit", "claim", "apply", "fire", "beat", "edit", "plan", "watch")
_CALLS = ("register", "claim", "beat", "report")


async def cut_off(cluster: Cluster, random: Random) -> None:
    """F8: one process's line swallows everything, or one way only, on and off."""
    name, line = _draw_line(cluster, random)
    flow = random.choice([Flow.DROP, Flow.DROP_REQUESTS, Flow.DROP_ANSWERS, Flow.REFUSE])
    for _ in range(random.randint(1, _FLAPS)):
        at = time.time()
        _let(line, flow)
        if flow is Flow.REFUSE:
            _reset(line)
        await asyncio.sleep(random.uniform(*_FLAP))
        _let(line, Flow.PASS)
        cluster.blame("cut", name, at, time.time())
        await asyncio.sleep(random.uniform(*_FLAP) / 2)
    _reset(line)  # what was swallowed is gone: no network gives a connection its missing middle


async def lose_answers(cluster: Cluster, random: Random) -> None:
    """F9: requests are carried out, and their answers never come."""
    name, line = _draw_line(cluster, random)
    at = time.time()
    for _ in range(_CUTS):
        proxy = random.choice(line)
        if cluster.is_to_store(name):
            role = random.choice(_ROLES)
            proxy.arm(Cut.ANSWER, name=f"mainspring-{role}", request=random.choice([b"COMMIT", b""]))
        else:
            role = random.choice(_CALLS)
            proxy.arm(Cut.ANSWER, name="", request=f"/worker/{role}".encode())
        is_cut = await proxy.is_cut_within(_CUT_PATIENCE)
        cluster.reached[f"answer to {role} {'lost' if is_cut else 'not met'}"] += 1
        proxy.disarm()
    cluster.blame("cut", name, at, time.time())


async def slow_down(cluster: Cluster, random: Random) -> None:
    """F10: everything on one line takes long, or the other side is gone without a word."""
    name, line = _draw_line(cluster, random)
    at = time.time()
    if random.random() < 0.5:
        for proxy in line:
            proxy.delay = random.uniform(*_DELAYS)
        await asyncio.sleep(random.uniform(1.0, 3.0) * cluster.size.worker_lease)
        for proxy in line:
            proxy.delay = 0.0
        cluster.reached["delay"] += 1
    else:
        for proxy in line:
            proxy.half_open()
        await asyncio.sleep(cluster.size.worker_lease)
        cluster.reached["half open"] += 1
    cluster.blame("cut", name, at, time.time())


def _draw_line(cluster: Cluster, random: Random) -> tuple[str, list[Proxy]]:
    return random.choice(sorted(cluster.lines.items()))


def _let(line: list[Proxy], flow: Flow) -> None:
    for proxy in line:
        proxy.flow = flow


def _reset(line: list[Proxy]) -> None:
    for proxy in line:
        proxy.reset()
