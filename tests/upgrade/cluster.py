"""A cluster of the real command line: servers and workers on one PostgreSQL, each restarted at will, all under load."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from random import Random

from mainspring.core.ids import RunId
from mainspring.core.model import Attempt
from tests.chaos.client import Answer, Client, JobClient, KnownJob, Log, Unknown, host_now
from tests.chaos.collect import FinalRead, make_history, read_postgres
from tests.chaos.effects import read_effects
from tests.chaos.processes import Process
from tests.chaos.receiver import Receiver
from tests.chaos.workload import Load, Targets, scheduled_jobs, submitted_jobs
from tools.judge import Effect, Fault, History, Verdict, judge

BEAT_PERIOD = 2.0
APP = "tests.chaos.jobs:app"
SLOTS = 16
SLACK = timedelta(milliseconds=500)
"""A process's clock is behind by a round trip to the database, which takes its time while processes start."""
_READY = re.compile(rb"(ready|listening on .*)")
_PORTS = range(20_000, 32_000)
"""Below those that connections go out from: a port must still be free when its server comes back."""
_PATIENCE = 120.0


class Member(Process):
    """A server or a worker.

    Attributes:
        python_path: where the code lies that its next start runs; None is the code under test.
    """

    def __init__(self, folder: Path, *, name: str, arguments: Sequence[str]) -> None:
        super().__init__(folder, name=name, is_watched=False)
        self._arguments = list(arguments)
        self.python_path: Path | None = None

    def start(self) -> None:
        """Start and return once it is ready.

        Raises:
            Ended: it ended before that.
        """
        given = {} if self.python_path is None else {"PYTHONPATH": str(self.python_path)}
        self._spawn(self._arguments, _READY, given)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which processes there are.

    Attributes:
        servers: how many.
        remote: the options of each worker that reaches the store by servers, where `{first}` is the first one's
            address; it is told of all unless it has a `--server` of its own.
        direct: the options of each worker that works straight from the store.
        beat_period: seconds; who is silent for three of them counts as dead.
    """

    servers: int = 3
    remote: tuple[tuple[str, ...], ...] = ((), ("--processes=2",))
    direct: tuple[tuple[str, ...], ...] = ((), ())
    beat_period: float = BEAT_PERIOD


@dataclass(frozen=True, slots=True)
class Stop:
    """A process that was asked to end.

    Attributes:
        python_path: where the code lies that it ran; None is the code under test.
        at, until: from when until when its next life was ready.
    """

    name: str
    python_path: Path | None
    at: datetime
    until: datetime


@dataclass(slots=True)
class Cluster:
    """The processes, and what is known of what happened to them."""

    folder: Path
    dsn: str
    addresses: list[str]
    servers: list[Member]
    workers: list[Member]
    beat_period: float
    log: Log = field(default_factory=Log)
    stops: list[Stop] = field(default_factory=list)

    @property
    def members(self) -> list[Member]:
        """All processes, servers first."""
        return [*self.servers, *self.workers]

    async def start(self) -> None:
        """Start the servers, then the workers."""
        for member in self.members:
            await asyncio.to_thread(member.start)

    async def stop(self) -> None:
        """Stop the workers, then the servers."""
        for member in [*self.workers, *self.servers]:
            assert await asyncio.to_thread(member.stop) == 0, member.log.name

    async def restart(self, member: Member, python_path: Path | None = None) -> None:
        """Ask a process to end, which it has to do in good order, and start it again.

        Args:
            python_path: the code of its next life.
        """
        at = time.time()
        assert member.is_running, f"{member.name} ended by itself: see {member.log.name}"
        assert await asyncio.to_thread(member.stop) == 0, member.log.name
        before, member.python_path = member.python_path, python_path
        await asyncio.to_thread(member.start)
        begin, end = (datetime.fromtimestamp(instant, UTC) for instant in (at, time.time()))
        self.log.faults.append(Fault(kind="restart", target=member.name, at=begin, until=end))
        self.stops.append(Stop(member.name, before, begin, end))


class StrictClient(Client):
    """A client of any of the servers, which notes each answer that is neither an answer, nor "nobody listens", nor 503.

    Attributes:
        broken: the errors of requests that were begun and came to nothing.
        told_to_wait: answers 503.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        turn = cycle(addresses)
        super().__init__(lambda: next(turn))
        self.broken: list[str] = []
        self.told_to_wait = 0

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        address: str | None = None,
    ) -> Answer:
        try:
            return await super().ask(method, path, body, key=key, address=address)
        except Unknown as unknown:
            if unknown.__cause__ is None:
                self.told_to_wait += 1
            else:
                self.broken.append(f"{method} {path}: {unknown.__cause__!r}")
            raise


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of a cluster's life."""

    history: History
    verdict: Verdict
    final: FinalRead
    client: StrictClient
    acknowledged: int

    @property
    def late(self) -> list[float]:
        """By how many seconds each fire was on record late, in ascending order; a fire range stands for its first."""
        recorded = [
            run.created_at - run.fire_at
            for run in self.history.runs
            if run.fire_at is not None and run.fire_range_id is None
        ]
        recorded += [
            fire_range.created_at - fire_range.from_at
            for fire_range in self.history.fire_ranges
            if fire_range.reason != "paused"
        ]
        return sorted(late.total_seconds() for late in recorded)

    def repeats(self) -> list[str]:
        """Name each run whose body began again after it had begun, but for failing or putting itself off."""
        begun: dict[RunId, list[Effect]] = {}
        for effect in self.history.effects:
            begun.setdefault(effect.run_id, []).append(effect)
        return [
            f"{run_id}: {[effect.ending for effect in effects]}"
            for run_id, effects in begun.items()
            if any(effect.ending not in {"failed", "snoozed"} for effect in effects[:-1])
        ]

    def lost(self) -> list[Attempt]:
        """Return each attempt that was declared lost: nobody was."""
        return [
            attempt
            for attempts in self.final.attempts.values()
            for attempt in attempts
            if attempt.outcome == "lost"
        ]

    def has_begun(self, attempt: Attempt) -> bool:
        """Return whether the body of an attempt has begun."""
        return any(
            (effect.run_id, effect.token) == (attempt.run_id, attempt.token)
            for effect in self.history.effects
        )

    def figures(self) -> dict[str, object]:
        """Return what is worth telling."""
        late = self.late
        return {
            "runs": len(self.history.runs),
            "acknowledged": self.acknowledged,
            "fires": len(late),
            "fire_ranges": Counter(
                f"{fire_range.kind} {fire_range.reason}" for fire_range in self.history.fire_ranges
            ),
            "late_p99_s": round(late[int(len(late) * 0.99)], 3),
            "late_max_s": round(late[-1], 3),
            "repeats": len(self.repeats()),
            "lost_attempts": len(self.lost()),
            "handed_back": sum(
                attempt.outcome == "handed_back"
                for attempts in self.final.attempts.values()
                for attempt in attempts
            ),
            "told_to_wait": self.client.told_to_wait,
            "broken_requests": self.client.broken,
            "restarts": len(self.history.faults),
            "violations": len(self.verdict.violations),
        }


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with ExitStack() as stack:
        return [port for port, _ in zip(_free_ports(stack), range(count), strict=False)]


