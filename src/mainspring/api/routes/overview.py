"""What the cluster does, at a glance."""

from __future__ import annotations

from importlib.metadata import version

from mainspring.api.call import Call, Endpoint, handles
from mainspring.core.pauses import PauseKey, PauseScope
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
    # What is found of jobs is of all tenants.
    findings = call.services.findings() if call.sees_all else None
    found = await call.engine.overviews.read(call.tenant, findings, is_of_all=call.sees_all)
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
        paused=view_pauses(
            [pause for pause in found.pauses if _may_see(call, pause.key)],
            [state for state in found.blackouts if _may_see(call, state.blackout.key)],
        ),
        ledger=None if found.ledger is None else view_ledger_check(found.ledger, call.tenant),
    )


def _may_see(call: Call, paused: PauseKey) -> bool:
    """Return whether what is paused is the caller's business: not if it is another tenant."""
    return call.sees_all or paused.scope is not PauseScope.TENANT or paused.name == call.tenant


ROUTES: list[Endpoint] = [get_overview]
