"""Direct calls of a job's function, without an engine: what `current_attempt` tells the function then."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.clock import UuidSource, host_time
from mainspring.core.ids import DEFAULT_TENANT, JobId, RunId
from mainspring.core.model import DEFAULT_TIMEOUT
from mainspring.ports.executor import AttemptContext
from mainspring.signals import has_attempt, lending


def make_attempt(
    job_name: str,
    *,
    tenant: str = DEFAULT_TENANT,
    run_id: int = 0,
    attempt: int = 1,
    fire_at: datetime | None = None,
    due_at: datetime | None = None,
    idempotency_key: str | None = None,
    payload: bytes | None = None,
) -> AttemptContext:
    """Make an attempt that no engine knows, for a function that is called directly.

    Args:
        job_name: the job whose attempt it seems to be.
        run_id: 0 is the id of no run.
        fire_at: the nominal instant, as of a scheduled run.
        due_at: when it was due to start; now by default.
        idempotency_key: by default one of its own. Two direct calls must not look like one run to a target.
        payload: JSON text.
    """
    return AttemptContext(
        run_id=RunId(run_id),
        job_id=JobId(UUID(int=0)),
        job_name=job_name,
        tenant=tenant,
        attempt=attempt,
        token=0,
        fire_at=fire_at,
        due_at=due_at or fire_at or host_time(),
        target_key=idempotency_key or f"direct-{UuidSource().new_uuid()}",
        payload=payload,
        params={"function": job_name},
        timeout=DEFAULT_TIMEOUT,
    )


def call_directly(
    name: str, tenant: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a job's function. Within an attempt that is all; elsewhere `current_attempt` gives it a stand-in."""
    if has_attempt():
        return call(*args, **kwargs)
    if inspect.iscoroutinefunction(call):
        return _await_directly(name, tenant, call, args, kwargs)
    with lending(lambda: make_attempt(name, tenant=tenant)):
        return call(*args, **kwargs)


async def _await_directly(
    name: str,
    tenant: str,
    call: Callable[..., Coroutine[Any, Any, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    with lending(lambda: make_attempt(name, tenant=tenant)):
        return await call(*args, **kwargs)
