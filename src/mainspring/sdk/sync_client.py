"""All routes of the HTTP API as typed methods, for code without an event loop.

Made by `make docs-generate` from `mainspring.sdk.client`; do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, BinaryIO, Protocol, TypeVar, Unpack

from mainspring.clock import UuidSource
from mainspring.core.redrives import USUAL_RATE
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.lists import DeadFilters, Lists, RunFilters
from mainspring.wire.access import AccountPage, AccountView, MadeTokenView, MeView, TokenPage, TokenView
from mainspring.wire.alerts import (
    AlertPage,
    AlertRuleList,
    AlertRuleView,
    AlertView,
    ChannelList,
    ChannelView,
    SilenceList,
    SilenceView,
    TriedView,
)
from mainspring.wire.answers import AnswerView
from mainspring.wire.applying import AppliedView, DefinitionsView
from mainspring.wire.archive import ArchivePage
from mainspring.wire.artifacts import ArtifactPage, ArtifactView
from mainspring.wire.audit import AuditCheckView, AuditPage
from mainspring.wire.backfills import BackfillAnswer, BackfillPage, BackfillView
from mainspring.wire.blackouts import BlackoutList
from mainspring.wire.calendars import (
    CalendarDays,
    CalendarImported,
    CalendarPage,
    CalendarView,
    CalendarWritten,
    FireList,
    TriggerPreview,
)
from mainspring.wire.capacity import CapacityView
from mainspring.wire.checkpoints import CheckpointPage
from mainspring.wire.dead_letters import DeadGroups, DeadPage, DiscardedView
from mainspring.wire.events import EventPage, SentView
from mainspring.wire.health import HealthView
from mainspring.wire.ledger import FireRangeList, LedgerPage, LedgerView
from mainspring.wire.limits import KeyPage, LimitPage, LimitView
from mainspring.wire.logging import LoggingView
from mainspring.wire.logins import BeginLoginView, LoginView
from mainspring.wire.monitors import MonitorList, MonitorView, PingTaken
from mainspring.wire.objectives import SloList, SloView
from mainspring.wire.overview import OverviewView
from mainspring.wire.owners import OwnerView
from mainspring.wire.pages import BriefPage, JobPage, RunPage, WorkerPage
from mainspring.wire.pauses import PauseList
from mainspring.wire.policies import LabelPage, LabelView, QueuePage, QueueView, TenantPage, TenantView
from mainspring.wire.priorities import PriorityClassPage, PriorityClassView
from mainspring.wire.redrives import RedriveAnswer, RedrivePage, RedriveView
from mainspring.wire.run_detail import RunDetail
from mainspring.wire.usage import UsageView
from mainspring.wire.versions import VersionPage
from mainspring.wire.views import (
    BulkJobView,
    BulkRunView,
    CancelView,
    CountsView,
    Deleted,
    JobView,
    StatusView,
    SubmittedView,
)
from mainspring.wire.why import WhyView
from mainspring.wire.workflows import FlowCommandView, GraphView, ItemPage, JobGraphView, StepPage
from mainspring.wire.written import JobWritten

T = TypeVar("T")
_USUAL_LIMIT = 100
_IDS = UuidSource()


class Perform(Protocol):
    """Makes calls with a client while the calling thread waits."""

    def __call__(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]], /) -> T: ...


class SyncClient(Lists):
    """A server's API, for one tenant, as `AsyncClient` has it. `App.sync` is one.

    Args:
        perform: makes a call, and returns its answer.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def create_job(self, body: Mapping[str, Any]) -> JobWritten:
        """Create a job."""
        return self._perform(lambda client: client.create_job(body))

    def create_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[BulkJobView]:
        """Create up to 1,000 jobs."""
        return self._perform(lambda client: client.create_jobs(bodies))

    def put_job(self, body: Mapping[str, Any]) -> JobWritten:
        """Create a job, or redefine the job of that name."""
        return self._perform(lambda client: client.put_job(body))

    def list_jobs(self, *, after: str | None = None, limit: int = 100, name: str | None = None) -> JobPage:
        """Return a page of jobs, or only the job with a given name; `jobs` goes through all pages."""
        return self._perform(lambda client: client.list_jobs(after=after, limit=limit, name=name))

    def get_job(self, job_id: str) -> JobView:
        """Return a job."""
        return self._perform(lambda client: client.get_job(job_id))

    def delete_job(self, job_id: str) -> Deleted:
        """Delete a job."""
        return self._perform(lambda client: client.delete_job(job_id))

    def get_status(self, job_id: str) -> StatusView:
        """Return a job's status."""
        return self._perform(lambda client: client.get_status(job_id))

    def pause_job(self, job_id: str) -> JobView:
        """Pause a job."""
        return self._perform(lambda client: client.pause_job(job_id))

    def resume_job(self, job_id: str) -> JobView:
        """Resume a job."""
        return self._perform(lambda client: client.resume_job(job_id))

    def list_fire_ranges(self, job_id: str, *, limit: int = 100) -> FireRangeList:
        """Return a job's fire ranges."""
        return self._perform(lambda client: client.list_fire_ranges(job_id, limit=limit))

    def get_ledger(
        self, job_id: str, *, from_time: str | None = None, to_time: str | None = None
    ) -> LedgerView:
        """Compare the fires that a job owed with those on record: instants, or text like `2h`."""
        return self._perform(lambda client: client.get_ledger(job_id, from_time=from_time, to_time=to_time))

    def list_ledgers(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        from_time: str | None = None,
        to_time: str | None = None,
    ) -> LedgerPage:
        """Do the same for a page of jobs."""
        return self._perform(
            lambda client: client.list_ledgers(after=after, limit=limit, from_time=from_time, to_time=to_time)
        )

    def submit_run(
        self,
        job_id: str,
        body: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
    ) -> SubmittedView:
        """Submit a run of a job. `body` may have `payload`, `run_at` or `delay`, and `priority`.

        Args:
            traceparent: the trace that the run goes on with, as W3C has it; by default that of the caller's span.
        """
        return self._perform(
            lambda client: client.submit_run(
                job_id, body, idempotency_key=idempotency_key, traceparent=traceparent
            )
        )

    def submit_runs(
        self, items: Sequence[Mapping[str, Any]], *, traceparent: str | None = None
    ) -> list[BulkRunView]:
        """Submit up to 1,000 runs, each of a job by `job_id` or by name (`job`).

        Args:
            traceparent: as for `submit_run`.
        """
        return self._perform(lambda client: client.submit_runs(items, traceparent=traceparent))

    def list_runs(
        self, *, before: str | None = None, limit: int = 100, **wanted: Unpack[RunFilters]
    ) -> RunPage:
        """Return a page of runs, the newest first; `runs` goes through all pages."""
        return self._perform(lambda client: client.list_runs(before=before, limit=limit, **wanted))

    def list_briefs(
        self, *, before: str | None = None, limit: int = 100, **wanted: Unpack[RunFilters]
    ) -> BriefPage:
        """Return a page of runs without payload, result and output; `briefs` goes through all pages."""
        return self._perform(lambda client: client.list_briefs(before=before, limit=limit, **wanted))

    def get_run(self, run_id: str) -> RunDetail:
        """Return a run with its attempts."""
        return self._perform(lambda client: client.get_run(run_id))

    def get_run_why(self, run_id: str) -> WhyView:
        """Say in one sentence why a run has not started, or what became of it."""
        return self._perform(lambda client: client.get_run_why(run_id))

    def cancel_run(self, run_id: str) -> CancelView:
        """Cancel a run."""
        return self._perform(lambda client: client.cancel_run(run_id))

    def count_runs(self) -> CountsView:
        """Return how many runs are in each state, and how old the count is."""
        return self._perform(lambda client: client.count_runs())

    def list_tenants(self, *, after: str | None = None, limit: int = 100) -> TenantPage:
        """Return a page of the tenants for which something was set."""
        return self._perform(lambda client: client.list_tenants(after=after, limit=limit))

    def get_tenant(self, tenant: str) -> TenantView:
        """Return what is set for a tenant; the defaults if nothing was set."""
        return self._perform(lambda client: client.get_tenant(tenant))

    def put_tenant(self, tenant: str, body: Mapping[str, Any]) -> TenantView:
        """Set a tenant's `weight`, `reserved`, `max_running`, `max_queued`, `max_jobs` and `submit_rate`.

        What is left out gets its default.
        """
        return self._perform(lambda client: client.put_tenant(tenant, body))

    def list_limits(self, *, after: str | None = None, limit: int = 100, scope: str = "tenant") -> LimitPage:
        """Return a page of the limits that jobs share; with the scope `cluster` of those that all tenants share."""
        return self._perform(lambda client: client.list_limits(after=after, limit=limit, scope=scope))

    def get_limit(self, name: str, *, scope: str = "tenant") -> LimitView:
        """Return a limit that jobs share."""
        return self._perform(lambda client: client.get_limit(name, scope=scope))

    def put_limit(self, name: str, body: Mapping[str, Any], *, scope: str = "tenant") -> LimitView:
        """Set a limit for jobs to use: `max_running`, `rate`, `burst`, `hold`.

        With the scope `cluster`, jobs of all tenants share it that have none of that name.
        """
        return self._perform(lambda client: client.put_limit(name, body, scope=scope))

    def delete_limit(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a limit that no job uses."""
        return self._perform(lambda client: client.delete_limit(name, scope=scope))

    def list_limit_keys(
        self, name: str, *, after: str | None = None, limit: int = 100, scope: str = "tenant"
    ) -> KeyPage:
        """Return a page of the keys of a limit, with how much of each is taken."""
        return self._perform(
            lambda client: client.list_limit_keys(name, after=after, limit=limit, scope=scope)
        )

    def list_priority_classes(self, *, after: str | None = None, limit: int = 100) -> PriorityClassPage:
        """Return a page of the classes that jobs may name as their priority."""
        return self._perform(lambda client: client.list_priority_classes(after=after, limit=limit))

    def get_priority_class(self, name: str) -> PriorityClassView:
        """Return a priority class."""
        return self._perform(lambda client: client.get_priority_class(name))

    def put_priority_class(self, name: str, body: Mapping[str, Any]) -> PriorityClassView:
        """Set a priority class: `tier`, `preempts`, `preemptible`. Jobs copy it when they are written."""
        return self._perform(lambda client: client.put_priority_class(name, body))

    def delete_priority_class(self, name: str) -> Deleted:
        """Delete a priority class. Jobs that named it keep what they copied."""
        return self._perform(lambda client: client.delete_priority_class(name))

    def list_queues(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """Return a page of the queues for which something was set."""
        return self._perform(lambda client: client.list_queues(after=after, limit=limit))

    def get_queue(self, queue: str) -> QueueView:
        """Return what is set for a queue; the defaults if nothing was set."""
        return self._perform(lambda client: client.get_queue(queue))

    def put_queue(self, queue: str, body: Mapping[str, Any]) -> QueueView:
        """Set a queue's `order`, `aging`, `aging_share`, `max_running`, `max_queued`, `expires_after`, `preempt_after`.

        What is left out gets its default.
        """
        return self._perform(lambda client: client.put_queue(queue, body))

    def list_labels(self, *, after: str | None = None, limit: int = 100) -> LabelPage:
        """Return a page of the labels for which something was set."""
        return self._perform(lambda client: client.list_labels(after=after, limit=limit))

    def get_label(self, label: str) -> LabelView:
        """Return what is set for a label."""
        return self._perform(lambda client: client.get_label(label))

    def put_label(self, label: str, body: Mapping[str, Any]) -> LabelView:
        """Set a label's `max_running`: how many runs that need it may be under way at a time."""
        return self._perform(lambda client: client.put_label(label, body))

    def delete_label(self, label: str) -> Deleted:
        """Unset what is set for a label."""
        return self._perform(lambda client: client.delete_label(label))

    def list_pauses(self) -> PauseList:
        """Return what is paused now: queues, tenants, or everything."""
        return self._perform(lambda client: client.list_pauses())

    def pause_queue(self, queue: str, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop a queue for all tenants. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return self._perform(lambda client: client.pause_queue(queue, body))

    def resume_queue(self, queue: str) -> PauseList:
        """End the pause of a queue. Return what is still paused."""
        return self._perform(lambda client: client.resume_queue(queue))

    def pause_tenant(self, tenant: str, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop all runs of a tenant. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return self._perform(lambda client: client.pause_tenant(tenant, body))

    def resume_tenant(self, tenant: str) -> PauseList:
        """End the pause of a tenant. Return what is still paused."""
        return self._perform(lambda client: client.resume_tenant(tenant))

    def pause_all(self, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop everything. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return self._perform(lambda client: client.pause_all(body))

    def resume_all(self) -> PauseList:
        """End the pause of everything; those of queues and tenants stay. Return what is still paused."""
        return self._perform(lambda client: client.resume_all())

    def list_queue_blackouts(self, queue: str) -> BlackoutList:
        """Return by which calendars a queue stands still."""
        return self._perform(lambda client: client.list_queue_blackouts(queue))

    def put_queue_blackouts(self, queue: str, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have a queue stand still while calendars hold. Each item has a `calendar`, maybe a `mode` and a `note`."""
        return self._perform(lambda client: client.put_queue_blackouts(queue, items))

    def list_tenant_blackouts(self, tenant: str) -> BlackoutList:
        """Return by which calendars a tenant's runs stand still."""
        return self._perform(lambda client: client.list_tenant_blackouts(tenant))

    def put_tenant_blackouts(self, tenant: str, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have a tenant's runs stand still while calendars of its own hold; see `put_queue_blackouts`."""
        return self._perform(lambda client: client.put_tenant_blackouts(tenant, items))

    def list_blackouts(self) -> BlackoutList:
        """Return by which calendars everything stands still; `list_pauses` has those of queues and tenants, too."""
        return self._perform(lambda client: client.list_blackouts())

    def put_blackouts(self, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have everything stand still while calendars hold; see `put_queue_blackouts`."""
        return self._perform(lambda client: client.put_blackouts(items))

    def get_metrics(self) -> str:
        """Return what the server measures, in the text format of Prometheus."""
        return self._perform(lambda client: client.get_metrics())

    def list_workers(self, *, after: str | None = None, limit: int = _USUAL_LIMIT) -> WorkerPage:
        """Return a page of live worker sessions; `workers` goes through all pages."""
        return self._perform(lambda client: client.list_workers(after=after, limit=limit))

    def list_calendars(self, *, after: str | None = None, limit: int = 100) -> CalendarPage:
        """Return a page of calendars, by name."""
        return self._perform(lambda client: client.list_calendars(after=after, limit=limit))

    def get_calendar(self, name: str, *, version: int | None = None) -> CalendarView:
        """Return the newest version of a calendar, or a given one."""
        return self._perform(lambda client: client.get_calendar(name, version=version))

    def put_calendar(self, name: str, body: Mapping[str, Any]) -> CalendarWritten:
        """Create a calendar, or give it a new version. `body` has `rules`, and may have `tz` and `invert`."""
        return self._perform(lambda client: client.put_calendar(name, body))

    def import_calendar(self, name: str, text: str | bytes, *, tz: str | None = None) -> CalendarImported:
        """Create a calendar from the events of an ICS file, or give it a new version.

        Args:
            text: what the file holds.
            tz: the zone in which days begin; None is the one that the file names, or else UTC.
        """
        return self._perform(lambda client: client.import_calendar(name, text, tz=tz))

    def delete_calendar(self, name: str) -> Deleted:
        """Delete a calendar that nothing uses."""
        return self._perform(lambda client: client.delete_calendar(name))

    def list_calendar_versions(
        self, name: str, *, before: int | None = None, limit: int = 100
    ) -> CalendarPage:
        """Return a page of a calendar's versions, the newest first."""
        return self._perform(lambda client: client.list_calendar_versions(name, before=before, limit=limit))

    def list_calendar_days(
        self,
        name: str,
        *,
        from_date: str | None = None,
        to_date: str | None = None,
        version: int | None = None,
    ) -> CalendarDays:
        """Return the dates of a range that a calendar holds; by default of a year from today."""
        return self._perform(
            lambda client: client.list_calendar_days(
                name, from_date=from_date, to_date=to_date, version=version
            )
        )

    def list_job_fires(self, job_id: str, *, from_time: str | None = None, count: int = 5) -> FireList:
        """Return when a job fires next, and what its calendars do with its fires."""
        return self._perform(lambda client: client.list_job_fires(job_id, from_time=from_time, count=count))

    def preview_trigger(
        self, body: Mapping[str, Any], *, from_time: str | None = None, count: int = 5
    ) -> TriggerPreview:
        """Return what a job is understood as, and when it would fire.

        Args:
            body: a job, or only what says when it fires (`cron`, `every`, `calendars`…).
            from_time: only fires at or after this instant.
            count: how many fires.
        """
        return self._perform(lambda client: client.preview_trigger(body, from_time=from_time, count=count))

    def backfill(
        self, job_id: str, from_time: str | datetime, to_time: str | datetime, **options: Any
    ) -> BackfillAnswer:
        """Make the runs of a job for `from_time <= t < to_time`, which is past; with `dry_run` only say which.

        Args:
            from_time, to_time: text in ISO 8601 with an offset, or aware datetimes.
            options: `dry_run`, `skip_done`, `definition`, `rate`, `max_live`, `priority` and `note`.
        """
        return self._perform(lambda client: client.backfill(job_id, from_time, to_time, **options))

    def list_backfills(
        self, *, job_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> BackfillPage:
        """Return a page of backfills, of one job or of all, the newest first."""
        return self._perform(lambda client: client.list_backfills(job_id=job_id, before=before, limit=limit))

    def get_backfill(self, backfill_id: str) -> BackfillView:
        """Return a backfill, and how far it has come."""
        return self._perform(lambda client: client.get_backfill(backfill_id))

    def pause_backfill(self, backfill_id: str) -> BackfillView:
        """Make no further runs of a backfill for now."""
        return self._perform(lambda client: client.pause_backfill(backfill_id))

    def resume_backfill(self, backfill_id: str) -> BackfillView:
        """Go on with a paused backfill."""
        return self._perform(lambda client: client.resume_backfill(backfill_id))

    def cancel_backfill(self, backfill_id: str) -> BackfillView:
        """Make no further runs of a backfill, and cancel those that wait."""
        return self._perform(lambda client: client.cancel_backfill(backfill_id))

    def get_overview(self) -> OverviewView:
        """Return what the cluster does, and what needs attention."""
        return self._perform(lambda client: client.get_overview())

    def get_health(self) -> HealthView:
        """Return the server's health."""
        return self._perform(lambda client: client.get_health())

    def apply_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedView]:
        """Create up to 1,000 jobs, or give those of these names that differ these definitions; all of them or none."""
        return self._perform(lambda client: client.apply_jobs(bodies))

    def apply_definitions(
        self,
        bodies: Sequence[Mapping[str, Any]],
        *,
        owners: Mapping[str, Sequence[str]] | None = None,
        prune: bool = False,
        paused: Collection[str] = (),
    ) -> DefinitionsView:
        """Apply up to 1,000 jobs, and say whose they are: all of it in one transaction, or nothing.

        Args:
            owners: the names of all jobs of each of these owners.
            prune: delete other jobs of theirs.
            paused: names of jobs to pause, if they are new.

        Raises:
            InvalidInput: a definition is wrong, and nothing was changed. The field starts with `jobs[index].`.
            Conflict: someone else has changed a job meanwhile, or the tenant may not have so many jobs; nothing was
                changed.
        """
        return self._perform(
            lambda client: client.apply_definitions(bodies, owners=owners, prune=prune, paused=paused)
        )

    def diff_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedView]:
        """Say what `apply_jobs` would do."""
        return self._perform(lambda client: client.diff_jobs(bodies))

    def edit_job(self, job_id: str, patch: Mapping[str, Any], *, version: int | None = None) -> JobWritten:
        """Change a job's fields. With `version`, only while the job has that version; otherwise raise `Conflict`."""
        return self._perform(lambda client: client.edit_job(job_id, patch, version=version))

    def replace_job(self, job_id: str, body: Mapping[str, Any], *, version: int | None = None) -> JobWritten:
        """Give a job this whole definition; `version` as for `edit_job`."""
        return self._perform(lambda client: client.replace_job(job_id, body, version=version))

    def list_versions(self, job_id: str, *, before: int | None = None, limit: int = 100) -> VersionPage:
        """Return a page of the definitions that a job had, the newest first, each with what it changed."""
        return self._perform(lambda client: client.list_versions(job_id, before=before, limit=limit))

    def redrive_run(self, run_id: str, body: Mapping[str, Any] | None = None) -> SubmittedView:
        """Run a FAILED or CANCELLED run again. `body` may have `definition` (`newest` or `kept`) and `payload`.

        A workflow goes on where it failed. With `from`, it takes nothing over (`start`), or these steps run again, too.
        """
        return self._perform(lambda client: client.redrive_run(run_id, body))

    def list_dead_runs(
        self,
        *,
        settled: bool | None = None,
        before: str | None = None,
        limit: int = 100,
        **wanted: Unpack[DeadFilters],
    ) -> DeadPage:
        """Return a page of dead letters, the newest runs first: the open ones, or those that are settled."""
        return self._perform(
            lambda client: client.list_dead_runs(settled=settled, before=before, limit=limit, **wanted)
        )

    def group_dead_runs(self, *, limit: int = 100, **wanted: Unpack[DeadFilters]) -> DeadGroups:
        """Return how many open dead letters of each job failed alike, the largest groups first."""
        return self._perform(lambda client: client.group_dead_runs(limit=limit, **wanted))

    def discard_dead_runs(
        self,
        because: str,
        *,
        run_ids: Sequence[str] | None = None,
        dry_run: bool = False,
        **wanted: Unpack[DeadFilters],
    ) -> DiscardedView:
        """Take open dead letters off the list for good. With `dry_run`, only say how many that would be.

        `because` is the reason that is kept with them; the filter `reason` is why they failed. An answer that is not
        complete has stopped at its time: call again for the rest.

        Raises:
            InvalidInput: nothing says which ones are meant.
        """
        return self._perform(
            lambda client: client.discard_dead_runs(because, run_ids=run_ids, dry_run=dry_run, **wanted)
        )

    def start_redrive(
        self,
        *,
        run_ids: Sequence[str] | None = None,
        rate: int = USUAL_RATE,
        definition: str = "newest",
        dry_run: bool = False,
        **wanted: Unpack[DeadFilters],
    ) -> RedriveAnswer:
        """Have open dead letters run again, `rate` a second; the server goes on with it.

        `definition` is `newest`, by the newest definition of each job, or `kept`, by the one that the run had. With
        `dry_run`, only say how many that would be, and by which versions of their jobs they ran.

        Raises:
            InvalidInput: nothing says which ones are meant, or there are none.
        """
        return self._perform(
            lambda client: client.start_redrive(
                run_ids=run_ids, rate=rate, definition=definition, dry_run=dry_run, **wanted
            )
        )

    def list_redrives(self, *, before: str | None = None, limit: int = 100) -> RedrivePage:
        """Return a page of redrives, the newest first."""
        return self._perform(lambda client: client.list_redrives(before=before, limit=limit))

    def get_redrive(self, redrive_id: str) -> RedriveView:
        """Return a redrive, and how far it has come."""
        return self._perform(lambda client: client.get_redrive(redrive_id))

    def pause_redrive(self, redrive_id: str) -> RedriveView:
        """Run no further dead letters again for now."""
        return self._perform(lambda client: client.pause_redrive(redrive_id))

    def resume_redrive(self, redrive_id: str) -> RedriveView:
        """Go on with a paused redrive."""
        return self._perform(lambda client: client.resume_redrive(redrive_id))

    def cancel_redrive(self, redrive_id: str) -> RedriveView:
        """Run no further dead letters again; they stay open."""
        return self._perform(lambda client: client.cancel_redrive(redrive_id))

    def put_owner(self, owner: str, jobs: Sequence[str], *, prune: bool = False) -> OwnerView:
        """Say which jobs an app's code defines. With `prune`, those that it does not define any more are deleted."""
        return self._perform(lambda client: client.put_owner(owner, jobs, prune=prune))

    def get_me(self) -> MeView:
        """Return the account and the token of this client, and what they may do."""
        return self._perform(lambda client: client.get_me())

    def login(
        self,
        account: str | None = None,
        password: str | None = None,
        *,
        token: str | None = None,
        code: str | None = None,
        verifier: str | None = None,
        cookie: bool = False,
    ) -> LoginView:
        """Begin a session: with a password, a token, or a code. The client itself goes on with the token that it has.

        Args:
            account: the name of an account.
            password: its password.
            token: an access token, instead of the two.
            code: the code of a login by a browser, instead; see `begin_login`.
            verifier: the secret with which that login was begun.
            cookie: have the session set as a cookie. This client keeps none, so that is for those who read the answer.
        """
        return self._perform(
            lambda client: client.login(
                account, password, token=token, code=code, verifier=verifier, cookie=cookie
            )
        )

    def begin_login(
        self, challenge: str, port: int | None = None, state: str | None = None
    ) -> BeginLoginView:
        """Begin to sign in by a browser, at the identity provider of the server. Return the address to open there.

        Args:
            challenge: the SHA-256 of a random verifier, in URL-safe base64.
            port: where this machine waits for the browser to come back with the code; None has the browser show it.
            state: what the browser is to bring to that port.
        """
        return self._perform(lambda client: client.begin_login(challenge, port, state))

    def logout(self) -> None:
        """End the session whose token this client has."""
        return self._perform(lambda client: client.logout())

    def set_password(self, account: str, password: str, *, old_password: str | None = None) -> None:
        """Set an account's password. Its sessions that began with a password end, but for this client's own.

        Args:
            account: its name.
            password: of 12 characters at least.
            old_password: only who changes his own password gives it.
        """
        return self._perform(lambda client: client.set_password(account, password, old_password=old_password))

    def list_accounts(self, *, after: str | None = None, limit: int = 100) -> AccountPage:
        """Return a page of accounts, by name."""
        return self._perform(lambda client: client.list_accounts(after=after, limit=limit))

    def get_account(self, account: str) -> AccountView:
        """Return an account: what it may do, where it signs in, and when it did last."""
        return self._perform(lambda client: client.get_account(account))

    def put_account(
        self,
        account: str,
        grants: Mapping[str, str] | None = None,
        *,
        hides_payloads: Sequence[str] | None = None,
        disabled: bool | None = None,
    ) -> AccountView:
        """Create an account, or change what is given of it; the rest stays as it is.

        Args:
            account: its name.
            grants: roles by tenant (`*` is all), and it has no others then; None leaves them as they are. A new
                account needs them; an empty mapping is none.
            hides_payloads: the tenants of which it sees no payloads, results, outputs, errors and keys of limits; None
                leaves that as it is.
            disabled: whether its tokens no longer work; None leaves that as it is.
        """
        return self._perform(
            lambda client: client.put_account(
                account, grants, hides_payloads=hides_payloads, disabled=disabled
            )
        )

    def make_token(
        self,
        name: str,
        role: str,
        *,
        account: str | None = None,
        tenant: str | None = None,
        queues: Sequence[str] = (),
        expires_in: str | None = None,
        rate: int | None = None,
    ) -> MadeTokenView:
        """Make a token. Its text is in the answer, and nowhere else.

        Args:
            name: what it is for.
            role: `viewer`, `operator`, `editor`, `admin` or `worker`.
            account: whose it is; None is this client's own.
            tenant: the only one that it is for; None is all that the account has.
            queues: the only ones that a worker with it serves; empty means all. They go with the role `worker`.
            expires_in: how long it lasts, like `90d`; None is for ever.
            rate: requests a second that one server answers; None is as many as come.
        """
        return self._perform(
            lambda client: client.make_token(
                name, role, account=account, tenant=tenant, queues=queues, expires_in=expires_in, rate=rate
            )
        )

    def list_tokens(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> TokenPage:
        """Return a page of tokens without their secrets: the account's own, or for administrators of all."""
        return self._perform(lambda client: client.list_tokens(account=account, after=after, limit=limit))

    def rotate_token(self, token: str) -> MadeTokenView:
        """Make a token in place of another one, which works for 24 hours more. It is named by its prefix."""
        return self._perform(lambda client: client.rotate_token(token))

    def revoke_token(self, token: str) -> TokenView:
        """End a token, which is named by its prefix."""
        return self._perform(lambda client: client.revoke_token(token))

    def list_audit(
        self,
        *,
        job: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | None = None,
        since: str | datetime | timedelta | None = None,
        until: str | datetime | timedelta | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> AuditPage:
        """Return a page of the audit, the newest entries first: who changed what, from where and when.

        `job` is a name or an id, that of a deleted job too; other things are given by their `kind` and, as `subject`,
        their id or name. Without a `tenant`, it is what belongs to all tenants, and what they share.
        """
        return self._perform(
            lambda client: client.list_audit(
                job=job,
                kind=kind,
                subject=subject,
                actor=actor,
                action=action,
                tenant=tenant,
                since=since,
                until=until,
                before=before,
                limit=limit,
            )
        )

    def verify_audit(self, *, after: int | None = None, expect: str | None = None) -> AuditCheckView:
        """Compare the next seals of the audit, those after one, with each other and with what they cover.

        `next` of the answer is `after` of the call that goes on; it is None when there are no more.
        `expect` is a seal that has to be there, `SEAL=DIGEST` from a server's log. Only that shows that the newest ones
        were taken out.
        """
        return self._perform(lambda client: client.verify_audit(after=after, expect=expect))

    def list_monitors(self) -> MonitorList:
        """Return all monitors, by name."""
        return self._perform(lambda client: client.list_monitors())

    def get_monitor(self, name: str) -> MonitorView:
        """Return a monitor."""
        return self._perform(lambda client: client.get_monitor(name))

    def put_monitor(self, name: str, body: Mapping[str, Any]) -> MonitorView:
        """Set a monitor: a trigger as a job has it, `start_grace`, `run_grace`, `tolerance`.

        `ping_path` of a new one is shown this once.
        """
        return self._perform(lambda client: client.put_monitor(name, body))

    def delete_monitor(self, name: str) -> Deleted:
        """Delete a monitor."""
        return self._perform(lambda client: client.delete_monitor(name))

    def ping(self, key: str, *, exit_code: int | None = None) -> PingTaken:
        """Say that a job is done, for the monitor that gave the key; with an exit code but 0, that it failed."""
        return self._perform(lambda client: client.ping(key, exit_code=exit_code))

    def ping_start(self, key: str) -> PingTaken:
        """Say that a job begins."""
        return self._perform(lambda client: client.ping_start(key))

    def ping_extend(self, key: str) -> PingTaken:
        """Say that a job still works: it may take its time to run again, from now on."""
        return self._perform(lambda client: client.ping_extend(key))

    def ping_fail(self, key: str) -> PingTaken:
        """Say that a job has failed."""
        return self._perform(lambda client: client.ping_fail(key))

    def list_slos(self) -> SloList:
        """Return all objectives and how they do, by name."""
        return self._perform(lambda client: client.list_slos())

    def get_slo(self, name: str) -> SloView:
        """Return an objective and how it does."""
        return self._perform(lambda client: client.get_slo(name))

    def put_slo(self, name: str, body: Mapping[str, Any]) -> SloView:
        """Set an objective: `kind`, `objective`, `queue`, `bound`, `days`."""
        return self._perform(lambda client: client.put_slo(name, body))

    def delete_slo(self, name: str) -> Deleted:
        """Delete an objective; its alerts end."""
        return self._perform(lambda client: client.delete_slo(name))

    def get_capacity(self, *, scope: str = "tenant") -> CapacityView:
        """Return how busy the workers of each queue will be within 24 hours, and how long its backlog takes.

        With the scope `cluster`, it is about the runs of all tenants, and says how long the disk lasts.
        """
        return self._perform(lambda client: client.get_capacity(scope=scope))

    def get_usage(
        self,
        *,
        since: str | datetime | timedelta | None = None,
        until: str | datetime | timedelta | None = None,
        step: str | None = None,
        queue: str | None = None,
    ) -> UsageView:
        """Return what became of runs: how many were made, started and ended, how late, and how long they took.

        Args:
            since: an hour before `until` if it is not given.
            until: now if it is not given.
            step: `minute`, for at most 3 hours, or `hour`, for at most 31 days.
            queue: only runs of this queue.
        """
        return self._perform(
            lambda client: client.get_usage(since=since, until=until, step=step, queue=queue)
        )

    def list_archive_days(self, *, before: str | date | None = None, limit: int = 100) -> ArchivePage:
        """Return a page of the days of the history that were written into the archive, the newest first.

        `next` of the answer is `before` of the call that goes on; it is None when there are no more.
        """
        return self._perform(lambda client: client.list_archive_days(before=before, limit=limit))

    def list_artifacts(self, run_id: str, *, after: str | None = None, limit: int = 100) -> ArtifactPage:
        """Return a page of the files that the last attempt of a run has left behind, by name."""
        return self._perform(lambda client: client.list_artifacts(run_id, after=after, limit=limit))

    def get_artifact(self, artifact_id: str) -> ArtifactView:
        """Return what is known of a file of a run."""
        return self._perform(lambda client: client.get_artifact(artifact_id))

    def list_checkpoints(self, run_id: str, *, after: str | None = None, limit: int = 100) -> CheckpointPage:
        """Return a page of the steps that are kept of the run of a durable function, by name and number."""
        return self._perform(lambda client: client.list_checkpoints(run_id, after=after, limit=limit))

    def fetch_artifact(
        self, artifact_id: str, file: BinaryIO, *, sha256: str | None = None, size: int | None = None
    ) -> int:
        """Write the bytes of an artifact into an open binary file. Return how many they are.

        Args:
            sha256: what they have to come to, in hexadecimal digits; None takes what the server says of the artifact.
            size: how many they have to be. No more of them are taken. None is as for `sha256`, unless that is given.

        Raises:
            MainspringError: they do not come to that. The file has them all the same.
            NotFound: there is no such artifact, or it is not kept any more.
        """
        return self._perform(
            lambda client: client.fetch_artifact(artifact_id, file, sha256=sha256, size=size)
        )

    def read_artifact(self, artifact_id: str, *, sha256: str | None = None, size: int | None = None) -> bytes:
        """Return the bytes of an artifact, which are held in memory. `fetch_artifact` writes large ones into a file.

        Args:
            sha256, size: as for `fetch_artifact`.
        """
        return self._perform(lambda client: client.read_artifact(artifact_id, sha256=sha256, size=size))

    def send_event(
        self, topic: str, data: Any = None, *, key: str | None = None, event_id: str | None = None
    ) -> SentView:
        """Send an event. When this returns, it is kept, and the runs that it starts are made.

        Args:
            data: any JSON.
            key: what it has happened to.
            event_id: the sender's own id: a repeated one changes nothing. By default a new one, under which this
                call may try again without sending two events.
        """
        return self._perform(lambda client: client.send_event(topic, data, key=key, event_id=event_id))

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> list[SentView]:
        """Send up to 1,000 events in order, each with `topic` and perhaps `key`, `data` and `id`."""
        return self._perform(lambda client: client.send_events(events))

    def list_events(
        self, *, topic: str | None = None, before: str | None = None, limit: int = 100
    ) -> EventPage:
        """Return a page of the events that are kept, the newest first."""
        return self._perform(lambda client: client.list_events(topic=topic, before=before, limit=limit))

    def list_alerts(
        self, *, state: str = "open", scope: str = "tenant", before: int | None = None, limit: int = 100
    ) -> AlertPage:
        """Return a page of alerts, the newest first: those that are `open`, `firing` or `resolved`.

        With the scope `cluster`, it is those of all tenants.
        """
        return self._perform(
            lambda client: client.list_alerts(state=state, scope=scope, before=before, limit=limit)
        )

    def acknowledge_alert(self, alert_id: int | str) -> AlertView:
        """Note that the caller looks after an alert, unless another does already."""
        return self._perform(lambda client: client.acknowledge_alert(alert_id))

    def list_alert_rules(self, *, scope: str = "tenant") -> AlertRuleList:
        """Return all rules of alerts, by name."""
        return self._perform(lambda client: client.list_alert_rules(scope=scope))

    def get_alert_rule(self, name: str, *, scope: str = "tenant") -> AlertRuleView:
        """Return a rule of alerts."""
        return self._perform(lambda client: client.get_alert_rule(name, scope=scope))

    def put_alert_rule(self, name: str, body: Mapping[str, Any], *, scope: str = "tenant") -> AlertRuleView:
        """Set a rule of alerts: `kind`, `queue`, `threshold`, `period`, `hold`, `severity`, `channels`, `enabled`."""
        return self._perform(lambda client: client.put_alert_rule(name, body, scope=scope))

    def delete_alert_rule(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a rule of alerts; its alerts end."""
        return self._perform(lambda client: client.delete_alert_rule(name, scope=scope))

    def list_channels(self, *, scope: str = "tenant") -> ChannelList:
        """Return all channels, by name."""
        return self._perform(lambda client: client.list_channels(scope=scope))

    def get_channel(self, name: str, *, scope: str = "tenant") -> ChannelView:
        """Return a channel, without what may be secret in its address."""
        return self._perform(lambda client: client.get_channel(name, scope=scope))

    def put_channel(self, name: str, body: Mapping[str, Any], *, scope: str = "tenant") -> ChannelView:
        """Set a channel: `kind`, `config`, `group_wait`, `repeat`, `min_severity`, `enabled`."""
        return self._perform(lambda client: client.put_channel(name, body, scope=scope))

    def delete_channel(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a channel, and what it has not delivered yet."""
        return self._perform(lambda client: client.delete_channel(name, scope=scope))

    def test_channel(self, name: str, *, scope: str = "tenant") -> TriedView:
        """Deliver a message that says it is a test, and say what became of it."""
        return self._perform(lambda client: client.test_channel(name, scope=scope))

    def list_silences(self, *, scope: str = "tenant") -> SilenceList:
        """Return the silences that have not ended."""
        return self._perform(lambda client: client.list_silences(scope=scope))

    def add_silence(
        self,
        period: str | float | timedelta,
        reason: str,
        *,
        rule: str | None = None,
        subject: str | None = None,
        from_time: datetime | str | None = None,
        scope: str = "tenant",
    ) -> SilenceView:
        """Tell nothing of some alerts for a while: of all, or of those of a `rule` or about a `subject`."""
        return self._perform(
            lambda client: client.add_silence(
                period, reason, rule=rule, subject=subject, from_time=from_time, scope=scope
            )
        )

    def end_silence(self, silence_id: int | str, *, scope: str = "tenant") -> Deleted:
        """End a silence now. What still fires is told at once."""
        return self._perform(lambda client: client.end_silence(silence_id, scope=scope))

    def get_logging(self) -> LoggingView:
        """Return which log lines the server that answers writes."""
        return self._perform(lambda client: client.get_logging())

    def set_logging(self, level: str, *, duration: str | timedelta = "10m") -> LoggingView:
        """Have the server that answers write other log lines for a while: `debug`, `info`, `warning` or `error`."""
        return self._perform(lambda client: client.set_logging(level, duration=duration))

    def check_workflow(self, body: Mapping[str, Any]) -> GraphView:
        """Check the definition of a job that is a workflow, and return its graph. Nothing is stored.

        Raises:
            InvalidFields: steps are wrong. It has all errors.
        """
        return self._perform(lambda client: client.check_workflow(body))

    def get_job_graph(self, job_id: str, *, version: int | None = None) -> JobGraphView:
        """Return the graph of a job that is a workflow: of its newest version, or of another one."""
        return self._perform(lambda client: client.get_job_graph(job_id, version=version))

    def list_steps(self, run_id: str, *, after: str | None = None, limit: int = 100) -> StepPage:
        """Return a page of the steps of a workflow's run, parents before their children."""
        return self._perform(lambda client: client.list_steps(run_id, after=after, limit=limit))

    def list_items(
        self, run_id: str, step: str, state: str | None = None, *, after: str | None = None, limit: int = 100
    ) -> ItemPage:
        """Return a page of the runs of a step that runs once for each of many items.

        Args:
            step: the name of the step.
            state: only runs in this state, like FAILED.
        """
        return self._perform(lambda client: client.list_items(run_id, step, state, after=after, limit=limit))

    def pause_run(self, run_id: str) -> FlowCommandView:
        """Have a workflow's run start no more steps. Those under way go on."""
        return self._perform(lambda client: client.pause_run(run_id))

    def resume_run(self, run_id: str) -> FlowCommandView:
        """Have a paused run of a workflow start what it has kept back."""
        return self._perform(lambda client: client.resume_run(run_id))

    def skip_steps(self, run_id: str, steps: Sequence[str]) -> FlowCommandView:
        """Have steps of a workflow's run skipped that have no run yet."""
        return self._perform(lambda client: client.skip_steps(run_id, steps))

    def send_signal(self, run_id: str, name: str, data: Any = None) -> AnswerView:
        """Give a signal to the steps of a workflow's run that wait for it, or will.

        Args:
            name: that of the signal.
            data: any JSON, which the steps return.
        """
        return self._perform(lambda client: client.send_signal(run_id, name, data))

    def approve_step(self, run_id: str, step: str, *, comment: str | None = None) -> AnswerView:
        """Approve of a step that waits for that, or will.

        Args:
            step: its name.
            comment: why. The run shows it.
        """
        return self._perform(lambda client: client.approve_step(run_id, step, comment=comment))

    def reject_step(self, run_id: str, step: str, *, comment: str | None = None) -> AnswerView:
        """Reject what a step asks for, so that it fails.

        Args:
            step: its name.
            comment: why. The run shows it.
        """
        return self._perform(lambda client: client.reject_step(run_id, step, comment=comment))

    def complete_step(
        self, run_id: str, step: str, data: Any = None, *, comment: str | None = None
    ) -> AnswerView:
        """End the wait of a step by hand, as if what it waits for had come.

        Args:
            step: its name.
            data: any JSON, which the step returns.
            comment: why. The run shows it.
        """
        return self._perform(lambda client: client.complete_step(run_id, step, data, comment=comment))

    def get_run_logs(self, run_id: str, *, attempt: int | None = None, offset: int = 0) -> str:
        """Return what an attempt has written: the last one that has begun, unless its number is given."""
        return self._perform(lambda client: client.get_run_logs(run_id, attempt=attempt, offset=offset))