def _free_ports(stack: ExitStack) -> Iterator[int]:
    for port in Random().sample(_PORTS, len(_PORTS)):
        probe = stack.enter_context(socket.socket())
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        yield port


def make_cluster(folder: Path, dsn: str, *, receiver: str, layout: Layout) -> Cluster:
    """Make the processes; none is started."""
    ports = free_ports(layout.servers)
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    targets = ("--allow-shell", "--callback-allow", receiver, "--drain", "20")
    beat = ("--beat-period", str(layout.beat_period))
    servers = [
        Member(
            folder,
            name=f"server-{index}",
            arguments=["server", "--store", dsn, "--port", str(port), *beat, *targets],
        )
        for index, port in enumerate(ports)
    ]
    workers = []
    for number, (kind, options) in enumerate(
        [("remote", each) for each in layout.remote] + [("direct", each) for each in layout.direct]
    ):
        reach = ("--store", dsn, *beat) if kind == "direct" else _reach(options, addresses)
        name = f"{kind}-{number}"
        arguments = ["worker", APP, *reach, "--name", name, "--slots", str(SLOTS), *targets]
        own = [option.format(first=addresses[0]) for option in options]
        workers.append(Member(folder, name=name, arguments=[*arguments, *own]))
    return Cluster(folder, dsn, addresses, servers, workers, layout.beat_period)


