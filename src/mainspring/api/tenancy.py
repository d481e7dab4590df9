"""Whose request it is, and the engine that serves it. Tokens will tell the tenant; until then there is one."""

from __future__ import annotations

from mainspring.api.reading import AnyRequest
from mainspring.core.model import DEFAULT_TENANT
from mainspring.engine.usecases.client import Client
from mainspring.ports.gateway import WorkerGateway


def tenant_of(request: AnyRequest) -> str:
    """Return the tenant that a request is for."""
    del request
    return DEFAULT_TENANT


def engine_of(request: AnyRequest) -> Client:
    """Return the engine's use cases."""
    client: Client = request.app.state.client
    return client


def gateway_of(request: AnyRequest) -> WorkerGateway:
    """Return the workers' gateway."""
    gateway: WorkerGateway = request.app.state.gateway
    return gateway
