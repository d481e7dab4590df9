"""The base of all moves of the model walk: the two sides, chance, and values that mean the same on both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, TypeVar

from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind, Job, JobSpec, LaneKey
from mainspring.core.outcomes import Transition
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import DueClock, NewFireRange
from mainspring.testing.conformance.model_side import Side
from mainspring.testing.factories import MINUTE, START, IdSequence, make_fire_range, make_new_run

T = TypeVar("T")


class Claimed(NamedTuple):
    """A lease that was given during the walk, and may have ended since."""

    serial: int
    token: int
    session: int
    attempt: int
    spec: JobSpec


class WalkBase:
    """The base of all moves of a seeded walk over two stores.

    Args:
        reference: the store that is taken to be right.
        subject: the store that is tested, empty.
        seed: the seed of all decisions of the walk.
    """

    def __init__(self, reference: Store, subject: Store, *, seed: int) -> None:
        self.reference: Side = Side(reference)
        self.subject: Side = Side(subject)
        self.seed = seed
        self.random: Random = Random(seed)
        self.ids: IdSequence = IdSequence(1)
        self.now = START
        self.log: list[str] = []
        self.serial: int = 0
        self.microseconds: int = 0
        self.job_ids: list[JobId] = []
        self.seen_jobs: list[Job] = []
        self.seen_clocks: dict[JobId, DueClock] = {}
        self.seen_epochs: list[dict[int, int]] = [{}]
        self.leases: list[Claimed] = []
        self.lane_keys: dict[LaneKey, None] = {}
        self.numbers: list[int] = []
        self.ends: list[tuple[int, Transition]] = []

    async def agree(self, call: Callable[[Side], Awaitable[T]]) -> T:
        """Make the same call on both sides, and require the same answer."""
        expected, answer = await call(self.reference), await call(self.subject)
        assert answer == expected, f"seed {self.seed}, step {self.log[-1]}, after {self.log[-12:-1]}"
        return expected

    async def compare(self) -> None:
        """Require that both sides show the same."""
        expected = await self.reference.snapshot(self.job_ids, self.now)
        answer = await self.subject.snapshot(self.job_ids, self.now)
        for name in expected.keys() | answer.keys():
            found, wanted = answer.get(name), expected.get(name)
            assert found == wanted, f"{name}: seed {self.seed}, up to step {self.log[-1]}"

    # -- values ------------------------------------------------------------------------------------------------

    def tick(self) -> datetime:
        """Return an instant just after now that no other run has."""
        self.microseconds += 1
        return self.now + timedelta(microseconds=self.microseconds)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def new_run(self, job: Job, **overrides: Any) -> NewRun:
        """Make a run with a serial number of its own."""
        self.serial += 1
        values: dict[str, Any] = {"payload": str(self.serial).encode(), "due_at": self.tick()}
        if self.chance(0.2):
            values["due_at"] += timedelta(seconds=self.random.randrange(60))
        if self.chance(0.2):
            values["expires_at"] = self.now + timedelta(seconds=self.random.randrange(1, 100), microseconds=1)
        if self.chance(0.1):
            values["skip_reason"] = "misfire"
        run = make_new_run(job, **values | overrides)
        self.lane_keys[run.lane] = None
        return run

    def new_fire_range(self, job: Job, **overrides: Any) -> NewFireRange:
        self.serial += 1
        kind = self.random.choice(list(FireRangeKind))
        values: dict[str, Any] = {
            "kind": kind,
            "from_at": START - MINUTE,
            "reason": f"fire range {self.serial}",
        }
        return make_fire_range(job, **values | overrides)

    async def some_job(self, *, stale: float = 0.15) -> Job | None:
        """Return a job as it is, or as it was earlier."""
        if self.seen_jobs and self.chance(stale):
            return self.random.choice(self.seen_jobs)
        jobs = [job for job in await self.reference.store.get_jobs(self.job_ids) if job is not None]
        if not jobs:
            return None
        job = self.random.choice(jobs)
        self.seen_jobs.append(job)
        return job

    async def some_epochs(self) -> dict[int, int]:
        if self.chance(0.1):
            return self.random.choice(self.seen_epochs)
        return self.seen_epochs[-1]

    async def some_sessions(self, most: int) -> list[int]:
        """Return some sessions, most of them live."""
        live = sorted(await self.reference.counters())
        pool = list(range(len(self.numbers))) if self.chance(0.1) else live
        return self.random.sample(pool, min(len(pool), self.random.randint(1, most)))
