"""What use cases write into the audit. Each function returns what a verb of the store takes; nobody is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.access import AccessToken, Account
from mainspring.core.actors import Actor
from mainspring.core.audit import (
    EVERYTHING,
    FIRST_VERSION,
    AuditEntry,
    AuditItem,
    Subject,
    entries,
    make_entry,
    show_job_changes,
)
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import JobId, format_job_id, format_run_id
from mainspring.core.lane_caps import CapScope, LaneCap
from mainspring.core.limits import CLUSTER
from mainspring.core.logins import LoginFailures
from mainspring.core.model import Job, JobSpec, Run
from mainspring.core.pauses import PauseKey, PauseScope
from mainspring.core.times import write_instant
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.jobs import NewJob

Audit = tuple[AuditEntry, ...]


def of_job(job: Job | NewJob) -> Subject:
    """Return a job as the subject of an entry."""
    return Subject(kind="job", id=format_job_id(job.id), name=job.spec.name, tenant=job.tenant)


def of_lanes(key: PauseKey) -> Subject:
    """Return a queue, a tenant or everything as the subject of an entry."""
    if key.scope is PauseScope.ALL:
        return Subject(kind="everything", id=EVERYTHING, tenant=EVERYTHING)
    tenant = key.name if key.scope is PauseScope.TENANT else EVERYTHING
    return Subject(kind=key.scope.value, id=key.name, tenant=tenant)


def shared(kind: str, name: str) -> Subject:
    """Return what all tenants share as the subject of an entry."""
    return Subject(kind=kind, id=name, tenant=EVERYTHING)


def of_limit(owner: str, name: str) -> Subject:
    """Return a limit as the subject of an entry."""
    return Subject(kind="limit", id=name, tenant=EVERYTHING if owner == CLUSTER else owner)


def jobs_added(by: Sequence[Actor | None], new: Sequence[NewJob], at: datetime) -> Audit:
    """Tell of new jobs, each of which somebody has added."""
    made = []
    for place, (actor, job) in enumerate(zip(by, new, strict=True)):
        if actor is not None:
            subject = of_job(job)
            items = (AuditItem(place, subject.id),)
            made.append(make_entry(actor, subject, at=at, after=FIRST_VERSION, items=items))
    return tuple(made)


def jobs_added_together(by: Actor | None, new: Sequence[NewJob], at: datetime) -> Audit:
    """Tell of new jobs of one request."""
    if len(new) == 1:
        return jobs_added([by], new, at)
    items = [AuditItem(place, format_job_id(job.id)) for place, job in enumerate(new)]
    return entries(by, Subject(kind="job", id="", tenant=new[0].tenant), at=at, items=items)


def job_edited(by: Actor | None, job: Job, spec: JobSpec, at: datetime) -> Audit:
    """Tell of an edit."""
    if by is None:
        return ()
    before, after = show_job_changes(job.spec, spec, version=job.version, made_at=at)
    return entries(by, of_job(job), at=at, before=before, after=after)


def job_changed(by: Actor | None, job: Job, at: datetime) -> Audit:
    """Tell of a pause or a resume, which the action names."""
    return entries(by, of_job(job), at=at)


def job_deleted(by: Actor | None, job: Job, at: datetime) -> Audit:
    """Tell of a delete."""
    return entries(by, of_job(job), at=at, before={"version": job.version})


def jobs_applied(by: Actor | None, change: JobsChange, jobs: Sequence[Job], at: datetime) -> Audit:
    """Tell of an apply: of the one job that it changes, or of how many.

    Args:
        jobs: those that it edits and deletes, as they were.
    """
    if by is None:
        return ()
    was = {job.id: job for job in jobs}
    ids: list[JobId] = [*(job.id for job in change.adds), *(edit.job_id for edit in change.edits)]
    ids += [gone.job_id for gone in change.deletes]
    owners = {"owners": [each.owner for each in change.owners]} if change.owners else {}
    if not ids:
        owner = Subject(kind="owner", id=", ".join(owners.get("owners", ())), tenant=change.tenant)
        return entries(by, owner, at=at)
    if len(ids) == 1 and change.adds:
        return entries(by, of_job(change.adds[0]), at=at, after={**FIRST_VERSION, **owners})
    if len(ids) == 1 and change.edits:
        return job_edited(by, was[ids[0]], change.edits[0].spec, at)
    if len(ids) == 1:
        return job_deleted(by, was[ids[0]], at)
    after = {
        "created": len(change.adds),
        "changed": len(change.edits),
        "deleted": len(change.deletes),
        **owners,
        "count": len(ids),
        "ids": [format_job_id(job_id) for job_id in ids],
    }
    return entries(by, Subject(kind="job", id="", tenant=change.tenant), at=at, after=after)


def jobs_owned(by: Actor | None, tenant: str, owner: str, names: Sequence[str], at: datetime) -> Audit:
    """Tell which jobs an owner defines."""
    return entries(by, Subject(kind="owner", id=owner, tenant=tenant), at=at, after={"jobs": list(names)})


def cap_set(by: Actor | None, cap: LaneCap, old: int | None, at: datetime) -> Audit:
    """Tell of the cap of a queue, a tenant or a label."""
    tenant = cap.key.name if cap.key.scope is CapScope.TENANT else EVERYTHING
    subject = Subject(kind=cap.key.scope.value, id=cap.key.name, tenant=tenant)
    return entries(by, subject, at=at, before={"max_running": old}, after={"max_running": cap.max_running})


def run_changed(by: Actor | None, run: Run, at: datetime, *, after: Mapping[str, Any] | None = None) -> Audit:
    """Tell of a run that is cancelled or redriven, which the action names."""
    subject = Subject(kind="run", id=format_run_id(run.id), tenant=run.tenant)
    return entries(by, subject, at=at, before={"state": run.state.value}, after=after)


def account_written(by: Actor | None, account: Account) -> Audit:
    """Tell of an account that is new, or has other grants. The store adds what it was (`settle_account`)."""
    subject = Subject(kind="account", id=account.name, tenant=EVERYTHING)
    return entries(by, subject, at=account.created_at)


def token_made(by: Actor | None, token: AccessToken) -> Audit:
    """Tell of a token that is new, by its prefix."""
    after = {
        "account": token.account,
        "role": token.role.value,
        "queues": list(token.queues) or None,
        "expires_at": None if token.expires_at is None else write_instant(token.expires_at),
        "replaces": token.replaces,
    }
    given = {field: value for field, value in after.items() if value is not None}
    return entries(by, _of_token(token), at=token.created_at, after=given)


def token_revoked(by: Actor | None, token: AccessToken, at: datetime) -> Audit:
    """Tell of a token that is ended."""
    return entries(by, _of_token(token), at=at, before={"account": token.account, "role": token.role.value})


def session_begun(by: Actor, token: AccessToken) -> Audit:
    """Tell who has signed in, by what, and until when."""
    assert token.login is not None
    assert token.expires_at is not None
    after = {
        "session": token.prefix,
        "login": token.login.value,
        "role": token.role.value,
        "expires_at": write_instant(token.expires_at),
    }
    return entries(by, shared("account", token.account), at=token.created_at, after=after)


def session_ended(by: Actor, token: AccessToken, at: datetime) -> Audit:
    """Tell who has signed out."""
    return entries(by, shared("account", token.account), at=at, before={"session": token.prefix})


def logins_failed(by: Actor | None, failures: Sequence[LoginFailures], at: datetime) -> Audit:
    """Tell of failed logins. Of a name that is no account, nothing is kept: it may be a password."""
    if by is None:
        return ()
    return tuple(
        replace(entry, outcome="refused")
        for each in failures
        for entry in entries(
            replace(by, address=each.address),
            shared("account", each.account or ""),
            at=at,
            after={"failures": each.count},
        )
    )


def password_set(by: Actor | None, account: Account, at: datetime) -> Audit:
    """Tell whose password is set."""
    return entries(by, shared("account", account.name), at=at)


def _of_token(token: AccessToken) -> Subject:
    return Subject(kind="token", id=token.prefix, name=token.name, tenant=token.tenant)


def show_filter(wanted: DeadFilter) -> dict[str, Any]:
    """Return which dead letters are meant, as plain data."""
    plain = {
        "job": None if wanted.job_id is None else format_job_id(wanted.job_id),
        "queue": wanted.queue,
        "reason": wanted.reason,
        "error": wanted.error,
        "error_group": wanted.error_group,
        "since": None if wanted.since is None else write_instant(wanted.since),
        "until": None if wanted.until is None else write_instant(wanted.until),
        "runs": None if wanted.run_ids is None else [format_run_id(run_id) for run_id in wanted.run_ids],
    }
    return {field: value for field, value in plain.items() if value is not None}
