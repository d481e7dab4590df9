"""What the cluster does, at a glance."""

from __future__ import annotations

from importlib.metadata import version

from mainspring.api.call import Call, Endpoint, handles
from mainspring.wire import operations
from mainspring.wire.ledger import view_ledger_check
from mainspring.wire.overview import (
    JobCountsView,
    OverviewView,
    SlotsView,
    view_attention,
    view_queues,
    view_server,
)
from mainspring.wire.pauses import view_pauses
from mainspring.wire.views import view_counts


@handles(operations.GET_OVERVIEW)
async def get_overview(call: Call) -> OverviewView:
    found = await call.engine.overviews.read(call.tenant, call.services.findings())
    return OverviewView(
        now=found.now,
        version=version("mainspring"),
        store=call.services.store_name,
        attention=view_attention(found.attention),
        servers=[view_server(node) for node in found.servers],
        slots=SlotsView(
            workers=len(found.workers),
            total=sum(worker.slots for worker in found.workers),
            held=sum(found.held),
        ),
        jobs=JobCountsView(active=found.jobs.active, paused=found.jobs.paused, is_more=found.are_jobs_cut),
        runs=view_counts(found.runs, age=found.age),
        dead_letters=sum(line.runs for line in found.dead),
        queues=view_queues(found.lines),
        paused=view_pauses(found.pauses, found.blackouts),
        ledger=None if found.ledger is None else view_ledger_check(found.ledger, call.tenant),
    )


ROUTES: list[Endpoint] = [get_overview]
