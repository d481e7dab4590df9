"""What an app's code defines."""

from __future__ import annotations

from mainspring.api.call import Call, Endpoint, handles
from mainspring.core.fields import MAX_NAME, read_text
from mainspring.core.ids import format_job_id
from mainspring.core.model import Job
from mainspring.core.owners import read_owner
from mainspring.engine.usecases.owners import OwnerReport
from mainspring.wire import operations
from mainspring.wire.owners import OwnedJobView, OwnerBody, OwnerView, TakenJobView


@handles(operations.UPSERT_OWNER)
async def upsert_owner(call: Call, body: OwnerBody) -> OwnerView:
    owner = read_owner(call.key, "owner")
    for index, name in enumerate(body.jobs):
        read_text(name, f"jobs[{index}]", longest=MAX_NAME)
    report = await call.engine.owners.define(call.tenant, owner, body.jobs, prune=body.prune, by=call.actor)
    return view_report(owner, report)


def view_report(owner: str, report: OwnerReport) -> OwnerView:
    """Show what became of an owner's jobs."""
    return OwnerView(
        owner=owner,
        missing=list(report.missing),
        taken=[TakenJobView(name=name, owner=former) for name, former in report.taken],
        undefined=[_view(job, is_served=is_served) for job, is_served in report.undefined],
        deleted=[_view(job, is_served=False) for job in report.deleted],
    )


def _view(job: Job, *, is_served: bool) -> OwnedJobView:
    return OwnedJobView(
        job_id=format_job_id(job.id),
        name=job.spec.name,
        next_fire_time=job.next_fire_at,
        is_served=is_served,
    )


ROUTES: list[Endpoint] = [upsert_owner]
