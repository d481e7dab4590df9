"""What kill trials and zombie trials have in common: a product under load, from its start to the final read."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.chaos.client import Client, JobClient, KnownJob, Log, Noted, host_now
from tests.chaos.collect import FinalRead, check_integrity, make_history, read_sqlite
from tests.chaos.effects import read_effects, read_seen
from tests.chaos.failpoints import read_notes
from tests.chaos.fuses import REFUSALS
from tests.chaos.operator import Operator
from tests.chaos.processes import Process, Product, Worker
from tests.chaos.receiver import Receiver
from tests.chaos.workload import Editor, Load, Targets, scheduled_jobs, submitted_jobs
from tools.judge import Fault, History, Verdict, judge

BEAT_PERIOD = 0.5
LEASE = 4 * BEAT_PERIOD
"""Seconds after which a silent worker is declared dead: three periods, and one until somebody looks."""
_QUIET_LIMIT = 180.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a set of trials.

    Attributes:
        restarts: seconds of each start of the server after a fault.
        fallen: when the server was killed.
        stale: writes that the store refused as stale.
        missed_failpoints: failpoints that were not reached in time; the process was killed from outside instead.
    """

    history: History
    verdict: Verdict
    integrity: str
    restarts: list[float]
    fallen: list[datetime]
    stale: int
    reached: Counter[str]
    missed_failpoints: list[str]
    acknowledged: int
    repeated: int


@dataclass(slots=True, kw_only=True)
class Scene(ABC):
    """The processes of a trial, and what is known of what happened to them.

    Attributes:
        effects: the folder of the jobs' effects.
    """

    workers: list[Worker]
    effects: Path
    log: Log = field(default_factory=Log)
    restarts: list[float] = field(default_factory=list)
    fallen: list[datetime] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    missed_failpoints: list[str] = field(default_factory=list)

    @property
    @abstractmethod
    def address(self) -> str:
        """Where clients ask now."""

    @abstractmethod
    async def start(self) -> None:
        """Start everything."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop everything in good order; what is to be read stays readable.

        Raises:
            RuntimeError: a process did not live to be stopped, or did not end as it should.
        """

    @abstractmethod
    async def read(self, noted: Iterable[Noted]) -> FinalRead:
        """Read all of the store, with the definitions that these changes name."""

    @abstractmethod
    def check(self) -> str:
        """Say `ok`, or what is broken within the store."""

    def blame(self, kind: str, target: str, at: float, until: float) -> None:
        """Note a fault that is over."""
        begin, end = (datetime.fromtimestamp(instant, UTC) for instant in (at, until))
        self.log.faults.append(Fault(kind=kind, target=target, at=begin, until=end))


async def stop_all(processes: Sequence[Process]) -> None:
    """Stop processes side by side.

    Raises:
        RuntimeError: one did not live to be stopped, or did not end as it should.
    """
    codes = await asyncio.gather(*(asyncio.to_thread(process.stop) for process in processes))
    for process, code in zip(processes, codes, strict=True):
        if code != 0:
            raise RuntimeError(f"{process.name} ended with {code}: see {process.log.name}")


@dataclass(slots=True, kw_only=True)
class Solo(Scene):
    """One `mainspring up` on SQLite, and workers that it serves over HTTP."""

    product: Product

    @property
    def address(self) -> str:
        return self.product.address

    async def start(self) -> None:
        await asyncio.to_thread(self.product.start)
        await asyncio.gather(*(asyncio.to_thread(worker.start) for worker in self.workers))

    async def stop(self) -> None:
        await stop_all(self.workers)
        await stop_all([self.product])

    @property
    def _path(self) -> Path:
        return self.product.data / "mainspring.db"

    async def read(self, noted: Iterable[Noted]) -> FinalRead:
        return await read_sqlite(self._path, noted)

    def check(self) -> str:
        return check_integrity(self._path)


@asynccontextmanager
async def open_solo(
    folder: Path, *, slots: int, workers: int, worker_slots: int
) -> AsyncIterator[tuple[Solo, Receiver]]:
    """Provide the processes, not started yet, and end what is left of them."""
    receiver = Receiver(folder / "effects")
    await receiver.start()
    product = Product(
        folder, receiver=receiver.address, slots=slots, beat_period=BEAT_PERIOD, is_watched=True
    )
    remote = [
        Worker(
            folder,
            name=f"worker-{index}",
            place=lambda: ["--server", product.address],
            receiver=receiver.address,
            slots=worker_slots,
        )
        for index in range(workers)
    ]
    try:
        yield Solo(product=product, workers=remote, effects=product.effects), receiver
    finally:
        for process in (*remote, product):
            await asyncio.to_thread(process.close)
        await receiver.stop()


@dataclass(slots=True)
class Stage:
    """A running product under load."""

    scene: Scene
    client: Client
    jobs: JobClient
    load: Load
    editor: Editor
    known: list[KnownJob]
    scheduled: list[KnownJob]

    async def calm_down(self) -> None:
        """Ask for nothing more, let nothing fire any more, and wait until no run waits or runs.

        Raises:
            TimeoutError: that did not happen within the limit.
        """
        for job in (*self.scheduled, *self.editor.known):
            await self.jobs.pause(job)
        deadline = time.monotonic() + _QUIET_LIMIT
        while time.monotonic() < deadline:
            if not any((await self.client.count_unfinished()).values()):
                await self.jobs.settle()
                return
            await asyncio.sleep(0.3)
        raise TimeoutError("runs were still unfinished after the quiet period")


@asynccontextmanager
async def under_load(scene: Scene, receiver: Receiver, *, rate: float, seed: int) -> AsyncIterator[Stage]:
    """Add the jobs to the started product, submit and change while the block lasts, and then let all come to an end."""
    began = host_now()
    random = Random(f"load:{seed}")
    async with Client(lambda: scene.address) as client:
        jobs = JobClient(client, scene.log)
        known = await jobs.adopt(began)
        targets = Targets(receiver.address, scene.effects)
        known += [await jobs.insist(body) for body in submitted_jobs(targets)]
        scheduled = [await jobs.insist(body) for body in scheduled_jobs(targets)]
        load = Load(client, scene.log, {job.name: job.id for job in known}, rate, random)
        editor = Editor(jobs, load, random)
        stage = Stage(scene, client, jobs, load, editor, known, scheduled)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            group.create_task(editor.run())
            yield stage
            load.is_stopping = editor.is_stopping = True
        await stage.calm_down()


async def conclude(
    scene: Scene,
    stage: Stage,
    folder: Path,
    *,
    slots: int,
    beat_period: float = BEAT_PERIOD,
    operator: Operator | None = None,
) -> Outcome:
    """Stop everything in order, read the store, and judge."""
    await scene.stop()
    final = await scene.read(scene.log.changes)
    effects = read_effects(scene.effects)
    history = make_history(scene.log, effects, final, beat_period=beat_period, slots=slots)
    if operator is not None:
        await operator.tell(history)
        history.seen = read_seen(scene.effects)
    notes = Counter(what for _, what in read_notes(folder / "notes"))
    return Outcome(
        history=history,
        verdict=await asyncio.to_thread(judge, history),
        integrity=scene.check(),
        restarts=scene.restarts,
        fallen=scene.fallen,
        stale=sum(notes[refusal] for refusal in REFUSALS),
        reached=scene.reached,
        missed_failpoints=scene.missed_failpoints,
        acknowledged=stage.load.acknowledged,
        repeated=stage.client.repeated,
    )
