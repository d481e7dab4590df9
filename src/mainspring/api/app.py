"""Puts the API together: the endpoints behind one admission step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from mainspring.api.admission import Admission, Deny, Observe
from mainspring.api.call import Services
from mainspring.api.caller_rates import CallerRates
from mainspring.api.gatekeeper import Gatekeeper, Identify
from mainspring.api.guard import Guard
from mainspring.api.ics import IcsReader
from mainspring.api.login_desk import LoginDesk
from mainspring.api.ping_gate import PingGate
from mainspring.api.routes import (
    access,
    alerts,
    applying,
    archive,
    artifacts,
    audit,
    backfills,
    blackouts,
    calendars,
    capacity,
    checkpoints,
    dead_letters,
    events,
    flow_answers,
    jobs,
    limits,
    logging,
    logins,
    monitors,
    objectives,
    overview,
    owners,
    pauses,
    policies,
    priorities,
    provider_logins,
    redrives,
    run_logs,
    runs,
    system,
    usage,
    worker,
    workflows,
)
from mainspring.api.routing import Routes
from mainspring.api.store_probe import StoreProbe
from mainspring.clock import UuidSource, monotonic
from mainspring.config.access import Access
from mainspring.config.table import default
from mainspring.core.job_findings import JobFindings
from mainspring.core.rates import Rate
from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.usecases.client import Client
from mainspring.engine.usecases.identities import Identities
from mainspring.engine.usecases.logins import Logins
from mainspring.ports.gateway import ServingGateway
from mainspring.ports.identity_provider import IdentityProvider
from mainspring.ports.logs import LogSwitch
from mainspring.ports.store import FailoverFacts
from mainspring.wire.operations import IMPORT_CALENDAR

ENDPOINTS = (
    *jobs.ROUTES,
    *owners.ROUTES,
    *applying.ROUTES,
    *runs.ROUTES,
    *run_logs.ROUTES,
    *calendars.ROUTES,
    *backfills.ROUTES,
    *dead_letters.ROUTES,
    *redrives.ROUTES,
    *alerts.ROUTES,
    *monitors.ROUTES,
    *objectives.ROUTES,
    *capacity.ROUTES,
    *limits.ROUTES,
    *policies.ROUTES,
    *priorities.ROUTES,
    *pauses.ROUTES,
    *blackouts.ROUTES,
    *access.ROUTES,
    *logins.ROUTES,
    *provider_logins.ROUTES,
    *workflows.ROUTES,
    *flow_answers.ROUTES,
    *worker.ROUTES,
    *overview.ROUTES,
    *usage.ROUTES,
    *archive.ROUTES,
    *artifacts.ROUTES,
    *checkpoints.ROUTES,
    *events.ROUTES,
    *audit.ROUTES,
    *logging.ROUTES,
    *system.ROUTES,
)


class Api(Starlette):
    """The ASGI application. Requests go to the admission step; Starlette handles the rest of ASGI."""

    def __init__(self, admission: Admission) -> None:
        super().__init__()
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or another ASGI event."""
        if scope["type"] == "http":
            await self._admission(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_api(
    client: Client,
    gateway: ServingGateway,
    *,
    identify: Identify,
    identities: Identities | None = None,
    admin_token: str | None = None,
    store_name: str,
    ping: Callable[[], Awaitable[object]],
    shards: Shards | None = None,
    failovers: Callable[[], Sequence[FailoverFacts]] = tuple,
    figures: Callable[[], Mapping[str, float]] = dict,
    expose: Callable[[str | None], str] = lambda _: "",
    access: Access | None = None,
    ics: IcsReader | None = None,
    observe: Observe | None = None,
    deny: Deny | None = None,
    why_rate: Rate | None = None,
    test_rate: Rate | None = None,
    findings: Callable[[], JobFindings | None] = lambda: None,
    logs: LogSwitch | None = None,
    sign_in: Logins | None = None,
    provider: IdentityProvider | None = None,
) -> Api:
    """Make the ASGI application.

    Args:
        client: the engine's use cases.
        gateway: where workers' calls go.
        identify: returns on whose behalf a request is made as long as there are no accounts.
        identities: finds whom tokens stand for; None means that there never are accounts.
        admin_token: a token that may do everything as long as there are no accounts.
        store_name: the store's name in `/health`.
        ping: checks that the store answers; raises `StoreUnavailable` if not.
        shards: the source of the scheduler's figures in `/health`; None if this process does not schedule.
        failovers: returns the database failovers that the store knows about.
        figures: returns the process's figures.
        expose: returns all that the process measures, or what of it a tenant may see, in Prometheus's text format.
        access: who may reach the API, and under which names; None means this machine only.
        ics: reads ICS files; None means with the usual limits.
        observe: called for each answered request.
        deny: called for each request that is denied, with why.
        why_rate: how often each caller may ask why a run waits; None is the setting's default.
        test_rate: how often each caller may test channels; None is the setting's default.
        findings: returns what the last look at all jobs has found.
        logs: sets which log lines this process writes; None if the log is not its own.
        sign_in: lets people sign in; None lets nobody.
        provider: where people may sign in instead of with a password; None is nowhere.
    """
    access, ics = access or Access(), ics or IcsReader()
    test_rate = test_rate or default("channels.test_rate")
    gatekeeper = Gatekeeper(identify, identities, admin_token=admin_token)
    desk = None
    if sign_in is not None and identities is not None:
        desk = LoginDesk(sign_in, gatekeeper.look_at, lambda: identities.is_open, provider)
    services = Services(
        engine=client,
        gateway=gateway,
        store_name=store_name,
        ping=ping,
        probe=StoreProbe(ping),
        shards=shards,
        failovers=failovers,
        figures=figures,
        expose=expose,
        access=access,
        ics=ics,
        why_rates=CallerRates(why_rate or default("why.rate"), setting="why.rate"),
        test_rates=CallerRates(test_rate, setting="channels.test_rate", burst=test_rate.count),
        pings=PingGate(),
        findings=findings,
        logs=logs,
        desk=desk,
        on_access_changed=_do_nothing if identities is None else identities.hurry,
    )
    return Api(
        Admission(
            Routes(ENDPOINTS, limits={IMPORT_CALENDAR.id: ics.most_bytes}),
            services,
            guard=Guard(access),
            gatekeeper=gatekeeper,
            ids=UuidSource(),
            monotonic=monotonic,
            observe=observe,
            deny=deny,
        )
    )


async def _do_nothing() -> None:
    """Nobody has to know of changes of access."""
