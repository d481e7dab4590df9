"""What the stores with a fuse share: the process's fuse, the verb of a call, and a note of what was refused."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Any

from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.schedule import FireResult, FireStatus
from tests.chaos.failpoints import (
    ALERT_VERBS,
    CLUSTER_VERBS,
    FAILPOINT_VARIABLE,
    WRITING_VERBS,
    Failpoint,
    Fuse,
    end_at,
    note,
)

STALE = "stale"
"""A report under a token that is no longer the run's."""
FENCED = "fenced"
"""A fire under an epoch that is no longer the shard's."""
REFUSALS = (STALE, FENCED)
_verb: ContextVar[str] = ContextVar("verb", default="")


def fuse_of_process() -> Fuse:
    """Return the fuse that the environment asks for."""
    text = os.environ.get(FAILPOINT_VARIABLE)
    if not text:
        return Fuse(None, lambda: None)
    failpoint = Failpoint.parse(text)
    return Fuse(failpoint, lambda: end_at(failpoint))


def current_verb() -> str:
    """Return the verb of the store by which the current call was asked for."""
    return _verb.get()


def name_verbs(store: Any) -> None:
    """Have all writing verbs of a store's class tell their name, and note what is refused."""
    for verb in {*WRITING_VERBS, *CLUSTER_VERBS, *ALERT_VERBS}:
        setattr(store, verb, _named(getattr(store, verb), verb))


def _named(method: Callable[..., Awaitable[Any]], verb: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: Any, *args: Any, **given: Any) -> Any:
        token = _verb.set(verb)
        try:
            results = await method(self, *args, **given)
        finally:
            _verb.reset(token)
        if verb in {"apply", "record_fires", "fire_outlined", "advance_fire_ranges"}:
            for refusal in _refusals(results):
                note(refusal)
        return results

    return call


def _refusals(results: Iterable[ApplyResult | FireResult]) -> list[str]:
    return [
        STALE if result is ApplyResult.STALE else FENCED
        for result in results
        if result is ApplyResult.STALE
        or (isinstance(result, FireResult) and result.status is FireStatus.FENCED)
    ]
