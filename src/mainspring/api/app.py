"""Puts the API together: routes, errors, OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version

import msgspec
from litestar import Litestar, Response, Router, get
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.routes import BaseRoute
from litestar.types import ControllerRouterHandler

from mainspring.api.direct import DirectApi, DirectRoutes
from mainspring.api.errors import handle
from mainspring.api.guard import Guard
from mainspring.api.openapi import complete, known_parameters
from mainspring.api.reading import AnyRequest, read_query
from mainspring.api.routes import jobs, runs, system, worker
from mainspring.config.access import Access
from mainspring.engine.scheduling.shards import Shards
from mainspring.engine.usecases.client import Client
from mainspring.ports.gateway import WorkerGateway
from mainspring.ports.store import FailoverFacts


def create_api(
    client: Client,
    gateway: WorkerGateway,
    *,
    store_name: str,
    ping: Callable[[], Awaitable[object]],
    shards: Shards | None = None,
    failovers: Callable[[], Sequence[FailoverFacts]] = tuple,
    figures: Callable[[], Mapping[str, float]] = dict,
    access: Access | None = None,
) -> Litestar:
    """Make the ASGI application.

    Args:
        client: the engine's use cases.
        gateway: where workers' calls go.
        store_name: what `/health` calls the store.
        ping: asks the store for a sign of life; raises `StoreUnavailable`.
        shards: whose figures `/health` shows; None where this process does not schedule.
        failovers: gives those of the database, as the store tells them.
        figures: gives what the process counts.
        access: who may reach it, and under which names; None is this machine only.
    """
    api = Router("/api/v1", route_handlers=[*jobs.ROUTES, *runs.ROUTES])
    protocol = Router("/api/v1/worker", route_handlers=worker.ROUTES)
    access = access or Access()
    state = State(
        {
            "client": client,
            "gateway": gateway,
            "store_name": store_name,
            "ping": ping,
            "shards": shards,
            "failovers": failovers,
            "figures": figures,
            "access": access,
        }
    )
    config = OpenAPIConfig(
        title="Mainspring",
        version=version("mainspring"),
        description="Schedules jobs, runs them, and accounts for every fire.",
        openapi_router=_Unserved("/schema", route_handlers=[]),
        use_handler_docstrings=True,
    )
    guard = Guard(access)
    app = _Application(
        [api, protocol, *system.ROUTES, get_openapi],
        exception_handlers={Exception: handle},
        before_request=_make_check(guard),
        openapi_config=config,
        state=state,
        request_max_body_size=None,  # `reading` measures, and answers with the limit
        on_app_init=[_quiet],
    )
    app.direct = DirectRoutes(
        guard,
        {
            "/api/v1/jobs": jobs.create_job,
            "/api/v1/worker/claim": worker.claim,
            "/api/v1/worker/beat": worker.beat,
            "/api/v1/worker/report": worker.report,
        },
        submit=runs.submit_run,
    )
    return app


class _Application(DirectApi):
    """Leaves out Litestar's plugins for models of pydantic and attrs: we have none.

    Where pydantic is installed, for whatever reason, loading it for nothing took a seventh of the time in which a
    server starts.
    """

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def _make_check(guard: Guard) -> Callable[[AnyRequest], Awaitable[None]]:
    async def check_request(request: AnyRequest) -> None:
        await guard.check(request)
        handler = request.scope["route_handler"]
        operation = handler.operation_id if isinstance(handler, HTTPRouteHandler) else None
        read_query(request, known_parameters(str(operation)))

    return check_request


class _Unserved(Router):
    """Takes in no routes: `/openapi.json` is the one place of the description, without a UI beside it."""

    def register(self, value: ControllerRouterHandler) -> list[BaseRoute]:
        """Register nothing."""
        del value
        return []


def _quiet(config: AppConfig) -> AppConfig:
    """Leave logging to structlog, set up by the process."""
    config.logging_config = None
    return config


@get("/openapi.json", include_in_schema=False)
async def get_openapi(request: AnyRequest) -> Response[bytes]:
    """Return the description of the API, made once."""
    state = request.app.state
    if "openapi" not in state:
        state["openapi"] = msgspec.json.encode(complete(request.app.openapi_schema.to_schema()))
    return Response(state["openapi"], media_type="application/json")
