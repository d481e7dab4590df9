"""The engine of an app under test: what is due, what comes next, and how time moves. It runs on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from structlog.testing import capture_logs

from mainspring.api import create_api
from mainspring.api.principals import identify_anybody
from mainspring.core.abilities import RUNS_PROCESSES
from mainspring.core.batching import TAKES_BATCHES
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec, Run
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.places import is_workflow_route
from mainspring.core.workflows.step_jobs import (
    is_step_job,
    is_workflow,
    split_step_version,
    workflow_job_id,
)
from mainspring.ports.gateway import MAX_SLOTS, Lease, Report
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.in_process import InProcessClient
from mainspring.testing.manual import ManualRuntime, ManualWorker

_SHORTEST_PAUSE = timedelta(seconds=1)
_LONGEST_HOLD_UP = timedelta(days=1)
"""What has been held up for longer is not waited for: a paused queue may stay so for ever."""
_LEFT_OUT = frozenset({"janitor", "census", "ledger_checker", "sealer"})
"""Services that a test has no use for: what it made stays, however far it moves the clock, and nothing is printed."""


@value()
class Step:
    """What the engine has for its worker.

    Attributes:
        leases: one attempt, or those of one batch; empty if nothing is due.
        failed: runs that the reports before have ended as FAILED.
    """

    leases: tuple[Lease, ...]
    failed: tuple[RunId, ...]


class EngineRoom:
    """An engine on a memory store and a manual clock, with one worker that offers whatever jobs ask for.

    Every method is called on the loop on which `open` was called.

    Args:
        definitions: returns the bodies of the app's jobs.
    """

    def __init__(
        self,
        registry: FunctionRegistry,
        definitions: Callable[[], Sequence[dict[str, Any]]],
        *,
        tenant: str,
        now: datetime,
    ) -> None:
        self.clock: FakeClock = FakeClock(now)
        self._store = MemoryStore(time=self.clock.now)
        self._tables = self._store._tables
        self._runtime = ManualRuntime(registry, store=self._store, clock=self.clock, logs_events=False)
        self._services = tuple(name for name in self._runtime.services if name not in _LEFT_OUT)
        api = create_api(
            self._runtime.client,
            self._runtime.gateway,
            identify=identify_anybody,
            store_name="memory",
            ping=self._store.read_time,
            shards=self._runtime.shards,
        )
        self.client: InProcessClient = InProcessClient(api, tenant=tenant, on_change=self.unsettle)
        self._definitions = definitions
        self._defined = 0
        self._known_versions = -1
        self._workers: list[ManualWorker] = []
        self._holders: dict[tuple[RunId, int], ManualWorker] = {}
        self._claimed_at: dict[JobId, datetime] = {}
        self._turn = asyncio.Lock()
        self._is_settled = False

    async def open(self) -> None:
        """Start, with the app's jobs."""
        with capture_logs():  # that a node has taken its shards says nothing in a test
            await self._runtime.__aenter__()
        await self.define()

    async def close(self) -> None:
        """Stop. Nothing is kept."""
        await self._runtime.__aexit__(None, None, None)

    def unsettle(self) -> None:
        """Note that something has changed that services may have to look at before time moves on."""
        self._is_settled = False

    async def define(self) -> None:
        """Write the jobs that the app has and the store does not know yet."""
        bodies = self._definitions()
        new, self._defined = bodies[self._defined :], len(bodies)
        for body in new:
            await self.client.put_job(body)

    async def step(self, reports: Sequence[Report] = ()) -> Step:
        """Report how attempts ended, and claim the next one that is due."""
        async with self._turn:
            for report in reports:
                ends_a_step = self._tables.runs[report.run_id].place is not None
                self._is_settled = (
                    self._is_settled and not isinstance(report.ending, Failure) and not ends_a_step
                )
                await self._holders.pop((report.run_id, report.token)).report(report)
            failed = tuple(
                report.run_id
                for report in reports
                if self._tables.runs[report.run_id].state is RunState.FAILED
            )
            worker = await self._offer()
            leases = await worker.claim(limit=1)
            if not leases and not (self._is_settled and not self._has_workflow()):
                await self._settle()
                leases = await worker.claim(limit=1)
            for lease in leases:
                self._holders[lease.run_id, lease.token] = worker
                self._claimed_at[lease.job_id] = self.clock.now()
            return Step(tuple(leases), failed)

    async def next_instant(
        self,
        *,
        until: datetime | None = None,
        follow: frozenset[RunId] = frozenset(),
        to_the_end: bool = False,
    ) -> datetime | None:
        """Return the instant to which the clock is to move next; None if it has come far enough.

        Args:
            until: how far to go.
            follow: without `until`: go on while one of these waits for its retry, or has snoozed.
            to_the_end: without `until`: go on while any run waits.
        """
        now = self.clock.now()
        goal = until
        if to_the_end:
            goal = min((at for at in self._waits(within=_LONGEST_HOLD_UP) if at > now), default=None)
        elif until is None:
            rows = [self._tables.runs[run_id] for run_id in follow]
            retries = [row.ready_at for row in rows if row.state is RunState.RETRYING]
            goal = min((at for at in retries if at > now), default=None)
        if goal is None or goal <= now:
            return None
        return min([goal, *(at for at in self._events() if at > now)])

    async def advance(self, instant: datetime) -> None:
        """Move the clock to an instant, and fire what is due then."""
        async with self._turn:
            ahead = (instant - self.clock.now()).total_seconds()
            if ahead > 0:  # another task may have moved it further meanwhile
                self.clock.advance(ahead)
            await self._settle()

    def runs(self) -> list[tuple[Run, str]]:
        """Return all runs in the order in which they were made, each with its job's name."""
        rows = sorted(self._tables.runs.values(), key=lambda row: row.id)
        return [(row.view(), self.job_of(row.id)) for row in rows]

    def run(self, run_id: RunId) -> Run:
        """Return a run."""
        return self._tables.runs[run_id].view()

    def jobs(self) -> dict[str, bool]:
        """Return the names of all jobs, and whether their functions take batches."""
        specs = [row.spec for row in list(self._tables.jobs.values())]
        return {spec.name: spec.batch is not None for spec in specs}

    def job_of(self, run_id: RunId) -> str:
        """Return the name of a run's job; of a run of a step, that of its workflow and its own, with a dot."""
        row, versions = self._tables.runs[run_id], self._tables.versions
        if not is_step_job(row.job_id):
            return versions[row.job_id, row.version].name
        version, step = split_step_version(row.version)
        spec = versions[workflow_job_id(row.job_id), version]
        return f"{spec.name}.{spec.target.params['steps'][step]['name']}"

    def _has_workflow(self) -> bool:
        """Say whether a workflow waits for the engine, which begins it: a submission alone unsettles nothing."""
        return any(is_workflow_route(lane.key.route) and lane.ready for lane in self._tables.lanes.values())

    async def _settle(self) -> None:
        """Let every service do what it has to do at this instant."""
        for worker in self._workers:
            await worker.beat()
        await self._runtime.tick(*self._services)
        await self._runtime.plan()
        self._is_settled = True

    async def _offer(self) -> ManualWorker:
        """Return the worker. If there are new jobs, it is another one, which offers what they need."""
        if len(self._definitions()) != self._defined:
            await self.define()
        versions = self._tables.versions
        if not self._workers or len(versions) != self._known_versions:
            self._known_versions = len(versions)
            labels = {label for spec in versions.values() for label in _labels_of(spec)}
            busy = {id(worker) for worker in self._holders.values()}
            self._workers = [worker for worker in self._workers if id(worker) in busy]
            self._workers.append(
                await self._runtime.worker(
                    slots=MAX_SLOTS,
                    types=("http", "shell"),
                    labels=tuple(sorted({*labels, RUNS_PROCESSES, TAKES_BATCHES})),
                )
            )
        return self._workers[-1]

    def _events(self) -> Iterator[datetime]:
        """Yield instants at which something may happen."""
        tables, now = self._tables, self.clock.now()
        for index in tables.due.values():
            yield from islice((due_at for due_at, _ in index.above((now,)) if due_at > now), 1)
        yield from (at for at, _ in islice(tables.expiring, 1))
        for fire_range in tables.open_fire_ranges.values():
            yield self._look_again(fire_range.job_id, fire_range.created_at)
        for backfill in tables.backfills.rows.values():
            if backfill.closed_at is None:
                yield self._look_again(backfill.new.job_id, backfill.created_at)
        yield from self._waits()

    def _waits(self, *, within: timedelta | None = None) -> Iterator[datetime]:
        """Yield until when the first runs of each lane and line wait.

        What is held up although it is due is to be looked at again.

        Args:
            within: leave out what has been held up for longer.
        """
        now = self.clock.now()
        for lane in self._tables.lanes.values():
            for index in (lane.ready, lane.quarantined, *lane.lines.values()):
                later = islice((key for key in index.above((now,)) if key[0] > now), 1)
                for ready_at, run_id in {*islice(index, 1), *later}:
                    row = self._tables.runs[run_id]
                    spec = self._tables.versions.get((row.job_id, row.version))  # None: a step's
                    batch = None if spec is None else spec.batch
                    at = ready_at if batch is None else ready_at + batch.wait
                    if at > now:
                        yield at
                    elif within is None or now - self._held_up_since(row.job_id, at) < within:
                        yield self._look_again(row.job_id, at)

    def _held_up_since(self, job_id: JobId, since: datetime) -> datetime:
        return max(since, self._claimed_at.get(job_id, since))

    def _look_again(self, job_id: JobId, since: datetime) -> datetime:
        """Return when to look again at what is held up: the longer it has been so, the later."""
        now = self.clock.now()
        return now + max(_SHORTEST_PAUSE, (now - self._held_up_since(job_id, since)) / 16)


def _labels_of(spec: JobSpec) -> Iterator[str]:
    """Yield the labels that a job's runs ask for, or those of its steps."""
    yield from spec.labels
    for step in spec.target.params.get("steps", ()) if is_workflow(spec) else ():
        yield from step.get("labels", ())
