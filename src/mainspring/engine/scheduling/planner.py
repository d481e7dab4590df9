"""Fires due jobs: reads ahead, and commits small batches when they are due (design 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from mainspring.core.clocks import NextFire
from mainspring.core.expiry import QueueExpiries
from mainspring.core.fire_counts import limit_plan
from mainspring.core.ids import JobId, format_job_id, job_shard
from mainspring.core.model import JobSpec
from mainspring.core.outlines import is_on_time
from mainspring.core.pauses import NOTHING_PAUSED, LanePauses
from mainspring.core.planning import REASON_CALENDAR, Plan, next_fire, plan_fires
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions, has_hidden_keys
from mainspring.engine.common.event_log import EventLog
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.traces import RunTraces
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.reading import READ_PERIOD, WINDOW, WindowReader
from mainspring.engine.scheduling.run_factory import fire_range_of, make_fired_run, reason_to_skip
from mainspring.engine.scheduling.window import Window
from mainspring.errors import UnknownType
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import (
    DueClock,
    Fire,
    FireResult,
    FireStatus,
    outlined_lanes,
    outlined_run,
)
from mainspring.ports.telemetry import SECONDS, Distribution, Measure

_log = structlog.get_logger(__name__)
BATCH = 200
"""Fires per commit: large enough to be cheap, small enough that the last does not hold up the first."""
LARGEST_BATCH = 500
"""Fires per commit when a herd is due. Each takes less time then, and what is urgent waits for one commit."""
SHARE = 5
"""A commit takes the fifth part of what is in the window, within these bounds."""
AT_ONCE = 2
"""Batches under way when more than one is due: while the store writes one, the next one is prepared."""
PER_TICK = 10
"""Batches between two looks at whether the window is to be read."""


class Planner:
    """Keeps the clocks that fire in the next few seconds, of the owned shards, in a window. Fires them on time.

    The window is a hint (law 1). After an edit, a pause or a write by another node, an entry loses its conditional
    update and is dropped. New jobs that are due within the window arrive by a signal, or at the next read.
    """

    name = "planner"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions,
        calendars: CalendarReader,
        expiries: QueueExpiryFollower,
        restrictions: RestrictionFollower,
        event_log: EventLog,
        counts: RunCounts,
        traces: RunTraces,
    ) -> None:
        self._traces = traces
        self._store = store
        self._expiries = expiries
        self._restrictions = restrictions
        self._event_log = event_log
        self._counts = counts
        self._calendars = calendars
        self._clock = clock
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions
        self.waiter = waiter
        self._window = Window()
        self._fires = dict.fromkeys(FireStatus, 0)
        self._lags = Distribution(SECONDS)
        self._reader = WindowReader(
            store, self._window, clock=clock, ownership=ownership, definitions=definitions
        )
        wakeups.subscribe_clocks(self._on_clocks_changed)
        wakeups.subscribe_late_clocks(self._reader.note_moved)
        ownership.subscribe_gains(self._on_gains)

    def measures(self) -> Iterator[Measure]:
        """Yield how many fires were stored or refused, and how late they were stored."""
        for status, count in self._fires.items():
            yield Measure("fires_total", count, (status.value,))
        yield Measure("fire_lag_seconds", self._lags.read())

    def _on_clocks_changed(self) -> None:
        self._reader.note_change()
        self.waiter.signal()

    def _on_gains(self) -> None:
        self._reader.note_gain()
        self.waiter.signal()

    async def tick(self, now: datetime) -> float:
        """Fire some batches of what is due. Read the window again if it is old."""
        if not self._ownership.epochs:
            self._reader.forget()
            return READ_PERIOD / 4
        if self._reader.until_read(now) <= 0:
            await self._read_and_fire(now)
        await self._fire_due(self._clock.now())
        return self._delay(self._clock.now())  # firing took time, and the wait starts only now

    async def _read_and_fire(self, now: datetime) -> None:
        """Read the window, and fire what is due in the meantime. A scan from far back may take a second."""
        reading = asyncio.ensure_future(self._reader.read(now))
        try:
            while not reading.done():
                first_at = self._window.first_at()
                until = None if first_at is None else (first_at - self._clock.now()).total_seconds()
                if until is None or until > 0:
                    await asyncio.wait([reading], timeout=until)
                else:
                    await self._fire_due(self._clock.now())
        except Exception:
            await asyncio.gather(reading, return_exceptions=True)  # what it reads may be the cure
            raise
        finally:
            reading.cancel()  # no effect if it is done
        reading.result()

    async def _fire_due(self, now: datetime) -> None:
        """Fire some batches of what is due. While the store writes one, the next one is prepared."""
        first_at = self._window.first_at()
        if first_at is None or first_at > now:
            return
        turns = iter(range(PER_TICK))
        lines = AT_ONCE if len(self._window) > BATCH else 1
        ends = await asyncio.gather(*(self._fire_all(turns) for _ in range(lines)), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    def _batch(self) -> int:
        """Return how many fires the next commit has: the more are in sight, the more."""
        return min(max(len(self._window) // SHARE, BATCH), LARGEST_BATCH)

    async def _fire_all(self, turns: Iterator[int]) -> None:
        """Fire a batch at each turn, until one is empty. Several tasks may share the turns."""
        for _ in turns:
            now = self._clock.now()  # for each batch: what has become due since may be more urgent
            due = self._window.pop_due(now, self._batch())
            if not due:
                return
            outlined, others = _divide(due, now, self._restrictions.current.pauses)
            if not outlined or not others:
                await self._fire(due, now, in_set=bool(outlined))
                continue
            # Neither waits for the other, because either may have the most urgent.
            ends = await asyncio.gather(
                self._fire(others, now, in_set=False),
                self._fire(outlined, now, in_set=True),
                return_exceptions=True,
            )
            for end in ends:
                if end is not None:
                    raise end

    async def _fire(self, due: list[DueClock], now: datetime, *, in_set: bool) -> None:
        try:
            await self._commit(due, now, in_set=in_set)
        except BaseException:
            # They are still due, and the next scan starts at the oldest known clock.
            for clock in due:
                self._window.push(clock)
            raise

    async def _commit(self, due: list[DueClock], now: datetime, *, in_set: bool) -> None:
        epochs = self._ownership.epochs
        # Leave out the clocks of shards that the node has given up since it read them.
        clocks = [clock for clock in due if job_shard(clock.job_id) in epochs]
        clocks, began = self._traces.sample_clocks(clocks)
        specs: Mapping[tuple[JobId, int], JobSpec] = {}
        if in_set:
            clocks = self._expiries.apply_to_clocks(clocks)
            planned: list[tuple[DueClock, Fire | None]] = [(clock, None) for clock in clocks]
            results = await self._store.fire_outlined(clocks, epochs=epochs, now=now)
        else:
            specs = await self._read_specs(clocks)
            fires = list(
                _plan(clocks, specs, now, self._expiries.by_queue, self._restrictions.current.pauses)
            )
            planned = [*fires]
            results = await self._store.record_fires([fire for _, fire in fires], epochs=epochs, now=now)
        has_runs, has_cancelled, fenced = False, False, set[int]()
        self._count(planned, results)
        if began:
            self._traces.end_fires([clock for clock, _ in planned], results, began, specs)
        for (clock, fire), result in zip(planned, results, strict=True):
            if result.status is FireStatus.FIRED:
                has_runs = has_runs or bool(result.run_ids)
                has_cancelled = has_cancelled or bool(result.cancelled)
                if fire is not None:
                    self._note_fired(clock, fire, specs[clock.job_id, clock.version], now)
            elif result.status is FireStatus.FENCED:
                fenced.add(job_shard(clock.job_id))
            else:
                self._reader.note_moved(clock.due_at)
                self._reader.note_change()
        if fenced:
            _log.warning("planner_fenced", shards=sorted(fenced))
            self._ownership.fence(fenced, used=epochs)
        if has_cancelled:
            self._wakeups.cancel_requested()
        if has_runs:
            runs = [run for _, fire in planned if fire is not None for run in fire.runs]
            self._wakeups.runs_ready((lambda: outlined_lanes(clocks)) if in_set else lanes_of(runs))

    async def _read_specs(self, clocks: Sequence[DueClock]) -> Mapping[tuple[JobId, int], JobSpec]:
        """Return the definitions by which clocks fire, with the versions of their calendars."""
        specs = await self._definitions.load((clock.job_id, clock.version) for clock in clocks)
        return await self._calendars.apply_to_clocks(
            specs, [(clock.job_id, clock.version, clock.revision, clock.tenant) for clock in clocks]
        )

    def _count(self, planned: Sequence[tuple[DueClock, Fire | None]], results: Sequence[FireResult]) -> None:
        at = self._clock.now().timestamp()
        late: list[float] = []
        in_set: list[tuple[str, str]] = []
        for (clock, fire), result in zip(planned, results, strict=True):
            self._fires[result.status] += 1
            if result.status is not FireStatus.FIRED:
                continue
            late.append(at - clock.due_at.timestamp())
            if fire is not None:
                self._counts.note_planned(fire.runs, len(result.run_ids))
                self._counts.note_gaps(fire.fire_ranges)
            elif clock.outline is not None:
                in_set.append((clock.tenant, clock.outline.queue))
        self._lags.add_all(late)
        self._counts.note_fires(in_set)

    def _note_fired(self, clock: DueClock, fire: Fire, spec: JobSpec, now: datetime) -> None:
        """Keep the following fire in the window, and log fires that came too late.

        What a calendar keeps out was not to fire at all.
        """
        self._push_following(clock, fire, now)
        if now - clock.due_at <= spec.misfire.grace:
            return
        reasons = [run.skip_reason for run in fire.runs if run.skip_reason]
        reasons += [fire_range.reason for fire_range in fire.fire_ranges]
        if not reasons or any(not reason.startswith(REASON_CALENDAR) for reason in reasons):
            self._event_log.note_missed(spec, clock.fire_at, through=fire.fired_through)

    def _push_following(self, clock: DueClock, fire: Fire, now: datetime) -> None:
        following = fire.next_fire
        if following is not None and following.due_at <= now + WINDOW:
            self._window.push(
                replace(
                    clock,
                    fire_at=following.fire_at,
                    due_at=following.due_at,
                    fired_through=fire.fired_through,
                    fires_left=fire.fires_left,
                    trace=None,
                )
            )

    def _delay(self, now: datetime) -> float:
        until = self._reader.until_read(now)
        first_at = self._window.first_at()
        if first_at is not None:
            until = min(until, (first_at - now).total_seconds())
        return max(until, 0.0)


def _divide(
    due: Sequence[DueClock], now: datetime, pauses: LanePauses
) -> tuple[list[DueClock], list[DueClock]]:
    """Return the clocks that fire in a set, and those whose fires are planned one by one."""
    outlined: list[DueClock] = []
    others: list[DueClock] = []
    for clock in due:
        is_outlined = clock.outline is not None and is_on_time(clock.outline, clock.due_at, now=now)
        if pauses and is_outlined:  # only those that are planned can be skipped
            run = outlined_run(clock)
            is_outlined = not pauses.skips(run.lane, run.due_at)
        (outlined if is_outlined else others).append(clock)
    return outlined, others


def _plan(
    clocks: Sequence[DueClock],
    specs: Mapping[tuple[JobId, int], JobSpec],
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses,
) -> Iterator[tuple[DueClock, Fire]]:
    for clock in clocks:
        spec = specs.get((clock.job_id, clock.version))
        if spec is None:
            continue
        try:
            fire = make_fire(clock, spec, now, expiries, pauses)
        except UnknownType as error:
            _log.warning("job_waits_for_its_trigger_type", job=format_job_id(clock.job_id), type=error.name)
            continue
        except Exception:  # noqa: BLE001 - a fault in one job must not hold up others
            if has_hidden_keys(spec):  # it stays due; that it cannot be decrypted was logged as it was read
                continue
            _log.exception("job_cannot_be_planned", job=format_job_id(clock.job_id), version=clock.version)
            continue
        if fire is not None:
            yield clock, fire


def make_fire(
    clock: DueClock,
    spec: JobSpec,
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses = NOTHING_PAUSED,
) -> Fire | None:
    """Turn a due clock row into the write that fires it. None if it is not due yet.

    Args:
        expiries: the expiries of queues.
        pauses: what is paused.
    """
    plan = plan_fires(spec, clock.job_id, NextFire(clock.fire_at, clock.due_at), now=now)
    if plan is None:
        return None
    left = clock.fires_left

    def why(fire_at: datetime) -> str | None:
        return reason_to_skip(spec, job_id=clock.job_id, tenant=clock.tenant, fire_at=fire_at, pauses=pauses)

    if left is not None and spec.trigger is not None:
        plan, left = limit_plan(plan, spec.trigger, left, why=why)
    return Fire(
        job_id=clock.job_id,
        revision=clock.revision,
        fire_at=clock.fire_at,
        next_fire=next_fire(spec, clock.job_id, plan.next_fire_at),
        fired_through=plan.fired_through,
        runs=tuple(_make_runs(clock, spec, plan, expiries, why)),
        fire_ranges=tuple(
            fire_range_of(planned, job_id=clock.job_id, version=clock.version, trigger=spec.trigger)
            for planned in plan.ranges
        ),
        overlap=spec.overlap,
        fires_left=left,
    )


def _make_runs(
    clock: DueClock,
    spec: JobSpec,
    plan: Plan,
    expiries: QueueExpiries,
    why: Callable[[datetime], str | None],
) -> Iterator[NewRun]:
    """Make the runs of a plan's fires, and the records of those that are skipped.

    Args:
        why: says of a fire why it is skipped; None: it is not.
    """
    for at, reason in (*plan.skips, *((at, why(at)) for at in plan.fires)):
        yield make_fired_run(
            spec,
            job_id=clock.job_id,
            version=clock.version,
            tenant=clock.tenant,
            fire_at=at,
            expiries=expiries,
            skip_reason=reason,
            trace=clock.trace if reason is None else None,
        )