def _reach(options: Sequence[str], addresses: Sequence[str]) -> tuple[str, ...]:
    has_own = any(option.startswith("--server=") for option in options)
    return () if has_own else ("--server", ",".join(addresses))


@asynccontextmanager
async def running_cluster(
    folder: Path,
    dsn: str,
    *,
    layout: Layout | None = None,
    prepare: Callable[[Cluster], None] | None = None,
) -> AsyncIterator[tuple[Cluster, Receiver]]:
    """Start a cluster, and leave nothing of it running.

    Args:
        prepare: called before the processes are started.
    """
    receiver = Receiver(folder / "effects")
    await receiver.start()
    cluster = make_cluster(folder, dsn, receiver=receiver.address, layout=layout or Layout())
    if prepare is not None:
        prepare(cluster)
    try:
        await cluster.start()
        yield cluster, receiver
    finally:
        for member in reversed(cluster.members):
            await asyncio.to_thread(member.close)
        await receiver.stop()


@dataclass(slots=True)
class Stage:
    """A cluster under load, and at the end what came of it."""

    client: StrictClient
    load: Load
    result: Result | None = None

    def concluded(self) -> Result:
        """Return the result, once the block has ended."""
        assert self.result is not None
        return self.result


@asynccontextmanager
async def under_load(cluster: Cluster, receiver: Receiver, *, rate: float) -> AsyncIterator[Stage]:
    """Fire every second and submit all the while; in the end wait until nothing is left to do, stop all, and judge."""
    began = host_now()
    async with StrictClient(cluster.addresses) as client:
        jobs = JobClient(client, cluster.log)
        known = await jobs.adopt(began)
        targets = Targets(receiver.address, cluster.folder / "effects")
        known += [job for body in submitted_jobs(targets) if (job := await jobs.create(body))]
        scheduled = [job for body in scheduled_jobs(targets) if (job := await jobs.create(body))]
        load = Load(client, cluster.log, {job.name: job.id for job in known}, rate, Random("load"))
        stage = Stage(client, load)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            yield stage
            load.is_stopping = True
        await _calm_down(client, jobs, scheduled)
    await cluster.stop()
    stage.result = await _conclude(cluster, client, load)


async def _calm_down(client: StrictClient, jobs: JobClient, scheduled: Sequence[KnownJob]) -> None:
    for job in scheduled:
        await jobs.pause(job)
    deadline = time.monotonic() + _PATIENCE
    while True:
        unfinished = await client.count_unfinished()
        if not any(unfinished.values()):
            await jobs.settle()
            return
        assert time.monotonic() < deadline, unfinished
        await asyncio.sleep(0.3)


async def _conclude(cluster: Cluster, client: StrictClient, load: Load) -> Result:
    final = await read_postgres(cluster.dsn, cluster.log.changes)
    history = make_history(
        cluster.log,
        read_effects(cluster.folder / "effects"),
        final,
        beat_period=cluster.beat_period,
        slots=len(cluster.workers) * SLOTS,
    )
    history.slack = SLACK
    return Result(
        history=history,
        verdict=await asyncio.to_thread(judge, history),
        final=final,
        client=client,
        acknowledged=load.acknowledged,
    )


def check(
    result: Result, *, latest: float, is_excused: Callable[[Attempt], bool] = lambda _: False
) -> Mapping[str, object]:
    """Hold a result against what a restart in good order promises.

    Args:
        latest: by how many seconds a fire may be late.
        is_excused: whether an attempt was lost by a fault of older code that has been mended since.
    """
    figures = result.figures()
    print(figures)
    assert result.verdict.violations == (), "\n\n".join(map(str, result.verdict.violations[:5]))
    assert result.repeats() == [], result.repeats()
    lost = [attempt for attempt in result.lost() if not is_excused(attempt)]
    assert lost == [], lost
    assert result.client.broken == []
    assert result.late[-1] <= latest
    return figures
