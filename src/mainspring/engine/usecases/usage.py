"""The use case of reading what became of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from mainspring.core.usage import Usage, UsageLine, UsageReport, UsageStep, add_all
from mainspring.errors import InvalidInput, TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

K = TypeVar("K", str, datetime)
USUAL = timedelta(hours=1)
"""How far back it is looked if nothing else is asked for."""
LONGEST = {UsageStep.MINUTE: timedelta(hours=3), UsageStep.HOUR: timedelta(days=31)}
"""The longest time of which minutes, or hours, are told at once."""


class UsageReader:
    """Reads what all processes have counted. The last half minute may be missing."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def read(
        self,
        tenant: str | None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: UsageStep | None = None,
        queue: str | None = None,
    ) -> UsageReport:
        """Return what became of runs that were made, started or ended from `since` to before `until`.

        Args:
            tenant: None is all tenants.
            since: None is an hour before `until`.
            until: None is now.
            step: None is minutes for up to three hours, else hours.

        Raises:
            InvalidInput: the time is empty, or too long for the step.
        """
        until = until or self._clock.now()
        since = since or until - USUAL
        if since >= until:
            raise InvalidInput("since", "is not before `until`, or before now if that is not given")
        if step is None:
            step = UsageStep.MINUTE if until - since <= LONGEST[UsageStep.MINUTE] else UsageStep.HOUR
        since = step.start_of(since)
        if until - since > LONGEST[step] + step.length:
            longest = "3 hours" if step is UsageStep.MINUTE else "31 days"
            raise InvalidInput(
                "since", f"is too long ago: by the {step.value}, at most {longest} are told at once"
            )
        try:
            lines = await self._store.list_usage(step, since=since, until=until, tenant=tenant)
        except TookTooLong as error:
            raise InvalidInput("since", "this takes too long; ask for a shorter time") from error
        return _report([line for line in lines if queue in {None, line.queue}], since, until, step)


def _report(lines: list[UsageLine], since: datetime, until: datetime, step: UsageStep) -> UsageReport:
    steps = _sum_by(lines, lambda line: line.at)
    return UsageReport(
        since=since,
        until=until,
        step=step,
        total=add_all(usage for _, usage in steps),
        steps=steps,
        queues=_sum_by(lines, lambda line: line.queue),
    )


def _sum_by(lines: Iterable[UsageLine], key: Callable[[UsageLine], K]) -> list[tuple[K, Usage]]:
    found: defaultdict[K, list[Usage]] = defaultdict(list)
    for line in lines:
        found[key(line)].append(line.usage)
    return [(name, add_all(found[name])) for name in sorted(found)]
