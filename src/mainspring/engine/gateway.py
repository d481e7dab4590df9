"""How workers in this process, or directly on PostgreSQL, reach the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import compress

import structlog

from mainspring.core.checkpoints import NewCheckpoint
from mainspring.core.ids import ArtifactId, JobId, RunId, SessionId, format_run_id
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import (
    AttemptOutcome,
    Failure,
    Transition,
    cancelled,
    clamp_snooze,
    failed,
    handed_back,
    preempted,
    repeated,
    snoozed,
    succeeded,
)
from mainspring.core.preemption import is_asked
from mainspring.core.states import FINAL_STATES
from mainspring.engine.claiming.batches import group_calls
from mainspring.engine.claiming.lease_book import LeaseBook, NotedLeases, find_tenants, make_lease
from mainspring.engine.claiming.log_intake import LogIntake
from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.claiming.received import check_registration, keep_storable
from mainspring.engine.claiming.tally import Tally
from mainspring.engine.claiming.unreadable import Specs, has_unreadable, settle_unreadable
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.event_log import EventLog
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.log_feed import LogFeed
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.common.write_health import WriteHealth
from mainspring.engine.settling.reaper import facts_of
from mainspring.engine.usecases.artifacts import Artifacts
from mainspring.engine.usecases.checkpoints import Checkpoints
from mainspring.errors import StoreUnavailable
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.checkpoints import KeptStepPage, KeptSteps
from mainspring.ports.clock import Clock, RandomSource
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    Ending,
    HandedBack,
    LogReport,
    LogResult,
    Registration,
    Report,
    ReportResult,
    Session,
    Stopped,
)
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, HeldRun
from mainspring.ports.store.sessions import Beat, BeatResult, NewSession
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
MOST_BEATS = 100
"""Heartbeats in one transaction, at most. Each one reads all that its session holds, and the session's claims wait."""
_SessionReport = tuple[SessionId, Report]
_RESULTS = {
    ApplyResult.APPLIED: ReportResult.APPLIED,
    ApplyResult.STALE: ReportResult.STALE,
    ApplyResult.MISSING: ReportResult.MISSING,
}


