"""The calls on dead letters, and the one that runs a failed run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from mainspring.sdk.lists import DeadFilters, text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.dead_letters import DeadGroups, DeadPage, DiscardedView
from mainspring.wire.views import SubmittedView


class DeadCalls(Transport):
    """A part of `AsyncClient`."""

    async def redrive_run(self, run_id: str, body: Mapping[str, Any] | None = None) -> SubmittedView:
        """Run a FAILED or CANCELLED run again. `body` may have `definition` (`newest` or `kept`) and `payload`."""
        return await self.call(operations.REDRIVE_RUN, run_id, body=body or {})

    async def list_dead_runs(
        self,
        *,
        settled: bool | None = None,
        before: str | None = None,
        limit: int = 100,
        **wanted: Unpack[DeadFilters],
    ) -> DeadPage:
        """Return a page of dead letters, the newest runs first: the open ones, or those that are settled."""
        query: dict[str, str | int | None] = {
            **_query_of(wanted),
            "settled": "true" if settled else None,
            "before": before,
            "limit": limit,
        }
        return await self.call(operations.LIST_DEAD_RUNS, query=query)

    async def group_dead_runs(self, *, limit: int = 100, **wanted: Unpack[DeadFilters]) -> DeadGroups:
        """Return how many open dead letters of each job failed alike, the largest groups first."""
        return await self.call(operations.GROUP_DEAD_RUNS, query={**_query_of(wanted), "limit": limit})

    async def discard_dead_runs(
        self,
        because: str,
        *,
        run_ids: Sequence[str] | None = None,
        dry_run: bool = False,
        **wanted: Unpack[DeadFilters],
    ) -> DiscardedView:
        """Take open dead letters off the list for good. With `dry_run`, only say how many that would be.

        `because` is the reason that is kept with them; the filter `reason` is why they failed. An answer that is not
        complete has stopped at its time: call again for the rest.

        Raises:
            InvalidInput: nothing says which ones are meant.
        """
        given = {name: text for name, text in _query_of(wanted).items() if text is not None}
        named = {} if run_ids is None else {"run_ids": list(run_ids)}
        body: dict[str, Any] = {"filter": {**given, **named}, "reason": because, "dry_run": bool(dry_run)}
        return await self.call(operations.DISCARD_DEAD_RUNS, body=body, may_repeat=True)


def _query_of(wanted: DeadFilters) -> dict[str, str | int | None]:
    query: dict[str, str | int | None] = dict.fromkeys(DeadFilters.__annotations__)
    for name, given in wanted.items():
        if name not in query:
            raise TypeError(f"there is no filter {name!r}")
        query[name] = text_of(given)
    return query
