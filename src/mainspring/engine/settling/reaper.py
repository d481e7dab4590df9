"""Finds dead workers by their silence, and takes back their runs. Ends attempts that pass their deadline (law 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from mainspring.core.expiry import EXPIRED
from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.core.liveness import PERIODS_OF_SILENCE, Pulse, Watch, forget, observe
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import AttemptFacts, Failure, Transition, failed, lost
from mainspring.core.workflows.step_jobs import is_step_job
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.event_log import EventLog
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.common.write_health import WriteHealth
from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import Clock, RandomSource, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
BATCH = 500
MOST_NAMED = 20
"""Lost workers that have a line each."""
DEADLINE_MARGIN = timedelta(seconds=15)
"""How long after its deadline the reaper ends an attempt. Before that, the worker enforces the time limit itself."""
OVERDUE_PAUSE = 10.0
"""Seconds to wait between two scans for overdue runs, at most. They pass all runs that are RUNNING, or were recently,
and take a twentieth of the time otherwise."""
MAX_LOOK_GAP = 5.0
"""The reaper does not count as watching continuously if two ticks are more than this many seconds apart."""


class Reaper:
    """Judges sessions, takes back orphaned runs, enforces deadlines, and skips expired runs.

    Args:
        on_taken_back: told how attempts were ended that were taken back, and of which definitions their runs are.
    """

    name = "reaper"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: RandomSource,
        wakeups: Wakeups,
        waiter: Waiter,
        beat_period: float = 10.0,
        definitions: Definitions,
        write_health: WriteHealth,
        event_log: EventLog,
        counts: RunCounts,
        on_taken_back: Callable[[Sequence[Transition], Mapping[RunId, JobSpec]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._wakeups = wakeups
        self._definitions = definitions
        self.waiter = waiter
        self._beat_period = beat_period
        self._write_health = write_health
        self._event_log = event_log
        self._counts = counts
        self._on_taken_back = on_taken_back
        self._watch: Watch[SessionId] | None = None
        self._shortest_period = beat_period
        self._watching_since = 0.0
        self._observed_at: float | None = None
        self._overdue_due = float("-inf")
        self._overdue_pacing = Pacing(longest=OVERDUE_PAUSE)
        self._sessions_lost = 0
        self._taken_back = {"lost": 0, "deadline": 0}

    def measures(self) -> Iterator[Measure]:
        """Yield how many sessions were lost, and how many attempts were taken back."""
        yield Measure("sessions_lost_total", self._sessions_lost)
        for reason, count in self._taken_back.items():
            yield Measure("attempts_taken_back_total", count, (reason,))

    async def tick(self, now: datetime) -> float:
        """Examine everything once. After a full batch, the next tick follows at once."""
        await self._judge_sessions(now)
        orphans = await self._store.list_orphans(limit=BATCH)
        self._taken_back["lost"] += await self._end(orphans, self._lose)
        overdue = await self._find_overdue(now)
        self._taken_back["deadline"] += await self._end(overdue, self._time_out)
        expired = await self._store.expire_runs(now=now, limit=BATCH)
        if expired:
            self._counts.note_skipped(EXPIRED, len(expired))
            _log.warning("runs_expired", runs=len(expired), first=format_run_id(expired[0]))
        is_full = max(len(orphans), len(overdue), len(expired)) == BATCH
        return 0.0 if is_full else min(self._shortest_period / 4, 1.0)

    async def _find_overdue(self, now: datetime) -> list[HeldRun]:
        """Return the attempts past their deadline whose worker could have reported them all along.

        After an outage of the store, a full disk or a start of this process, workers get the full margin again to
        report what has ended.
        """
        overdue: list[HeldRun] = []
        at = self._clock.monotonic()
        if at >= self._overdue_due:
            overdue = await self._store.list_overdue(now=now - DEADLINE_MARGIN, limit=BATCH)
            begun, at = at, self._clock.monotonic()
            self._overdue_due = at + self._overdue_pacing.rest(at - begun)
        is_first = self._observed_at is None or at - self._observed_at > MAX_LOOK_GAP
        if is_first or self._write_health.has_reports:
            self._watching_since = at
        self._write_health.has_reports = False
        self._observed_at = at
        margin = DEADLINE_MARGIN.total_seconds()
        is_watching = at - self._watching_since >= margin and self._write_health.is_clear(at, margin)
        return overdue if is_watching else []

    async def _judge_sessions(self, now: datetime) -> None:
        read = await self._store.read_pulses()
        pulses = {key: Pulse(beats, self._seconds(period)) for key, (beats, period) in read.items()}
        self._shortest_period = min([self._beat_period, *(pulse.period for pulse in pulses.values())])
        if self._watch is not None:
            self._watch = forget(self._watch, self._write_health.sessions)
        self._write_health.sessions.clear()
        at = self._clock.monotonic()
        self._watch, found = observe(self._watch, pulses, at=at)
        silent = [
            key for key in found if self._write_health.is_clear(at, PERIODS_OF_SILENCE * pulses[key].period)
        ]
        if silent:
            try:
                dead = await self._store.expire_sessions(
                    [(key, pulses[key].beats) for key in silent], now=now
                )
            except StoreUnavailable:
                self._write_health.refuse()
                raise
            gone = [key for key, is_dead in zip(silent, dead, strict=True) if is_dead]
            if gone:
                self._sessions_lost += len(gone)
                await self._tell_lost(gone)

    async def _tell_lost(self, gone: Sequence[SessionId]) -> None:
        names = await self._store.find_workers(gone[:MOST_NAMED])
        for session_id in gone[:MOST_NAMED]:
            worker, host = names.get(session_id, ("", None))
            meaning = "it was silent for three heartbeats; others get its runs"
            _log.warning("worker_lost", worker=worker, host=host, session=session_id, meaning=meaning)
        if len(gone) > MOST_NAMED:
            _log.warning("workers_lost", workers=len(gone))

    def _seconds(self, told: timedelta | None) -> float:
        # The session's own period, not this process's: the worker keeps the one that it got when it registered.
        return self._beat_period if told is None else told.total_seconds()

    async def _end(
        self,
        held: Sequence[HeldRun],
        decide: Callable[[HeldRun, JobSpec, datetime], Transition],
    ) -> int:
        """End attempts as `decide` says. Return how many were ended; the others were reported in the meantime."""
        if not held:
            return 0
        specs = await self._definitions.load((run.job_id, run.version) for run in held)
        # Not the tick's instant: if the store is slow, these runs may have started after it.
        now = self._clock.now()
        transitions = [
            decide(run, specs[run.job_id, run.version], now)
            for run in held
            if (run.job_id, run.version) in specs
        ]
        results = await self._store.apply(transitions, now=now)
        applied = [
            transition
            for transition, result in zip(transitions, results, strict=True)
            if result is ApplyResult.APPLIED
        ]
        self._event_log.note_ends(applied, held, specs)
        self._wakeups.runs_ready(keys=None)  # another process may have given them out
        if any(is_step_job(run.job_id) for run in held):
            self._wakeups.flows_told()
        found = ((run.run_id, specs.get((run.job_id, run.version))) for run in held)
        await self._on_taken_back(applied, {run_id: spec for run_id, spec in found if spec is not None})
        return len(applied)

    def _lose(self, run: HeldRun, spec: JobSpec, now: datetime) -> Transition:
        return lost(facts_of(run), spec, now=now, random=self._random.random)

    def _time_out(self, run: HeldRun, spec: JobSpec, now: datetime) -> Transition:
        failure = Failure(error=f"no report by the deadline {run.deadline_at.isoformat()}", is_timeout=True)
        return failed(facts_of(run), spec, failure, now=now, random=self._random.random)


def facts_of(run: HeldRun) -> AttemptFacts:
    """Return what decisions need to know about a held run."""
    return AttemptFacts(
        run_id=run.run_id,
        token=run.token,
        session_id=run.session_id,
        attempt=run.attempt,
        is_quarantined=run.is_quarantined,
        quarantined_crashes=run.quarantined_crashes,
        is_cancel_requested=run.is_cancel_requested,
    )
