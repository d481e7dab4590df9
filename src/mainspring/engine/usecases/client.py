"""All use cases of the engine in one object, for the HTTP API, the embedded SDK and tests."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.backfill_settings import BackfillLimits
from mainspring.core.ids import SessionId
from mainspring.core.serving import Offers, is_of_engine
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.capacity import CapacityReader
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.log_feed import LogFeed
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.serving import OfferReader
from mainspring.engine.common.traces import RunTraces
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases import events
from mainspring.engine.usecases.access import AccessControl
from mainspring.engine.usecases.alerts import AlertRules, Alerts
from mainspring.engine.usecases.applying import Applying
from mainspring.engine.usecases.archiving import ArchiveDays
from mainspring.engine.usecases.artifacts import Artifacts
from mainspring.engine.usecases.audit_trail import KEEP, AuditTrail
from mainspring.engine.usecases.backfills import Backfills
from mainspring.engine.usecases.blackouts import Blackouts
from mainspring.engine.usecases.browsing import BUDGET
from mainspring.engine.usecases.calendars import Calendars
from mainspring.engine.usecases.caps import CapSwitch, Labels
from mainspring.engine.usecases.channels import Channels
from mainspring.engine.usecases.checkpoints import Checkpoints
from mainspring.engine.usecases.dead_letters import DeadLetters
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.flow_answers import FlowAnswers
from mainspring.engine.usecases.flow_commands import FlowCommands
from mainspring.engine.usecases.intake import Intake
from mainspring.engine.usecases.jobs import Jobs
from mainspring.engine.usecases.ledger import Ledgers
from mainspring.engine.usecases.limits import Limits
from mainspring.engine.usecases.monitors import Monitors
from mainspring.engine.usecases.objectives import Objectives
from mainspring.engine.usecases.overview import OverviewReader
from mainspring.engine.usecases.owners import Owners
from mainspring.engine.usecases.pauses import PauseSwitch
from mainspring.engine.usecases.priority_classes import PriorityClasses
from mainspring.engine.usecases.queues import Queues
from mainspring.engine.usecases.redrives import Redrives
from mainspring.engine.usecases.redriving import Redriving
from mainspring.engine.usecases.run_logs import RunLogs
from mainspring.engine.usecases.runs import KEY_LIFETIME, Runs, WaitingSlots
from mainspring.engine.usecases.session_owners import SessionOwners
from mainspring.engine.usecases.tenants import Tenants
from mainspring.engine.usecases.usage import UsageReader
from mainspring.engine.usecases.versions import Versions
from mainspring.engine.usecases.workflows import Workflows
from mainspring.ports.channel import Sender
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionFacts

_KEPT = Retention().history


class Client:
    """Use cases on jobs (`client.jobs`), runs (`client.runs`) and calendars, and on what is set for tenants and others.

    The latter are queues (`client.queues`), labels (`client.labels`), the limits that jobs share (`client.limits`),
    priority classes (`client.priority_classes`), and what is paused (`client.pauses`), also by calendars
    (`client.blackouts`). `client.owners` knows whose code defines which jobs, and `client.offer_reader` what live
    workers offer. `client.applying` makes jobs what files say, and `client.versions` looks back at what a job was.
    `client.workflows` checks jobs that have steps, and shows their graphs; `client.flow_commands` pauses their runs,
    and `client.flow_answers` answers steps that wait.
    `client.events` takes in what starts jobs.
    `client.backfills` makes the runs of jobs for a range that is past, `client.redriving` runs a failed one again and
    `client.redrives` many at a rate, `client.ledgers` compares owed fires with records, and `client.overviews` says
    what all of it does. `client.audit` says who changed what, and `client.access` knows accounts and their tokens.
    `client.archive` says which days of the history were written elsewhere, `client.artifacts` has the files that runs
    left behind, and `client.run_logs` has what they write.
    `client.alert_rules` says what is worth telling, `client.alerts` has what they found, and `client.channels` where
    it is told. `client.objectives` says how many runs are to start in time or to succeed, and how many do.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: IdSource,
        accepted: Accepted,
        log_feed: LogFeed,
        wakeups: Wakeups | None = None,
        slots: WaitingSlots | None = None,
        calendars: CalendarReader | None = None,
        expiries: QueueExpiryFollower | None = None,
        run_counts: RunCounts | None = None,
        key_lifetime: timedelta = KEY_LIFETIME,
        list_budget: timedelta = BUDGET,
        kept: timedelta = _KEPT,
        audit_kept: timedelta = KEEP,
        backfill_limits: BackfillLimits | None = None,
        sender: Sender | None = None,
        traces: RunTraces | None = None,
        artifacts: Artifacts | None = None,
        checkpoints: Checkpoints | None = None,
        definitions: Definitions | None = None,
        events_kept: timedelta = events.KEEP,
    ) -> None:
        self._store, self._clock = store, clock
        wakeups, calendars = wakeups or Wakeups(), calendars or CalendarReader(store)
        self.intake: Intake = Intake(store, clock=clock)
        restrictions = RestrictionReader(store, calendars)
        self.jobs: Jobs = Jobs(
            store,
            clock=clock,
            ids=ids,
            wakeups=wakeups,
            accepted=accepted,
            calendars=calendars,
            intake=self.intake,
            restrictions=restrictions,
        )
        self.versions: Versions = Versions(store, self.jobs)
        self.flow_commands: FlowCommands = FlowCommands(store, clock=clock, wakeups=wakeups)
        self.flow_answers: FlowAnswers = FlowAnswers(self.flow_commands)
        self.workflows: Workflows = Workflows(store, self.jobs, clock=clock, accepted=accepted)
        self.ledgers: Ledgers = Ledgers(store, self.jobs, calendars, clock=clock, kept=kept)
        self.offer_reader: OfferReader = OfferReader(store, clock=clock, wakeups=wakeups)
        self.owners: Owners = Owners(store, self.jobs, self.offer_reader, clock=clock, wakeups=wakeups)
        self.applying: Applying = Applying(
            store,
            clock=clock,
            ids=ids,
            wakeups=wakeups,
            accepted=accepted,
            calendars=calendars,
            intake=self.intake,
            owners=self.owners,
        )
        self.calendars: Calendars = Calendars(store, calendars, clock=clock, wakeups=wakeups)
        self.backfills: Backfills = Backfills(
            store, clock=clock, ids=ids, calendars=calendars, limits=backfill_limits or BackfillLimits()
        )
        self.audit: AuditTrail = AuditTrail(store, keep=audit_kept)
        self.archive: ArchiveDays = ArchiveDays(store)
        self.artifacts: Artifacts = artifacts or Artifacts(store, clock=clock)
        self.checkpoints: Checkpoints = checkpoints or Checkpoints(store, clock=clock)
        self.usage: UsageReader = UsageReader(store, clock=clock)
        self.limits: Limits = Limits(store, clock=clock, wakeups=wakeups)
        self.caps: CapSwitch = CapSwitch(store, clock=clock, wakeups=wakeups)
        self.tenants: Tenants = Tenants(store, self.caps, clock=clock)
        self.queues: Queues = Queues(store, self.caps, clock=clock)
        self.labels: Labels = Labels(self.caps)
        self.priority_classes: PriorityClasses = PriorityClasses(store, clock=clock)
        self.session_owners: SessionOwners = SessionOwners(store)
        self.access: AccessControl = AccessControl(store, clock=clock, ids=ids)
        self.alert_rules: AlertRules = AlertRules(store, clock=clock)
        self.alerts: Alerts = Alerts(store, clock=clock)
        self.channels: Channels = Channels(store, clock=clock, sender=sender)
        self.monitors: Monitors = Monitors(store, clock=clock, ids=ids)
        self.capacity: CapacityReader = CapacityReader(store, calendars, kept=kept)
        self.objectives: Objectives = Objectives(store, clock=clock)
        self.pauses: PauseSwitch = PauseSwitch(store, clock=clock, wakeups=wakeups)
        self.blackouts: Blackouts = Blackouts(store, restrictions, clock=clock, wakeups=wakeups)
        self.overviews: OverviewReader = OverviewReader(store, restrictions, clock=clock)
        self.runs: Runs = Runs(
            store,
            clock=clock,
            wakeups=wakeups,
            intake=self.intake,
            expiries=expiries,
            restrictions=restrictions,
            counts=run_counts,
            slots=slots,
            traces=traces,
            key_lifetime=key_lifetime,
            list_budget=list_budget,
        )
        self.events: events.EventInbox = events.EventInbox(
            store,
            clock=clock,
            ids=ids,
            wakeups=wakeups,
            intake=self.intake,
            definitions=definitions or Definitions(store),
            restrictions=restrictions,
            expiries=expiries or QueueExpiryFollower(),
            counts=run_counts or RunCounts(),
            keep=events_kept,
        )
        self.run_logs: RunLogs = RunLogs(store, self.runs, log_feed)
        self.dead_letters: DeadLetters = DeadLetters(store, clock=clock)
        self.redrives: Redrives = Redrives(store, self.dead_letters, clock=clock, ids=ids)
        self.redriving: Redriving = Redriving(
            store,
            clock=clock,
            intake=self.intake,
            expiries=expiries or QueueExpiryFollower(),
            insert=self.runs.insert,
        )

    async def offers(self) -> Offers:
        """Return what live workers offer, as of the last second."""
        return await self.offer_reader.read()

    def now(self) -> datetime:
        """Return the store's time."""
        return self._clock.now()

    async def workers(
        self, *, after: SessionId | None = None, limit: int = 100, tenant: str | None = None
    ) -> list[tuple[SessionFacts, int]]:
        """Return a page of live worker sessions, in order of their start, each with how many runs it holds.

        Those of servers' own workers, which begin workflows, are left out.

        Args:
            tenant: only those that are bound to it; None means all, bound or not.
        """
        sessions: list[SessionFacts] = []
        while room := limit - len(sessions):
            page = await self._store.page_sessions(after=after, limit=room, tenant=tenant)
            sessions += [session for session in page if not is_of_engine(session)]
            if len(page) < room:
                break
            after = page[-1].id
        held = await self._store.count_held([session.id for session in sessions])
        return list(zip(sessions, held, strict=True))
