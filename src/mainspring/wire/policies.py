"""What is set for tenants, queues and labels, as the HTTP API takes and shows it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, defstruct

from mainspring.core.lane_caps import LABEL_OPTIONS
from mainspring.core.options import Options
from mainspring.core.queues import QUEUE_OPTIONS, Queue
from mainspring.core.tenants import TENANT_OPTIONS, Tenant


def body_of(name: str, doc: str, options: Options, *, module: str = __name__) -> type[Struct]:
    """Make a struct that documents options; `core` reads them."""
    fields: list[Any] = [
        (option.name, Annotated[Any, Meta(extra_json_schema=option.schema())], UNSET) for option in options
    ]
    return defstruct(name, fields, module=module, namespace={"__doc__": doc}, kw_only=True)


TenantBody: Any = body_of("TenantBody", "What is to be set for a tenant.", TENANT_OPTIONS)


class TenantView(Struct, kw_only=True):
    """What is set for a tenant; `running` says how many of its runs are under way, if it has a cap on that."""

    name: str
    weight: int
    reserved: int = 0
    max_running: int | None = None
    running: int | None = None
    max_queued: int | None
    max_jobs: int | None
    submit_rate: str | None


class TenantPage(Struct):
    """A page of tenants; `next` is the value of `after` for the page that follows."""

    items: list[TenantView]
    next: str | None


def view_tenant(tenant: Tenant, running: int | None) -> TenantView:
    """Show what is set for a tenant."""
    plain: dict[str, Any] = {}
    TENANT_OPTIONS.store_into(plain, tenant)
    return TenantView(name=tenant.name, running=running, **plain)


QueueBody: Any = body_of("QueueBody", "What is to be set for a queue.", QUEUE_OPTIONS)


class QueueView(Struct, kw_only=True):
    """What is set for a queue; `running` says how many of its runs are under way, if it has a cap on that."""

    name: str
    order: str
    aging_seconds: float
    aging_share: float
    max_running: int | None = None
    running: int | None = None
    max_queued: int | None
    expires_after_seconds: float | None
    preempt_after_seconds: float | None = None


class QueuePage(Struct):
    """A page of queues; `next` is the value of `after` for the page that follows."""

    items: list[QueueView]
    next: str | None


def view_queue(queue: Queue, running: int | None) -> QueueView:
    """Show what is set for a queue."""
    plain: dict[str, Any] = {}
    QUEUE_OPTIONS.store_into(plain, queue)
    return QueueView(name=queue.name, running=running, **plain)


LabelBody: Any = body_of("LabelBody", "What is to be set for a label.", LABEL_OPTIONS)


class LabelView(Struct, kw_only=True):
    """What is set for a label; `running` says how many runs that need it are under way, if it has a cap on that."""

    name: str
    max_running: int | None
    running: int | None


class LabelPage(Struct):
    """A page of labels; `next` is the value of `after` for the page that follows."""

    items: list[LabelView]
    next: str | None
