"""The call that says what became of runs."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.sdk.lists import text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.usage import UsageView


class UsageCalls(Transport):
    """A part of `AsyncClient`."""

    async def get_usage(
        self,
        *,
        since: str | datetime | timedelta | None = None,
        until: str | datetime | timedelta | None = None,
        step: str | None = None,
        queue: str | None = None,
    ) -> UsageView:
        """Return what became of runs: how many were made, started and ended, how late, and how long they took.

        Args:
            since: an hour before `until` if it is not given.
            until: now if it is not given.
            step: `minute`, for at most 3 hours, or `hour`, for at most 31 days.
            queue: only runs of this queue.
        """
        query = {"since": text_of(since), "until": text_of(until), "step": step, "queue": queue}
        return await self.call(operations.GET_USAGE, query=query)