class LocalGateway:
    """Implements `WorkerGateway` on a store. Concurrent beats and reports of all workers share transactions.

    Attributes:
        stale_reports: reports that were refused because the run had moved on, or because another session holds it
            (law 3).
        released: leases that were taken back because no worker knew about them.
        preempted: attempts that were stopped for more urgent work.
        tally: counts how attempts start and end.
    """

    def __init__(
        self,
        store: Store,
        matcher: Matcher,
        *,
        clock: Clock,
        random: RandomSource,
        wakeups: Wakeups,
        beat_period: timedelta = timedelta(seconds=10),
        definitions: Definitions,
        write_health: WriteHealth,
        event_log: EventLog,
        artifacts: Artifacts | None = None,
        checkpoints: Checkpoints | None = None,
        log_feed: LogFeed,
    ) -> None:
        self._store = store
        self._checkpoints = checkpoints or Checkpoints(store, clock=clock)
        self._artifacts = artifacts or Artifacts(store, clock=clock)
        self._matcher = matcher
        self._event_log = event_log
        self._write_health = write_health
        self._clock = clock
        self._random = random
        self._wakeups = wakeups
        self._beat_period = beat_period
        self._definitions = definitions
        self._beats: GroupCommit[Beat, BeatResult] = GroupCommit(self._beat_all, most=MOST_BEATS)
        self._reports: GroupCommit[_SessionReport, ReportResult] = GroupCommit(self._report_all)
        self._releases: GroupCommit[HeldRun, None] = GroupCommit(self._release_all)
        self._log_feed = log_feed
        self._logs = LogIntake(store, log_feed, clock=clock)
        self._book = LeaseBook()
        self.tally: Tally = Tally()
        self.stale_reports: int = 0
        self.released: int = 0
        self.preempted: int = 0

    def measures(self) -> Iterator[Measure]:
        """Yield the gateway's counters."""
        yield Measure("reports_stale_total", self.stale_reports)
        yield Measure("leases_released_total", self.released)
        yield Measure("attempts_preempted_total", self.preempted)
        yield from self.tally.measures()
        yield from self._logs.measures()
        for verb, calls in (("beat", self._beats), ("report", self._reports), ("release", self._releases)):
            yield Measure("group_commit_items", calls.sizes.read(), (verb,))

    async def register(self, registration: Registration) -> Session:
        """Open a session.

        Raises:
            InvalidInput: a name in it contains characters that cannot be printed, or it offers to carry out workflows,
                which only the engine does.
        """
        check_registration(registration)
        return await self.enroll(registration)

    async def enroll(self, registration: Registration) -> Session:
        """Open a session that may offer what only the engine carries out."""
        new = NewSession(
            worker=registration.name,
            host=registration.host,
            pid=registration.pid,
            slots=registration.slots,
            queues=registration.queues,
            types=registration.types,
            functions=registration.functions,
            labels=registration.labels,
            beat_period=self._beat_period,
            account=registration.account,
            tenant=registration.tenant,
        )
        (session_id,) = await self._store.add_sessions([new], now=self._clock.now())
        self._matcher.welcome(session_id, registration)
        self._wakeups.worker_came()
        return Session(
            id=session_id,
            beat_period=self._beat_period,
            tenant=registration.tenant,
            queues=registration.queues,
        )

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases, waiting up to `call.wait` for the first."""
        answer = await self._matcher.claim(call)
        at = self._clock.monotonic() if answer.runs else 0.0
        specs = await self._definitions.load((run.job_id, run.version) for run in answer.runs)
        runs: Sequence[ClaimedRun] = answer.runs
        if has_unreadable(runs, specs):
            runs = await self._settle_unreadable(call.session_id, runs, specs)
        leases = tuple([make_lease(run, specs[run.job_id, run.version]) for run in runs])
        if leases:
            self._book.note_keys(answer.keys)
            now = self._clock.now()
            for noted, given in self._book.note(leases, at):
                self.tally.note_starts(noted, given, now)
        if any(spec.batch is not None for spec in specs.values()):
            leases = group_calls(leases, call.number)
        return ClaimReply(
            leases=leases,
            is_session_live=answer.is_session_live,
            is_quarantined_waiting=answer.is_quarantined_waiting,
        )

    async def _settle_unreadable(
        self, session_id: SessionId, runs: Sequence[ClaimedRun], specs: Specs
    ) -> Sequence[ClaimedRun]:
        """Settle the runs that cannot be given out; return the others."""
        now = self._clock.now()
        settled = settle_unreadable(runs, specs, session_id, now=now)
        ends = [end for end, _ in settled.values()]
        await self._store.apply(ends, now=now)
        for run_id, (end, why) in settled.items():
            _log.error("run_cannot_be_decrypted", run=format_run_id(run_id), then=end.to.value, why=why)
        self._matcher.reserved.note_ends(((end.run_id, end.token) for end in ends), now)
        self._wakeups.room_made(None)  # under the limits that they had places under
        return [run for run in runs if run.run_id not in settled]

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        """Raise the session's counter, and reconcile what it holds with the store."""
        try:
            (result,) = await self._beats([Beat(session_id=session_id, held=held, answered=answered)])
            # Apart from the beats: while this takes its time, other sessions can beat.
            await self._releases(result.unknown)
        except StoreUnavailable:
            self._write_health.sessions.add(session_id)
            raise
        return BeatReply(
            is_session_live=result.is_session_live,
            lost=result.lost,
            cancel=result.cancel,
            preempt=result.preempt,
        )

    async def _beat_all(self, beats: Sequence[Beat]) -> Sequence[BeatResult]:
        return await self._store.beat_sessions(beats, now=self._clock.now())

    async def _release_all(self, unknown: Sequence[HeldRun]) -> Sequence[None]:
        # The worker never got these leases (a claim's answer was lost) or forgot them, so no worker executes them.
        # Nothing here shows whether an at-most-once run was started, so it counts as started.
        specs = await self._definitions.load((run.job_id, run.version) for run in unknown)
        now = self._clock.now()
        transitions = [
            handed_back(facts_of(run), specs[run.job_id, run.version], now=now, was_started=True)
            for run in unknown
        ]
        await self._store.apply(transitions, now=now)
        self.released += len(transitions)
        _log.warning("leases_released", runs=[format_run_id(run.run_id) for run in unknown])
        self._wakeups.runs_ready(keys=None)
        return [None] * len(unknown)

    async def report(
        self, session_id: SessionId, reports: tuple[Report, ...], *, tenant: str | None = None
    ) -> tuple[ReportResult, ...]:
        """Apply reports of how attempts ended. Return one result per report.

        A report on a lease that another session holds is stale.

        Args:
            tenant: the only one whose runs exist for the session; None means all.
        """
        try:
            foreign = await self._find_foreign(reports, tenant) if tenant is not None else frozenset()
            own = [report for report in reports if report.run_id not in foreign]
            results = iter(await self._reports([(session_id, keep_storable(report)) for report in own]))
        except StoreUnavailable:
            self._write_health.has_reports = True
            raise
        if not foreign:
            return tuple(results)
        return tuple(
            ReportResult.MISSING if report.run_id in foreign else next(results) for report in reports
        )

    async def _find_foreign(self, reports: Sequence[Report], tenant: str) -> frozenset[RunId]:
        """Return the runs that are not a tenant's. What this process gave out is known without the store."""
        ids = list(dict.fromkeys(report.run_id for report in reports))
        given = {run_id: self._book.tenant_of(run_id) for run_id in ids}
        unknown = [run_id for run_id, known in given.items() if known is None]
        runs = await self._store.get_runs(unknown) if unknown else []
        given |= {run.id: run.tenant for run in runs if run is not None}
        return frozenset(run_id for run_id, whose in given.items() if whose not in {None, tenant})

    async def _report_all(self, reports: Sequence[_SessionReport]) -> Sequence[ReportResult]:
        others = [report for _, report in reports if not isinstance(report.ending, Success)]
        held: dict[RunId, HeldRun] = {}
        specs: dict[tuple[JobId, int], JobSpec] = {}
        if others:
            ids = [report.run_id for report in others]
            held = {run.run_id: run for run in await self._store.read_held(ids) if run is not None}
            specs = await self._definitions.load((run.job_id, run.version) for run in held.values())
        now = self._clock.now()
        transitions = []
        for session_id, report in reports:
            ending = report.ending
            if isinstance(ending, Success):
                end = succeeded(report.run_id, report.token, session_id, ending.result, ending.output)
            else:
                end = self._decide(session_id, report, held.get(report.run_id), specs, now=now)
            transitions.append(end)
        results = await self._store.apply(transitions, now=now)
        self.stale_reports += results.count(ApplyResult.STALE)
        if others:
            self._note_others(transitions, results, held, specs)
        self._note_ends(reports, transitions, results, now, are_successes=not others)
        self._log_feed.note_ends(report.run_id for _, report in reports)
        ended = self._book.take_keys(report.run_id for _, report in reports)
        if others:
            self._wakeups.runs_ready(keys=ended)
        elif ended:
            self._wakeups.room_made(ended)
        return [_RESULTS[result] for result in results]

    def _note_others(
        self,
        transitions: Sequence[Transition],
        results: Sequence[ApplyResult],
        held: Mapping[RunId, HeldRun],
        specs: Mapping[tuple[JobId, int], JobSpec],
    ) -> None:
        """Count and log the ends that were no successes."""
        for end, result in zip(transitions, results, strict=True):
            run = held.get(end.run_id)
            if result is not ApplyResult.APPLIED or run is None or run.token != end.token:
                continue
            self.preempted += end.outcome is AttemptOutcome.PREEMPTED
            self._event_log.note_end(end, specs[run.job_id, run.version], run.attempt, run.trace)

    def _note_ends(
        self,
        reports: Sequence[_SessionReport],
        transitions: Sequence[Transition],
        results: Sequence[ApplyResult],
        now: datetime,
        *,
        are_successes: bool,
    ) -> None:
        """Count ends, have tenants charged by what their attempts took, and their slots counted as free.

        No worker can say more than the time since its claim.
        """
        ended = [report for _, report in reports]
        if results.count(ApplyResult.APPLIED) < len(results):
            are_applied = [result is ApplyResult.APPLIED for result in results]
            ended, transitions = list(compress(ended, are_applied)), list(compress(transitions, are_applied))
        self._matcher.reserved.note_ends(((report.run_id, report.token) for report in ended), now)
        at = self._clock.monotonic()
        taken = self._book.take([report.run_id for report in ended])
        if any(noted is not None and noted.is_of_step for noted in taken):
            self._wakeups.flows_told()
        if are_successes:
            self.tally.note_successes(taken, at, now)
        else:
            self.tally.note_ends(taken, transitions, at, now)
        for report, given in zip(ended, taken, strict=True):
            if report.took is None or given is None:
                continue  # most of many are not measured
            if not isinstance(report.ending, HandedBack):
                self._matcher.learn(given.tenant, min(max(report.took, 0.0), at - given.at))

    def note_handed_over(self, leases: Sequence[tuple[RunId, int]]) -> None:
        """Note that attempts hold no slot of a worker any more, though they go on: the engine has taken them over."""
        self._matcher.reserved.note_ends(leases, self._clock.now())
        ids = [run_id for run_id, _ in leases]
        self._book.take(ids)
        self._book.take_keys(ids)

    def note_flow_ends(self, ends: Sequence[tuple[Transition, str, JobSpec, float]]) -> None:
        """Count how attempts of workflows have ended, each with tenant, definition and the seconds that it took."""
        at = self._clock.monotonic()
        taken = [NotedLeases(tenant, spec, at - seconds) for _, tenant, spec, seconds in ends]
        self.tally.note_ends(taken, [end for end, _, _, _ in ends], at, self._clock.now())

    async def note_taken_back(self, ends: Sequence[Transition], specs: Mapping[RunId, JobSpec]) -> None:
        """Count the ends of attempts that no worker reported: they were lost, or their deadline had passed.

        Args:
            specs: the definitions of their runs.
        """
        # Only of runs that are over: others may have been given out again by now, and have new entries in the book.
        over = [end for end in ends if end.to in FINAL_STATES]
        taken = self._book.take([end.run_id for end in over])
        unknown = [end.run_id for end, noted in zip(over, taken, strict=True) if noted is None]
        tenants = await find_tenants(self._store, unknown)
        at = self._clock.monotonic()
        for place, end in enumerate(over):
            if end.run_id in tenants and end.run_id in specs:
                taken[place] = NotedLeases(tenants[end.run_id], specs[end.run_id], at)
        self.tally.note_taken_back(taken, over, self._clock.now())

    def _decide(
        self,
        session_id: SessionId,
        report: Report,
        run: HeldRun | None,
        specs: Mapping[tuple[JobId, int], JobSpec],
        *,
        now: datetime,
    ) -> Transition:
        ending = report.ending
        if run is None or run.token != report.token or run.session_id != session_id:
            return repeated(report.run_id, report.token, session_id, _outcome(ending), now=now)
        facts = facts_of(run)
        spec = specs[run.job_id, run.version]
        if isinstance(ending, Failure):
            return failed(facts, spec, ending, now=now, random=self._random.random)
        if isinstance(ending, Snooze):
            return snoozed(facts, until=now + clamp_snooze(ending.delay))
        if isinstance(ending, HandedBack):
            if ending.is_preempted and run.mark is not None and is_asked(run.mark, run.token):
                return preempted(facts, spec, by=run.mark.by, now=now)
            return handed_back(facts, spec, now=now, was_started=ending.was_started)
        if isinstance(ending, Stopped):
            return cancelled(facts, error=ending.error, output=ending.output)
        return succeeded(report.run_id, report.token, session_id, ending.result, ending.output)

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Keep a file; see `ArtifactGateway`."""
        return await self._artifacts.put(session_id, upload)

    async def keep_checkpoints(self, session_id: SessionId, items: Sequence[NewCheckpoint]) -> KeptSteps:
        """Keep what steps have come to; see `CheckpointGateway`."""
        del session_id  # it stands in each of them
        return await self._checkpoints.keep(items)

    async def list_checkpoints(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        """Return a page of the steps of a run to the session that holds it; see `CheckpointGateway`."""
        return await self._checkpoints.list_held(session_id, run_id, token, after=after)

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        """Keep what attempts under way have written. Return one result per report."""
        return await self._logs.keep(session_id, reports)

    async def leave(self, session_id: SessionId) -> None:
        """End the session. Whatever it still holds counts as lost at once."""
        self._matcher.forget(session_id)
        await self._store.close_sessions([session_id], now=self._clock.now())


def _outcome(ending: Ending) -> AttemptOutcome:
    if isinstance(ending, Failure):
        return AttemptOutcome.TIMED_OUT if ending.is_timeout else AttemptOutcome.FAILED
    if isinstance(ending, Snooze):
        return AttemptOutcome.SNOOZED
    if isinstance(ending, HandedBack):
        return AttemptOutcome.HANDED_BACK
    return AttemptOutcome.CANCELLED if isinstance(ending, Stopped) else AttemptOutcome.SUCCEEDED
