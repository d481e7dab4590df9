"""The calls on dead letters, and the one that runs a failed run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from mainspring.core.redrives import USUAL_RATE
from mainspring.sdk.lists import DeadFilters, text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.dead_letters import DeadGroups, DeadPage, DiscardedView
from mainspring.wire.redrives import RedriveAnswer, RedrivePage, RedriveView
from mainspring.wire.views import SubmittedView


class DeadCalls(Transport):
    """A part of `AsyncClient`."""

    async def redrive_run(self, run_id: str, body: Mapping[str, Any] | None = None) -> SubmittedView:
        """Run a FAILED or CANCELLED run again. `body` may have `definition` (`newest` or `kept`) and `payload`.

        A workflow goes on where it failed. With `from`, it takes nothing over (`start`), or these steps run again, too.
        """
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
        filters = _body_of(wanted, run_ids)
        body: dict[str, Any] = {"filter": filters, "reason": because, "dry_run": bool(dry_run)}
        return await self.call(operations.DISCARD_DEAD_RUNS, body=body, may_repeat=True)

    async def start_redrive(
        self,
        *,
        run_ids: Sequence[str] | None = None,
        rate: int = USUAL_RATE,
        definition: str = "newest",
        dry_run: bool = False,
        **wanted: Unpack[DeadFilters],
    ) -> RedriveAnswer:
        """Have open dead letters run again, `rate` a second; the server goes on with it.

        `definition` is `newest`, by the newest definition of each job, or `kept`, by the one that the run had. With
        `dry_run`, only say how many that would be, and by which versions of their jobs they ran.

        Raises:
            InvalidInput: nothing says which ones are meant, or there are none.
        """
        body: dict[str, Any] = {
            "filter": _body_of(wanted, run_ids),
            "rate": rate,
            "definition": definition,
            "dry_run": bool(dry_run),
        }
        return await self.call(operations.START_REDRIVE, body=body)

    async def list_redrives(self, *, before: str | None = None, limit: int = 100) -> RedrivePage:
        """Return a page of redrives, the newest first."""
        return await self.call(operations.LIST_REDRIVES, query={"before": before, "limit": limit})

    async def get_redrive(self, redrive_id: str) -> RedriveView:
        """Return a redrive, and how far it has come."""
        return await self.call(operations.GET_REDRIVE, redrive_id)

    async def pause_redrive(self, redrive_id: str) -> RedriveView:
        """Run no further dead letters again for now."""
        return await self.call(operations.PAUSE_REDRIVE, redrive_id)

    async def resume_redrive(self, redrive_id: str) -> RedriveView:
        """Go on with a paused redrive."""
        return await self.call(operations.RESUME_REDRIVE, redrive_id)

    async def cancel_redrive(self, redrive_id: str) -> RedriveView:
        """Run no further dead letters again; they stay open."""
        return await self.call(operations.CANCEL_REDRIVE, redrive_id)


def _body_of(wanted: DeadFilters, run_ids: Sequence[str] | None) -> dict[str, Any]:
    given: dict[str, Any] = {name: text for name, text in _query_of(wanted).items() if text is not None}
    return given if run_ids is None else {**given, "run_ids": list(run_ids)}


def _query_of(wanted: DeadFilters) -> dict[str, str | int | None]:
    query: dict[str, str | int | None] = dict.fromkeys(DeadFilters.__annotations__)
    for name, given in wanted.items():
        if name not in query:
            raise TypeError(f"there is no filter {name!r}")
        query[name] = text_of(given)
    return query
