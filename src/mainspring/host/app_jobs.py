"""Stores the jobs of an app at its start, and names or deletes those that its code does not define any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from mainspring.clock import LoopWaiter
from mainspring.core.times import write_instant
from mainspring.errors import NotFound, StoreUnavailable, Unreachable
from mainspring.wire.owners import OwnerView

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.client import AsyncClient

_log = structlog.get_logger(__name__)
_RETRY_PAUSE = 1.0
_TRIES = 5
"""How often jobs are stored again because another process has just deleted them."""
MOST_NAMED = 20
"""Jobs that have a line each; the others are counted."""

Put = Callable[[Mapping[str, Any]], Awaitable[object]]
Define = Callable[[str, Sequence[str], bool], Awaitable[OwnerView]]


async def put_app(app: App, put: Put, define: Define, *, prune: bool) -> None:
    """Upsert an app's jobs, then say which it defines. If nobody answers, try again until somebody does.

    Args:
        put: upserts a job.
        define: says under a name which jobs are defined, and whether to delete the others.
        prune: delete what the app does not define any more.
    """
    bodies = {str(body["name"]): body for body in app.definitions()}
    owner = app.name
    wanted: Sequence[str] = list(bodies)
    for _ in range(_TRIES):
        for name in wanted:
            await _insist(partial(put, bodies[name]), name)
        if owner is None:
            return
        view: OwnerView = await _insist(partial(define, owner, list(bodies), prune), owner)
        wanted = view.missing
        if not wanted:
            _tell(view, prune=prune)
            return
    _log.warning("jobs_missing", jobs=list(wanted), meaning="another process deletes them again and again")


async def put_app_through(client: AsyncClient, app: App, *, prune: bool) -> None:
    """Store an app's jobs through a server."""

    async def define(owner: str, names: Sequence[str], prune: bool) -> OwnerView:
        try:
            return await client.put_owner(owner, names, prune=prune)
        except NotFound:
            _log.warning("owner_not_kept", owner=owner, meaning="the server is of an earlier release")
            return OwnerView(owner=owner, missing=[], taken=[], undefined=[], deleted=[])

    await put_app(app, client.put_job, define, prune=prune)


async def _insist(call: Callable[[], Awaitable[Any]], what: str) -> Any:
    waiter = LoopWaiter()
    while True:
        try:
            return await call()
        except (Unreachable, StoreUnavailable) as error:
            _log.warning("put_job_failed", job=what, error=str(error))
            await waiter.wait(_RETRY_PAUSE)


def _tell(view: OwnerView, *, prune: bool) -> None:
    owner = view.owner
    for job in view.taken:
        meaning = f"it belonged to {job.owner} until now: two apps define it, or the app has another name"
        _log.warning("job_taken_over", job=job.name, owner=owner, meaning=meaning)
    for gone in view.deleted[:MOST_NAMED]:
        meaning = f"the code of {owner} does not define it any more"
        _log.info("job_pruned", job=gone.name, id=gone.job_id, meaning=meaning)
    if len(view.deleted) > MOST_NAMED:
        _log.info("jobs_pruned", jobs=len(view.deleted), owner=owner)
    rest = "it is kept because a live worker still has its function" if prune else "`--prune` deletes it"
    for left in view.undefined[:MOST_NAMED]:
        at = left.next_fire_time
        fires = "" if at is None else f" and fires next at {write_instant(at)}"
        meaning = f"the code of {owner} does not define it any more{fires}; {rest}"
        _log.warning("job_undefined", job=left.name, id=left.job_id, meaning=meaning)
    if len(view.undefined) > MOST_NAMED:
        _log.warning("jobs_undefined", jobs=len(view.undefined), owner=owner)
