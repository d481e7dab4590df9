"""Stores the jobs of an app at its start, and names or deletes those that its code does not define any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from mainspring.clock import LoopWaiter
from mainspring.core.times import write_instant
from mainspring.errors import (
    Conflict,
    InvalidInput,
    NeedsRight,
    NotAuthenticated,
    StoreUnavailable,
    Unreachable,
)
from mainspring.sdk.applying import apply_to, name_job, parts_of
from mainspring.wire.owners import OwnerView

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.client import AsyncClient

_log = structlog.get_logger(__name__)
_RETRY_PAUSE = 1.0
_TRIES = 5
"""How often jobs are applied again because another process has just changed or deleted them."""
_OTHERS = ("version", "owners")
"""How the fields end that a refusal names which is due to another process."""
MOST_NAMED = 20
"""Jobs that have a line each; the others are counted."""

Apply = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Sequence[str]], bool], Awaitable[list[OwnerView]]]


async def put_app(app: App, apply: Apply, *, prune: bool) -> None:
    """Apply an app's jobs, and say that they are all that it defines. If nobody answers, try again until somebody does.

    Args:
        apply: applies jobs, and says which of them an owner defines, and whether to delete its others.
        prune: delete what the app does not define any more.

    Raises:
        InvalidInput, Conflict: a definition is refused; the error names the job.
    """
    for left in reversed(range(_TRIES)):
        try:
            views = await _put_parts(app, apply, prune=prune)
        except Conflict as error:
            if left == 0 or not error.field.endswith(_OTHERS):
                raise
            _log.info(
                "jobs_changed_meanwhile", error=str(error), meaning="another process applies its jobs, too"
            )
        else:
            for view in views:
                _tell(view, prune=prune)
            return


async def _put_parts(app: App, apply: Apply, *, prune: bool) -> list[OwnerView]:
    bodies = app.definitions()
    *before, last = parts_of(bodies)
    for part in before:
        await _insist(partial(apply, part, {}, False), part)
    owners = {} if app.name is None else {app.name: [str(body["name"]) for body in bodies]}
    return await _insist(partial(apply, last, owners, prune), last)


async def put_app_through(client: AsyncClient, app: App, *, prune: bool) -> None:
    """Apply an app's jobs through a server. If this process may not do that, leave them to whoever may."""

    async def apply(
        bodies: Sequence[Mapping[str, Any]], owners: Mapping[str, Sequence[str]], prune: bool
    ) -> list[OwnerView]:
        return await apply_to(client, bodies, owners, prune=prune)

    try:
        await put_app(app, apply, prune=prune)
    except NeedsRight as error:
        _log.warning(
            "jobs_not_stored",
            error=error.message,
            meaning="this worker runs its functions all the same; apply the jobs by a caller that may edit them",
        )


async def _insist(
    call: Callable[[], Awaitable[list[OwnerView]]], part: Sequence[Mapping[str, Any]]
) -> list[OwnerView]:
    waiter = LoopWaiter()
    while True:
        try:
            return await call()
        except (NotAuthenticated, Unreachable, StoreUnavailable) as error:
            _log.warning("put_jobs_failed", jobs=len(part), error=str(error))
            await waiter.wait(_RETRY_PAUSE)
        except NeedsRight:
            raise
        except (InvalidInput, Conflict) as error:
            raise name_job(error, part) from None


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
