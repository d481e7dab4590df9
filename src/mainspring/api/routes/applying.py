"""Jobs that are kept in files: what would change, and the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import check_bulk
from mainspring.api.routes.owners import view_report
from mainspring.core.fields import MAX_NAME, read_text
from mainspring.core.ids import format_job_id
from mainspring.core.owners import read_owner
from mainspring.core.triggers.words import warn_of_trigger
from mainspring.engine.usecases.applying import AppliedJob, AppliedJobs, Outcome
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.store.applying import OwnedNames
from mainspring.wire import operations
from mainspring.wire.applying import AppliedView, DefinitionsView, UnreadDefinitions
from mainspring.wire.operation import BULK_LIMIT
from mainspring.wire.versions import view_changes


@handles(operations.APPLY_JOBS)
async def apply_jobs(call: Call, bodies: Any) -> list[AppliedView]:
    applied = await call.engine.applying.apply(call.tenant, _checked(bodies), by=call.actor)
    return _view(applied.jobs)


@handles(operations.APPLY_DEFINITIONS)
async def apply_definitions(call: Call, body: UnreadDefinitions) -> DefinitionsView:
    if len(body.jobs) > BULK_LIMIT:
        raise InvalidInput("jobs", f"must be at most {BULK_LIMIT} jobs, not {len(body.jobs)}")
    names = {job.get("name") for job in body.jobs if isinstance(job.get("name"), str)}
    for index, name in enumerate(body.paused):
        if name not in names:
            raise InvalidInput(f"paused[{index}]", f"must be the name of one of the jobs, not {name[:60]!r}")
    try:
        applied = await call.engine.applying.apply(
            call.tenant,
            body.jobs,
            owners=_owners(body),
            prune=body.prune,
            paused=frozenset(body.paused),
            are_of_code=True,
            by=call.actor,
        )
    except InvalidInput as error:
        raise error.renamed(_path) from error
    except Conflict as error:
        raise Conflict(_path(error.field), error.message) from error
    return view_applied(applied, [each.owner for each in body.owners])


def view_applied(applied: AppliedJobs, owners: Sequence[str]) -> DefinitionsView:
    """Show what became of jobs, and of the other jobs of their owners."""
    reports = zip(owners, applied.owners, strict=True)
    return DefinitionsView(
        jobs=_view(applied.jobs), owners=[view_report(owner, report) for owner, report in reports]
    )


def _path(field: str) -> str:
    return f"jobs{field}" if field.startswith("[") else field


def _owners(body: UnreadDefinitions) -> list[OwnedNames]:
    owners: list[OwnedNames] = []
    for index, each in enumerate(body.owners):
        path = f"owners[{index}]"
        owner = read_owner(each.owner, f"{path}.owner")
        if any(one.owner == owner for one in owners):
            raise InvalidInput(f"{path}.owner", f"is given twice: {owner!r}")
        for number, name in enumerate(each.jobs):
            read_text(name, f"{path}.jobs[{number}]", longest=MAX_NAME)
        owners.append(OwnedNames(owner, tuple(each.jobs)))
    return owners


@handles(operations.DIFF_JOBS)
async def diff_jobs(call: Call, bodies: Any) -> list[AppliedView]:
    return _view(await call.engine.applying.diff(call.tenant, _checked(bodies)))


def _checked(bodies: Any) -> list[dict[str, Any]]:
    check_bulk(bodies, "jobs")
    for index, body in enumerate(bodies):
        if not isinstance(body, dict):
            raise InvalidInput(f"[{index}]", "must be an object")
    checked: list[dict[str, Any]] = bodies
    return checked


def _warn(one: AppliedJob) -> list[str]:
    return [] if one.outcome is Outcome.UNCHANGED else warn_of_trigger(one.spec.trigger, now=one.made_at)


def _view(applied: Sequence[AppliedJob]) -> list[AppliedView]:
    return [
        AppliedView(
            name=one.spec.name,
            job_id=None if one.job_id is None else format_job_id(one.job_id),
            outcome=one.outcome.value,
            owner=None if one.before is None else one.before.owner,
            changes=view_changes(
                None if one.before is None else one.before.spec, one.spec, made_at=one.made_at
            ),
            schedule_warnings=_warn(one),
        )
        for one in applied
    ]


ROUTES: list[Endpoint] = [apply_jobs, apply_definitions, diff_jobs]
