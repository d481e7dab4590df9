"""Gives what attempts write to those who follow, soon after it is kept: by hints of this process, else by looking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.run_logs import LogPart
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.run_logs import LogPlace

PAUSE = 0.1
"""The least seconds between two looks, so that the news of many runs are read together."""
PERIOD = 1.0
"""Seconds between two looks for what other processes have kept."""
IDLE = 60.0
ALIVE = timedelta(seconds=15)
"""How long a follower hears nothing, at most."""
PARTS = 4
"""The most parts of one attempt that are read in one look, which each of its followers holds until it has sent them."""


class LogFollower:
    """One who follows the attempt of a run.

    Attributes:
        run_id: the run.
        place: up to where it has read; None while it follows no attempt under way.
        parts: what was read for it since it last waited.
        has_moved_on: whether its attempt is not under way any more, or another one may be.
    """

    def __init__(self, run_id: RunId) -> None:
        self.run_id: RunId = run_id
        self.place: LogPlace | None = None
        self.parts: list[LogPart] = []
        self.has_moved_on: bool = False
        self.has_news: bool = False
        self.heard_at: datetime | None = None
        self._woken = asyncio.Event()

    async def wait(self) -> list[LogPart]:
        """Wait for parts, for the end of the attempt, or for nothing for some seconds. Return the parts."""
        await self._woken.wait()
        self._woken.clear()
        parts, self.parts = self.parts, []
        return parts

    def wake(self, now: datetime | None = None) -> None:
        """Have it look at what it has."""
        self.heard_at = now or self.heard_at
        self._woken.set()


class LogFeed:
    """Reads for all followers of this process together. A process that nobody asks does nothing."""

    name = "log-feed"

    def __init__(self, store: Store, *, waiter: Waiter) -> None:
        self._store = store
        self.waiter = waiter
        self._followers: dict[RunId, list[LogFollower]] = {}
        self._is_hurried = False
        self._look_at: datetime | None = None

    @property
    def followers(self) -> int:
        """How many there are."""
        return sum(map(len, self._followers.values()))

    @contextmanager
    def follow(self, run_id: RunId) -> Iterator[LogFollower]:
        """Have a run's news read until the block ends."""
        follower = LogFollower(run_id)
        self._followers.setdefault(run_id, []).append(follower)
        self.waiter.signal()
        try:
            yield follower
        finally:
            others = self._followers[run_id]
            others.remove(follower)
            if not others:
                del self._followers[run_id]

    def note_parts(self, run_ids: Iterable[RunId]) -> None:
        """Note that parts were kept."""
        if self._followers:
            for run_id in run_ids:
                for follower in self._followers.get(run_id, ()):
                    follower.has_news = True
                    self._hurry()

    def note_ends(self, run_ids: Iterable[RunId]) -> None:
        """Note that attempts have ended, or were taken away."""
        if self._followers:
            for run_id in run_ids:
                for follower in self._followers.get(run_id, ()):
                    follower.has_moved_on = True
                    follower.wake()

    def _hurry(self) -> None:
        if not self._is_hurried:
            self._is_hurried = True
            self.waiter.signal()

    async def tick(self, now: datetime) -> float:
        """Read what is new, and now and then what other processes may have kept."""
        if not self._followers:
            self._look_at, self._is_hurried = None, False
            return IDLE
        everyone = [one for followers in self._followers.values() for one in followers]
        is_look = self._look_at is None or now >= self._look_at
        if is_look:
            self._look_at = now + timedelta(seconds=PERIOD)
        wanted = [one for one in everyone if one.place is not None and (is_look or one.has_news)]
        await self._read(wanted, now)
        if is_look:
            await self._look_for_ends(everyone, now)
        self._is_hurried = any(one.has_news for one in everyone)
        left = PERIOD if self._look_at is None else (self._look_at - now).total_seconds()
        return min(PAUSE, left) if self._is_hurried or wanted else left

    async def _read(self, wanted: list[LogFollower], now: datetime) -> None:
        """Read on for those who have taken what was read before."""
        reading: dict[LogPlace, list[LogFollower]] = {}
        for follower in wanted:
            follower.has_news = bool(follower.parts)
            if not follower.parts and follower.place is not None:
                reading.setdefault(follower.place, []).append(follower)
        found = await self._store.list_log_parts(list(reading), limit=PARTS)
        for (place, readers), parts in zip(reading.items(), found, strict=True):
            for follower in readers:
                if parts and follower.place == place:
                    follower.parts = list(parts)
                    follower.has_news |= len(parts) == PARTS
                    follower.wake(now)

    async def _look_for_ends(self, everyone: list[LogFollower], now: datetime) -> None:
        held = await self._store.read_held(list({one.run_id: None for one in everyone}))
        tokens = {run.run_id: run.token for run in held if run is not None}
        for follower in everyone:
            token = None if follower.place is None else follower.place.token
            if token is None or tokens.get(follower.run_id) != token:
                follower.has_moved_on = True
                follower.wake(now)
            elif follower.heard_at is None:
                follower.heard_at = now
            elif now - follower.heard_at >= ALIVE:
                follower.wake(now)
