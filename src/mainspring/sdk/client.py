"""All routes of the HTTP API as typed coroutine methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from mainspring.sdk.access_calls import AccessCalls
from mainspring.sdk.alert_calls import AlertCalls
from mainspring.sdk.answer_calls import AnswerCalls
from mainspring.sdk.archive_calls import ArchiveCalls
from mainspring.sdk.artifact_files import ArtifactFiles
from mainspring.sdk.audit_calls import AuditCalls
from mainspring.sdk.capacity_calls import CapacityCalls
from mainspring.sdk.checkpoint_calls import CheckpointCalls
from mainspring.sdk.dead_calls import DeadCalls
from mainspring.sdk.definition_calls import DefinitionCalls
from mainspring.sdk.event_calls import EventCalls
from mainspring.sdk.lists import NO_FILTERS, AsyncLists, RunFilters, query_of
from mainspring.sdk.log_calls import LogCalls
from mainspring.sdk.monitor_calls import MonitorCalls
from mainspring.sdk.objective_calls import ObjectiveCalls
from mainspring.sdk.owner_calls import OwnerCalls
from mainspring.sdk.run_log_calls import RunLogCalls
from mainspring.sdk.usage_calls import UsageCalls
from mainspring.sdk.workflow_calls import WorkflowCalls
from mainspring.signals import trace_headers
from mainspring.wire import operations
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
from mainspring.wire.health import HealthView
from mainspring.wire.ledger import FireRangeList, LedgerPage, LedgerView
from mainspring.wire.limits import KeyPage, LimitPage, LimitView
from mainspring.wire.overview import OverviewView
from mainspring.wire.pages import BriefPage, JobPage, RunPage, WorkerPage
from mainspring.wire.pauses import PauseList
from mainspring.wire.policies import LabelPage, LabelView, QueuePage, QueueView, TenantPage, TenantView
from mainspring.wire.priorities import PriorityClassPage, PriorityClassView
from mainspring.wire.run_detail import RunDetail
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
from mainspring.wire.written import JobWritten

_USUAL_LIMIT = 100


class AsyncClient(
    DefinitionCalls,
    DeadCalls,
    OwnerCalls,
    AccessCalls,
    AuditCalls,
    ArchiveCalls,
    ArtifactFiles,
    EventCalls,
    MonitorCalls,
    ObjectiveCalls,
    CapacityCalls,
    UsageCalls,
    AlertCalls,
    LogCalls,
    WorkflowCalls,
    AnswerCalls,
    RunLogCalls,
    CheckpointCalls,
    AsyncLists,
):
    """A server's API, for one tenant.

    Use as `async with AsyncClient("http://127.0.0.1:8620") as client`. Every method raises `Unreachable` if no
    answer comes, and `InvalidInput`, `NotFound`, `Conflict` or `StoreUnavailable` if the server says so.
    """

    async def create_job(self, body: Mapping[str, Any]) -> JobWritten:
        """Create a job."""
        return await self.call(operations.CREATE_JOB, body=body)

    async def create_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[BulkJobView]:
        """Create up to 1,000 jobs."""
        return await self.call(operations.CREATE_JOBS, body=bodies)

    async def put_job(self, body: Mapping[str, Any]) -> JobWritten:
        """Create a job, or redefine the job of that name."""
        return await self.call(operations.UPSERT_JOB, body=body)

    async def list_jobs(
        self, *, after: str | None = None, limit: int = 100, name: str | None = None
    ) -> JobPage:
        """Return a page of jobs, or only the job with a given name; `jobs` goes through all pages."""
        query: dict[str, str | int | None] = {"after": after, "limit": limit, "name": name}
        return await self.call(operations.LIST_JOBS, query=query)

    async def get_job(self, job_id: str) -> JobView:
        """Return a job."""
        return await self.call(operations.GET_JOB, job_id)

    async def delete_job(self, job_id: str) -> Deleted:
        """Delete a job."""
        return await self.call(operations.DELETE_JOB, job_id)

    async def get_status(self, job_id: str) -> StatusView:
        """Return a job's status."""
        return await self.call(operations.GET_JOB_STATUS, job_id)

    async def pause_job(self, job_id: str) -> JobView:
        """Pause a job."""
        return await self.call(operations.PAUSE_JOB, job_id)

    async def resume_job(self, job_id: str) -> JobView:
        """Resume a job."""
        return await self.call(operations.RESUME_JOB, job_id)

    async def list_fire_ranges(self, job_id: str, *, limit: int = 100) -> FireRangeList:
        """Return a job's fire ranges."""
        return await self.call(operations.LIST_JOB_FIRE_RANGES, job_id, query={"limit": limit})

    async def get_ledger(
        self, job_id: str, *, from_time: str | None = None, to_time: str | None = None
    ) -> LedgerView:
        """Compare the fires that a job owed with those on record: instants, or text like `2h`."""
        query = {"from": from_time, "to": to_time}
        return await self.call(operations.GET_JOB_LEDGER, job_id, query=query)

    async def list_ledgers(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        from_time: str | None = None,
        to_time: str | None = None,
    ) -> LedgerPage:
        """Do the same for a page of jobs."""
        query = {"after": after, "limit": limit, "from": from_time, "to": to_time}
        return await self.call(operations.LIST_LEDGERS, query=query)

    async def submit_run(
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
        headers = trace_headers(traceparent)
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        return await self.call(operations.SUBMIT_RUN, job_id, body=body or {}, headers=headers)

    async def submit_runs(
        self, items: Sequence[Mapping[str, Any]], *, traceparent: str | None = None
    ) -> list[BulkRunView]:
        """Submit up to 1,000 runs, each of a job by `job_id` or by name (`job`).

        Args:
            traceparent: as for `submit_run`.
        """
        return await self.call(operations.SUBMIT_RUNS, body=items, headers=trace_headers(traceparent))

    async def list_runs(
        self, *, before: str | None = None, limit: int = 100, **wanted: Unpack[RunFilters]
    ) -> RunPage:
        """Return a page of runs, the newest first; `runs` goes through all pages."""
        query = {**NO_FILTERS, **query_of(wanted), "before": before, "limit": limit, "fields": None}
        return await self.call_as(operations.LIST_RUNS, RunPage, query=query)

    async def list_briefs(
        self, *, before: str | None = None, limit: int = 100, **wanted: Unpack[RunFilters]
    ) -> BriefPage:
        """Return a page of runs without payload, result and output; `briefs` goes through all pages."""
        query = {**NO_FILTERS, **query_of(wanted), "before": before, "limit": limit, "fields": "brief"}
        return await self.call_as(operations.LIST_RUNS, BriefPage, query=query)

    async def get_run(self, run_id: str) -> RunDetail:
        """Return a run with its attempts."""
        return await self.call(operations.GET_RUN, run_id)

    async def get_run_why(self, run_id: str) -> WhyView:
        """Say in one sentence why a run has not started, or what became of it."""
        return await self.call(operations.GET_RUN_WHY, run_id)

    async def cancel_run(self, run_id: str) -> CancelView:
        """Cancel a run."""
        return await self.call(operations.CANCEL_RUN, run_id)

    async def count_runs(self) -> CountsView:
        """Return how many runs are in each state, and how old the count is."""
        return await self.call(operations.COUNT_RUNS)

    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> TenantPage:
        """Return a page of the tenants for which something was set."""
        return await self.call(operations.LIST_TENANTS, query={"after": after, "limit": limit})

    async def get_tenant(self, tenant: str) -> TenantView:
        """Return what is set for a tenant; the defaults if nothing was set."""
        return await self.call(operations.GET_TENANT, tenant)

    async def put_tenant(self, tenant: str, body: Mapping[str, Any]) -> TenantView:
        """Set a tenant's `weight`, `reserved`, `max_running`, `max_queued`, `max_jobs` and `submit_rate`.

        What is left out gets its default.
        """
        return await self.call(operations.UPSERT_TENANT, tenant, body=body)

    async def list_limits(
        self, *, after: str | None = None, limit: int = 100, scope: str = "tenant"
    ) -> LimitPage:
        """Return a page of the limits that jobs share; with the scope `cluster` of those that all tenants share."""
        query = {"scope": scope, "after": after, "limit": limit}
        return await self.call(operations.LIST_LIMITS, query=query)

    async def get_limit(self, name: str, *, scope: str = "tenant") -> LimitView:
        """Return a limit that jobs share."""
        return await self.call(operations.GET_LIMIT, name, query={"scope": scope})

    async def put_limit(self, name: str, body: Mapping[str, Any], *, scope: str = "tenant") -> LimitView:
        """Set a limit for jobs to use: `max_running`, `rate`, `burst`, `hold`.

        With the scope `cluster`, jobs of all tenants share it that have none of that name.
        """
        return await self.call(operations.UPSERT_LIMIT, name, body=body, query={"scope": scope})

    async def delete_limit(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a limit that no job uses."""
        return await self.call(operations.DELETE_LIMIT, name, query={"scope": scope})

    async def list_limit_keys(
        self, name: str, *, after: str | None = None, limit: int = 100, scope: str = "tenant"
    ) -> KeyPage:
        """Return a page of the keys of a limit, with how much of each is taken."""
        query = {"scope": scope, "after": after, "limit": limit}
        return await self.call(operations.LIST_LIMIT_KEYS, name, query=query)

    async def list_priority_classes(self, *, after: str | None = None, limit: int = 100) -> PriorityClassPage:
        """Return a page of the classes that jobs may name as their priority."""
        return await self.call(operations.LIST_PRIORITY_CLASSES, query={"after": after, "limit": limit})

    async def get_priority_class(self, name: str) -> PriorityClassView:
        """Return a priority class."""
        return await self.call(operations.GET_PRIORITY_CLASS, name)

    async def put_priority_class(self, name: str, body: Mapping[str, Any]) -> PriorityClassView:
        """Set a priority class: `tier`, `preempts`, `preemptible`. Jobs copy it when they are written."""
        return await self.call(operations.UPSERT_PRIORITY_CLASS, name, body=body)

    async def delete_priority_class(self, name: str) -> Deleted:
        """Delete a priority class. Jobs that named it keep what they copied."""
        return await self.call(operations.DELETE_PRIORITY_CLASS, name)

    async def list_queues(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """Return a page of the queues for which something was set."""
        return await self.call(operations.LIST_QUEUES, query={"after": after, "limit": limit})

    async def get_queue(self, queue: str) -> QueueView:
        """Return what is set for a queue; the defaults if nothing was set."""
        return await self.call(operations.GET_QUEUE, queue)

    async def put_queue(self, queue: str, body: Mapping[str, Any]) -> QueueView:
        """Set a queue's `order`, `aging`, `aging_share`, `max_running`, `max_queued`, `expires_after`, `preempt_after`.

        What is left out gets its default.
        """
        return await self.call(operations.UPSERT_QUEUE, queue, body=body)

    async def list_labels(self, *, after: str | None = None, limit: int = 100) -> LabelPage:
        """Return a page of the labels for which something was set."""
        return await self.call(operations.LIST_LABELS, query={"after": after, "limit": limit})

    async def get_label(self, label: str) -> LabelView:
        """Return what is set for a label."""
        return await self.call(operations.GET_LABEL, label)

    async def put_label(self, label: str, body: Mapping[str, Any]) -> LabelView:
        """Set a label's `max_running`: how many runs that need it may be under way at a time."""
        return await self.call(operations.UPSERT_LABEL, label, body=body)

    async def delete_label(self, label: str) -> Deleted:
        """Unset what is set for a label."""
        return await self.call(operations.DELETE_LABEL, label)

    async def list_pauses(self) -> PauseList:
        """Return what is paused now: queues, tenants, or everything."""
        return await self.call(operations.LIST_PAUSES)

    async def pause_queue(self, queue: str, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop a queue for all tenants. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return await self.call(operations.PAUSE_QUEUE, queue, body=body or {})

    async def resume_queue(self, queue: str) -> PauseList:
        """End the pause of a queue. Return what is still paused."""
        return await self.call(operations.RESUME_QUEUE, queue)

    async def pause_tenant(self, tenant: str, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop all runs of a tenant. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return await self.call(operations.PAUSE_TENANT, tenant, body=body or {})

    async def resume_tenant(self, tenant: str) -> PauseList:
        """End the pause of a tenant. Return what is still paused."""
        return await self.call(operations.RESUME_TENANT, tenant)

    async def pause_all(self, body: Mapping[str, Any] | None = None) -> PauseList:
        """Stop everything. `body` may have `note`, `until` and `mode`. Return what is paused now."""
        return await self.call(operations.PAUSE_ALL, body=body or {})

    async def resume_all(self) -> PauseList:
        """End the pause of everything; those of queues and tenants stay. Return what is still paused."""
        return await self.call(operations.RESUME_ALL)

    async def list_queue_blackouts(self, queue: str) -> BlackoutList:
        """Return by which calendars a queue stands still."""
        return await self.call(operations.LIST_QUEUE_BLACKOUTS, queue)

    async def put_queue_blackouts(self, queue: str, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have a queue stand still while calendars hold. Each item has a `calendar`, maybe a `mode` and a `note`."""
        return await self.call(operations.UPSERT_QUEUE_BLACKOUTS, queue, body={"items": items})

    async def list_tenant_blackouts(self, tenant: str) -> BlackoutList:
        """Return by which calendars a tenant's runs stand still."""
        return await self.call(operations.LIST_TENANT_BLACKOUTS, tenant)

    async def put_tenant_blackouts(self, tenant: str, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have a tenant's runs stand still while calendars of its own hold; see `put_queue_blackouts`."""
        return await self.call(operations.UPSERT_TENANT_BLACKOUTS, tenant, body={"items": items})

    async def list_blackouts(self) -> BlackoutList:
        """Return by which calendars everything stands still; `list_pauses` has those of queues and tenants, too."""
        return await self.call(operations.LIST_BLACKOUTS)

    async def put_blackouts(self, items: Sequence[Mapping[str, Any]]) -> BlackoutList:
        """Have everything stand still while calendars hold; see `put_queue_blackouts`."""
        return await self.call(operations.UPSERT_BLACKOUTS, body={"items": items})

    async def get_metrics(self) -> str:
        """Return what the server measures, in the text format of Prometheus."""
        return await self.call(operations.GET_METRICS)

    async def list_workers(self, *, after: str | None = None, limit: int = _USUAL_LIMIT) -> WorkerPage:
        """Return a page of live worker sessions; `workers` goes through all pages."""
        # Servers of older releases have one page, and refuse parameters.
        size = None if limit == _USUAL_LIMIT else limit
        return await self.call(operations.LIST_WORKERS, query={"after": after, "limit": size})

    async def list_calendars(self, *, after: str | None = None, limit: int = 100) -> CalendarPage:
        """Return a page of calendars, by name."""
        return await self.call(operations.LIST_CALENDARS, query={"after": after, "limit": limit})

    async def get_calendar(self, name: str, *, version: int | None = None) -> CalendarView:
        """Return the newest version of a calendar, or a given one."""
        return await self.call(operations.GET_CALENDAR, name, query={"version": version})

    async def put_calendar(self, name: str, body: Mapping[str, Any]) -> CalendarWritten:
        """Create a calendar, or give it a new version. `body` has `rules`, and may have `tz` and `invert`."""
        return await self.call(operations.UPSERT_CALENDAR, name, body=body)

    async def import_calendar(
        self, name: str, text: str | bytes, *, tz: str | None = None
    ) -> CalendarImported:
        """Create a calendar from the events of an ICS file, or give it a new version.

        Args:
            text: what the file holds.
            tz: the zone in which days begin; None is the one that the file names, or else UTC.
        """
        return await self.call(operations.IMPORT_CALENDAR, name, body=text, query={"tz": tz})

    async def delete_calendar(self, name: str) -> Deleted:
        """Delete a calendar that nothing uses."""
        return await self.call(operations.DELETE_CALENDAR, name)

    async def list_calendar_versions(
        self, name: str, *, before: int | None = None, limit: int = 100
    ) -> CalendarPage:
        """Return a page of a calendar's versions, the newest first."""
        query: dict[str, str | int | None] = {"before": before, "limit": limit}
        return await self.call(operations.LIST_CALENDAR_VERSIONS, name, query=query)

    async def list_calendar_days(
        self,
        name: str,
        *,
        from_date: str | None = None,
        to_date: str | None = None,
        version: int | None = None,
    ) -> CalendarDays:
        """Return the dates of a range that a calendar holds; by default of a year from today."""
        query: dict[str, str | int | None] = {"from": from_date, "to": to_date, "version": version}
        return await self.call(operations.LIST_CALENDAR_DAYS, name, query=query)

    async def list_job_fires(self, job_id: str, *, from_time: str | None = None, count: int = 5) -> FireList:
        """Return when a job fires next, and what its calendars do with its fires."""
        query: dict[str, str | int | None] = {"from": from_time, "count": count}
        return await self.call(operations.LIST_JOB_FIRES, job_id, query=query)

    async def preview_trigger(
        self, body: Mapping[str, Any], *, from_time: str | None = None, count: int = 5
    ) -> TriggerPreview:
        """Return what a job is understood as, and when it would fire.

        Args:
            body: a job, or only what says when it fires (`cron`, `every`, `calendars`…).
            from_time: only fires at or after this instant.
            count: how many fires.
        """
        query: dict[str, str | int | None] = {"from": from_time, "count": count}
        return await self.call(operations.PREVIEW_TRIGGER, body=body, query=query)

    async def backfill(
        self, job_id: str, from_time: str | datetime, to_time: str | datetime, **options: Any
    ) -> BackfillAnswer:
        """Make the runs of a job for `from_time <= t < to_time`, which is past; with `dry_run` only say which.

        Args:
            from_time, to_time: text in ISO 8601 with an offset, or aware datetimes.
            options: `dry_run`, `skip_done`, `definition`, `rate`, `max_live`, `priority` and `note`.
        """
        ends = [one if isinstance(one, str) else one.isoformat() for one in (from_time, to_time)]
        body = {"from": ends[0], "to": ends[1], **options}
        return await self.call(operations.CREATE_BACKFILL, job_id, body=body)

    async def list_backfills(
        self, *, job_id: str | None = None, before: str | None = None, limit: int = 100
    ) -> BackfillPage:
        """Return a page of backfills, of one job or of all, the newest first."""
        query: dict[str, str | int | None] = {"job_id": job_id, "before": before, "limit": limit}
        return await self.call(operations.LIST_BACKFILLS, query=query)

    async def get_backfill(self, backfill_id: str) -> BackfillView:
        """Return a backfill, and how far it has come."""
        return await self.call(operations.GET_BACKFILL, backfill_id)

    async def pause_backfill(self, backfill_id: str) -> BackfillView:
        """Make no further runs of a backfill for now."""
        return await self.call(operations.PAUSE_BACKFILL, backfill_id)

    async def resume_backfill(self, backfill_id: str) -> BackfillView:
        """Go on with a paused backfill."""
        return await self.call(operations.RESUME_BACKFILL, backfill_id)

    async def cancel_backfill(self, backfill_id: str) -> BackfillView:
        """Make no further runs of a backfill, and cancel those that wait."""
        return await self.call(operations.CANCEL_BACKFILL, backfill_id)

    async def get_overview(self) -> OverviewView:
        """Return what the cluster does, and what needs attention."""
        return await self.call(operations.GET_OVERVIEW)

    async def get_health(self) -> HealthView:
        """Return the server's health."""
        return await self.call(operations.GET_HEALTH)
