"""Puts the engine together on an open store: its parts, what they share, and the order in which they stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.event_log import EventLog
from mainspring.engine.common.exchange import ServedExchange
from mainspring.engine.common.hints import HintExchange
from mainspring.engine.common.log_feed import LogFeed
from mainspring.engine.common.policies import PolicyFollower
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionFollower, RestrictionReader
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.service import Service, ServiceRunner
from mainspring.engine.common.traces import RunTraces
from mainspring.engine.common.usage import UsageRecorder
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.common.write_health import WriteHealth
from mainspring.engine.gateway import LocalGateway
from mainspring.engine.scheduling.alert_services import make_alert_services
from mainspring.engine.scheduling.archiver import Archiver
from mainspring.engine.scheduling.backfill_fires import BackfillFires
from mainspring.engine.scheduling.backfills import Backfiller
from mainspring.engine.scheduling.calendars import CalendarFollower, Replanner
from mainspring.engine.scheduling.catch_up import CatchUp
from mainspring.engine.scheduling.census import CensusTaker
from mainspring.engine.scheduling.ends import EndFollower
from mainspring.engine.scheduling.failures import FailureWatch
from mainspring.engine.scheduling.job_check import JobCheck
from mainspring.engine.scheduling.ledger_check import LedgerChecker
from mainspring.engine.scheduling.membership import Membership
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.planner import Planner
from mainspring.engine.scheduling.redriver import Redriver
from mainspring.engine.scheduling.sealer import Sealer
from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.scheduling.usage_hours import UsageHours
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Janitor
from mainspring.engine.settling.preemptor import Preemptor
from mainspring.engine.settling.reaper import Reaper
from mainspring.engine.usecases.artifacts import Artifacts
from mainspring.engine.usecases.checkpoints import Checkpoints
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.identities import Identities
from mainspring.engine.workflows.reconciler import FlowReconciler
from mainspring.engine.workflows.starter import FlowStarter
from mainspring.engine.workflows.turner import FlowTurner
from mainspring.errors import StoreUnavailable
from mainspring.objects import ObjectStreams
from mainspring.ports.archive import Archive
from mainspring.ports.channel import Pinger, Sender
from mainspring.ports.clock import Clock
from mainspring.ports.hints import HintChannel
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.telemetry import Measure, Source, Telemetry
from mainspring.ports.tracing import Tracer


class Engine:
    """The use cases, the workers' gateway and the services of one process, all on one store.

    Args:
        hints: the channel to other processes on the same store, if there is one. The engine connects and closes it.
        sender: delivers what alerts tell; None delivers nothing. Who makes the engine starts and stops it.
        tracer: takes the spans of submissions and fires; None if they are not exported.
        archive: where days of the history go before they are removed; None removes them as they are.
        files: where the files lie that runs leave behind; None keeps none.
        pinger: tells a monitor elsewhere that alerts are judged, as `sender` is started; None tells none.

    Attributes:
        matcher: where workers' claims wait.
        ownership: the shards that the node believes it owns.
        shards: takes shards and gives them up; None if the engine is not a scheduler.
        job_check: finds what is wrong with jobs; None if the engine is not a scheduler.
        identities: finds whom access tokens stand for; a service that only a process with the API starts.
        services: by name, in the order in which they start.
        telemetry: the measures of all parts; a process adds its own sources.
        tracer: takes the spans of this process; None if they are not exported.
        tools: what the engine was made with; its worker and its API take the secrets from there.
    """

    def __init__(
        self,
        store: Store,
        tools: Tools,
        settings: EngineSettings,
        *,
        hints: HintChannel | None = None,
        sender: Sender | None = None,
        tracer: Tracer | None = None,
        archive: Archive | None = None,
        pinger: Pinger | None = None,
        files: ObjectStreams | None = None,
    ) -> None:
        self.store = store
        self.tracer: Tracer | None = tracer
        self._sender = sender
        self._archive, self._pinger = archive, pinger
        self._archiver: Archiver | None = None
        self._starter: FlowStarter | None = None
        self.clock: Clock = tools.clock
        self.tools: Tools = tools
        self.wakeups: Wakeups = Wakeups()
        # One shared cache, so that a claim need not read what the planner has already read.
        definitions, calendars, expiries = Definitions(store), CalendarReader(store), QueueExpiryFollower()
        restriction_reader = RestrictionReader(store, calendars)
        self.matcher: Matcher = Matcher(
            store,
            clock=tools.clock,
            random=tools.random,
            wakeups=self.wakeups,
            waiter=tools.waiter(),
            restrictions=restriction_reader,
        )
        self._write_health = WriteHealth()
        self._run_counts = RunCounts()
        self._traces = RunTraces(
            tracer,
            random=tools.random,
            sample=settings.trace_sample,
            split_after=settings.trace_split_after,
        )
        self._event_log = EventLog(
            clock=tools.clock, waiter=tools.waiter(), is_silent=not settings.logs_events
        )
        self._artifacts = Artifacts(
            store,
            files,
            clock=tools.clock,
            keep=settings.keep_artifacts,
            limit=settings.artifact_limit,
        )
        checkpoints = Checkpoints(store, clock=tools.clock)
        log_feed = LogFeed(store, waiter=tools.waiter())
        self.gateway: LocalGateway = LocalGateway(
            store,
            self.matcher,
            clock=tools.clock,
            random=tools.random,
            wakeups=self.wakeups,
            beat_period=settings.beat_period,
            definitions=definitions,
            write_health=self._write_health,
            event_log=self._event_log,
            artifacts=self._artifacts,
            checkpoints=checkpoints,
            log_feed=log_feed,
        )
        self._expressions = settings.accepted.expressions
        self.client: Client = Client(
            store,
            clock=tools.clock,
            ids=tools.ids,
            wakeups=self.wakeups,
            slots=self.matcher,
            calendars=calendars,
            expiries=expiries,
            run_counts=self._run_counts,
            accepted=settings.accepted,
            key_lifetime=settings.key_lifetime,
            list_budget=settings.list_budget,
            kept=settings.retention.history,
            audit_kept=settings.retention.audit,
            backfill_limits=settings.backfills,
            sender=sender,
            traces=self._traces,
            artifacts=self._artifacts,
            checkpoints=checkpoints,
            log_feed=log_feed,
            definitions=definitions,
            events_kept=settings.retention.events,
        )
        self.ownership: Ownership = Ownership()
        self.shards: Shards | None = None
        self.job_check: JobCheck | None = None
        self._policies = PolicyFollower(store, waiter=tools.waiter())
        followers = (
            self.matcher.follow,
            self.matcher.reserved.follow,
            self.client.intake.follow,
            expiries.follow,
        )
        for follow in followers:
            self._policies.tell(follow)
        self._restrictions = restrictions = RestrictionFollower(
            store, restriction_reader, wakeups=self.wakeups, waiter=tools.waiter()
        )
        restrictions.tell(self.matcher.follow_restrictions)
        services: list[Service] = [self._policies, restrictions, self.matcher, self._event_log, log_feed]
        self._exchange: HintExchange | None = None
        if hints is not None:
            self._exchange = HintExchange(
                hints, wakeups=self.wakeups, clock=tools.clock, random=tools.random, waiter=tools.waiter()
            )
            services.append(self._exchange)
        self._usage: UsageRecorder | None = self._make_recorder() if settings.records_usage else None
        services += [] if self._usage is None else [self._usage]
        if settings.node is not None:
            services += self._make_scheduler(
                settings.node, settings, definitions, calendars, expiries, restrictions
            )
        # Only a process that serves the API runs it.
        self.identities: Identities = Identities(
            store, clock=tools.clock, ids=tools.ids, waiter=tools.waiter()
        )
        self.identities.on_change = self.matcher.dismiss
        self.services: dict[str, Service] = {service.name: service for service in services}
        self._runners: list[ServiceRunner] = []
        self.telemetry: Telemetry = Telemetry()
        client = self.client
        parts = (store, self._run_counts, self.gateway, client.runs, client.intake, client.events)
        for part in (self, *parts, *services):
            if isinstance(part, Source):
                self.telemetry.watch(part)

    def measures(self) -> Iterator[Measure]:
        """Yield what the store reports about itself."""
        yield Measure("store_failovers_total", len(self.store.failovers))

    def _make_scheduler(
        self,
        node: NodeFacts,
        settings: EngineSettings,
        definitions: Definitions,
        calendars: CalendarReader,
        expiries: QueueExpiryFollower,
        restrictions: RestrictionFollower,
    ) -> list[Service]:
        store, tools, ownership = self.store, self.tools, self.ownership
        self.job_check = JobCheck(store, self.client.offer_reader, clock=tools.clock, waiter=tools.waiter())
        self.shards = Shards(
            store,
            node=node,
            ownership=ownership,
            clock=tools.clock,
            waiter=tools.waiter(),
            settings=settings.shards,
            write_health=self._write_health,
            host_time=tools.host_time,
            served=ServedExchange(self.matcher.order),
            membership=Membership(store, node_id=node.id, on_start=self.wakeups.clocks_changed),
        )
        self.wakeups.subscribe_shards(self.shards.waiter.signal)
        return [
            self.shards,
            Planner(
                store,
                clock=tools.clock,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                definitions=definitions,
                calendars=calendars,
                expiries=expiries,
                restrictions=restrictions,
                event_log=self._event_log,
                counts=self._run_counts,
                traces=self._traces,
            ),
            CatchUp(
                store,
                pace=settings.catch_up,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                definitions=definitions,
                calendars=calendars,
                expiries=expiries,
                restrictions=restrictions,
                counts=self._run_counts,
            ),
            Backfiller(
                store,
                BackfillFires(store, definitions, calendars),
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                expiries=expiries,
                counts=self._run_counts,
            ),
            Reaper(
                store,
                clock=tools.clock,
                random=tools.random,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                beat_period=settings.beat_period.total_seconds(),
                definitions=definitions,
                write_health=self._write_health,
                event_log=self._event_log,
                counts=self._run_counts,
                on_taken_back=self.gateway.note_taken_back,
            ),
            *self._make_flow_services(node, definitions, expiries),
            self._make_preemptor(definitions, restrictions),
            Redriver(store, self.client.redriving, ownership=ownership, waiter=tools.waiter()),
            Janitor(
                store,
                waiter=tools.waiter(),
                retention=settings.retention,
                archives=self._archive is not None,
                sweep=self._artifacts.sweep if self._artifacts.is_on else None,
            ),
            FailureWatch(
                store,
                clock=tools.clock,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                calendars=calendars,
            ),
            EndFollower(
                store,
                clock=tools.clock,
                ownership=ownership,
                wakeups=self.wakeups,
                waiter=tools.waiter(),
                calendars=calendars,
            ),
            CalendarFollower(
                store,
                Replanner(store, calendars, clock=tools.clock, wakeups=self.wakeups),
                ownership=ownership,
                waiter=tools.waiter(),
            ),
            CensusTaker(store, clock=tools.clock, ownership=ownership, waiter=tools.waiter()),
            LedgerChecker(
                store,
                clock=tools.clock,
                ownership=ownership,
                calendars=calendars,
                kept=settings.retention.history,
                waiter=tools.waiter(),
            ),
            *self._make_archiver(settings),
            *self._make_sealer(settings),
            *self._make_alerting(settings, restrictions, calendars),
            *self._make_usage_hours(settings),
            self.job_check,
        ]

    def _make_flow_services(
        self, node: NodeFacts, definitions: Definitions, expiries: QueueExpiryFollower
    ) -> list[Service]:
        store, tools, wakeups = self.store, self.tools, self.wakeups
        self._starter = FlowStarter(
            store,
            self.gateway,
            self.matcher,
            definitions=definitions,
            expiries=expiries,
            clock=tools.clock,
            wakeups=wakeups,
            waiter=tools.waiter(),
            counts=self._run_counts,
            host=node.host,
            pid=node.pid,
            expressions=self._expressions,
        )
        return [
            self._starter,
            FlowTurner(
                store,
                clock=tools.clock,
                random=tools.random,
                ownership=self.ownership,
                wakeups=wakeups,
                waiter=tools.waiter(),
                definitions=definitions,
                expiries=expiries,
                event_log=self._event_log,
                counts=self._run_counts,
                ends=self.gateway,
                expressions=self._expressions,
            ),
            FlowReconciler(store, ownership=self.ownership, wakeups=wakeups, waiter=tools.waiter()),
        ]

    def _make_sealer(self, settings: EngineSettings) -> list[Service]:
        sealer = Sealer(self.store, ownership=self.ownership, waiter=self.tools.waiter())
        return [sealer] if settings.seals_audit else []

    def _make_archiver(self, settings: EngineSettings) -> list[Service]:
        if self._archive is None:
            return []
        self._archiver = Archiver(
            self.store,
            self._archive,
            ownership=self.ownership,
            waiter=self.tools.waiter(),
            keep=settings.retention.history,
        )
        return [self._archiver]

    def _make_usage_hours(self, settings: EngineSettings) -> list[Service]:
        hours = UsageHours(
            self.store,
            ownership=self.ownership,
            minutes=settings.retention.usage_minutes,
            hours=settings.retention.usage_hours,
            waiter=self.tools.waiter(),
        )
        return [hours] if settings.records_usage else []

    def _make_recorder(self) -> UsageRecorder:
        return UsageRecorder(
            self.store,
            [self.gateway.tally.usage, self._run_counts.usage],
            process=str(self.tools.ids.new_uuid()),
            clock=self.clock,
            waiter=self.tools.waiter(),
        )

    def _make_alerting(
        self, settings: EngineSettings, restrictions: RestrictionFollower, calendars: CalendarReader
    ) -> list[Service]:
        if not settings.judges_alerts:
            return []
        return make_alert_services(
            self.store,
            self._sender,
            restrictions,
            calendars,
            clock=self.clock,
            ownership=self.ownership,
            waiter=self.tools.waiter,
            kept=settings.retention.history,
            pinger=self._pinger,
            public_url=settings.public_url,
        )

    def _make_preemptor(self, definitions: Definitions, restrictions: RestrictionFollower) -> Preemptor:
        preemptor = Preemptor(
            self.store,
            clock=self.tools.clock,
            definitions=definitions,
            restrictions=restrictions,
            wakeups=self.wakeups,
            waiter=self.tools.waiter(),
        )
        self._policies.tell(preemptor.follow)
        return preemptor

    async def start(self, *others: Service, holds_start: bool = False) -> None:
        """Read what is set, take this node's share of the free shards, then run all services.

        So a lone node owns all shards before it is up, and its first runs expire as their queues say.

        Args:
            others: further services of this process, which start first.
            holds_start: jobs whose trigger is at start do not fire before `release_start`.
        """
        if self.shards is not None:
            self.shards.membership.is_held = holds_start
            await self._read_settings()
            await self.shards.tick(self.clock.now())
        else:
            with suppress(StoreUnavailable):  # a worker need not wait for that; the services read it later
                await self._read_settings()
        self._run([*others, *self.services.values()])

    def run_beside(self, service: Service) -> None:
        """Run a further service of this process until the engine stops."""
        self._run([service])

    def release_start(self) -> None:
        """Let the jobs fire whose trigger is at start, if this node is the first: those of its app are stored."""
        if self.shards is not None:
            self.shards.membership.is_held = False
            self.shards.waiter.signal()

    async def _read_settings(self) -> None:
        """Read what is set, so that no fire is made without knowing what skips it."""
        for service in (self._policies, self._restrictions):
            await service.tick(self.clock.now())

    def _run(self, services: Sequence[Service]) -> None:
        for service in services:
            runner = ServiceRunner(service, clock=self.clock, random=self.tools.random)
            runner.start()
            self._runners.append(runner)
            self.telemetry.watch(runner)

    async def stop(self) -> None:
        """Stop in order: answer waiting claims, let each service finish its tick, give up the shards, announce that."""
        self.matcher.close()
        if self._archiver is not None:
            self._archiver.give_up()
        while self._runners:
            runner = self._runners.pop()
            await runner.stop()
            self.telemetry.forget(runner)
        if self._starter is not None:
            with suppress(StoreUnavailable):  # else the others find it silent
                await self._starter.stop()
        if self._usage is not None:
            await self._usage.finish()
        try:
            if self.shards is not None:
                await self.shards.leave(self.clock.now())
                self.wakeups.shards_left()
        finally:
            if self._exchange is not None:
                await self._exchange.close()
