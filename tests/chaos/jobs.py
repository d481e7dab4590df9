"""The jobs that are carried out as Python functions; their process knows the effects' folder from its environment."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from random import Random

from mainspring import App, SnoozeRun, current_attempt
from tests.chaos.effects import Pen

app = App()
_RETRY = {"max_retries": 3, "backoff": "fixed", "delay": "300ms"}


@dataclass(frozen=True, slots=True)
class Nature:
    """How an attempt goes: it takes from, to so many seconds, and fails or snoozes with these probabilities."""

    seconds: tuple[float, float] = (0.0, 0.03)
    fail: float = 0.0
    snooze: float = 0.0

    def draw(self, random: Random) -> str:
        """Return how the attempt ends."""
        if random.random() < self.fail:
            return "failed"
        return "snoozed" if random.random() < self.snooze else "done"


@app.job(name="chaos-async", retry=_RETRY)
async def act(**_: object) -> int:
    """Write a start and an end."""
    return await _act(Nature())


@app.job(name="chaos-sync", retry=_RETRY)
def act_in_thread(**_: object) -> int:
    """Do the same in a thread."""
    pen, random = _begin()
    time.sleep(random.uniform(0.0, 0.03))
    return _end(pen, Nature(fail=0.02).draw(random))


@app.job(name="chaos-flaky", retry=_RETRY)
async def act_badly(**_: object) -> int:
    """Fail often, and snooze at times."""
    return await _act(Nature(fail=0.3, snooze=0.15))


@app.job(name="chaos-slow", retry=_RETRY)
async def act_slowly(**_: object) -> int:
    """Take a while, so that faults meet it under way."""
    return await _act(Nature(seconds=(0.2, 0.8), fail=0.05))


@app.job(name="chaos-once", delivery="at_most_once", retry={"max_retries": 0})
async def act_once(**_: object) -> int:
    """Begin once, whatever happens."""
    return await _act(Nature(seconds=(0.0, 0.1)))


@app.job(name="chaos-bulk", retry=_RETRY)
async def act_lightly(**_: object) -> int:
    """Write a start and an end, not durably: for thousands a second, of which only processes are killed."""
    pen = Pen.of(current_attempt(), is_durable=False)
    pen.start()
    pen.end("done")
    return pen.token


@app.job(name="chaos-keyed", retry=_RETRY)
async def act_on_key(number: int = 0, **_: object) -> int:
    """Note which payload it was given, and take a while."""
    pen, random = _begin()
    pen.see(number)
    await asyncio.sleep(random.uniform(0.02, 0.2))
    return _end(pen, Nature(fail=0.1).draw(random))


@app.job(name="chaos-broken", retry={"max_retries": 0})
async def act_in_vain(**_: object) -> int:
    """Fail every time."""
    return await _act(Nature(fail=1.0))


async def _act(nature: Nature) -> int:
    pen, random = _begin()
    await asyncio.sleep(random.uniform(*nature.seconds))
    return _end(pen, nature.draw(random))


def _begin() -> tuple[Pen, Random]:
    context = current_attempt()
    pen = Pen.of(context)
    pen.start()
    return pen, Random(f"{context.run_id}:{context.token}")


def _end(pen: Pen, ending: str) -> int:
    pen.end(ending)
    if ending == "failed":
        raise RuntimeError("the job fails")
    if ending == "snoozed":
        raise SnoozeRun(0.2)
    return pen.token
