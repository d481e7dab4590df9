"""Refuses submissions for the time being: to queues and for tenants that are full, and beyond a tenant's rate.

Only what has a cap is counted, and only while something is submitted to it: the first submission after a second counts
again, and those after it go by that count. So an idle server counts nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import structlog

from mainspring.core.intake import (
    Backlog,
    WaitingCount,
    WaitingScope,
    count_for,
    count_wanted,
    next_backlog,
    rate_is_used_up,
    refuse_if_full,
)
from mainspring.core.rates import Rate
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.pacing import Pacing
from mainspring.errors import Conflict, TookTooLong, TooMany
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.policies import PermitRequest, Policies
from mainspring.ports.store.runs import NewRun
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 1.0
"""Seconds for which a count is good."""
LONGEST = 10.0
"""The most seconds for which a count is good. Within that, counting has a twentieth of the time."""
MOST_TOGETHER = 1000
_REASONS = ("queue_full", "tenant_full", "submit_rate")


class Intake:
    """Says whether submissions may come in now. Without caps and rates it costs a look at a flag."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._caps: dict[WaitingScope, int] = {}
        self._rates: dict[str, Rate] = {}
        self._job_caps: dict[str, int] = {}
        self._counted: dict[WaitingScope, _Counted] = {}
        self._counting: dict[WaitingScope, asyncio.Future[None]] = {}
        # Until then no permit comes in, so nobody need ask the store.
        self._dry_until: dict[str, datetime] = {}
        self._permits: GroupCommit[PermitRequest, datetime | None] = GroupCommit(
            self._take_permits, most=MOST_TOGETHER
        )
        self._refused = dict.fromkeys(_REASONS, 0)
        self.is_open: bool = True

    def follow(self, policies: Policies) -> None:
        """Go by these caps and rates from now on."""
        caps = {
            WaitingScope(owner, one.name): one.max_queued
            for owner, all_of_them in (("queue", policies.queues), ("tenant", policies.tenants))
            for one in all_of_them.values()
            if one.max_queued is not None
        }
        rates = {
            tenant.name: tenant.submit_rate
            for tenant in policies.tenants.values()
            if tenant.submit_rate is not None
        }
        # A count went as far as its cap needed.
        self._counted = {
            scope: counted for scope, counted in self._counted.items() if counted.cap == caps.get(scope)
        }
        self._dry_until = {
            name: until for name, until in self._dry_until.items() if rates.get(name) == self._rates.get(name)
        }
        self._job_caps = {
            tenant.name: tenant.max_jobs
            for tenant in policies.tenants.values()
            if tenant.max_jobs is not None
        }
        self._caps, self._rates = caps, rates
        self.is_open = not caps and not rates

    def measures(self) -> Iterator[Measure]:
        """Yield how many submissions were refused, by reason."""
        for reason, count in self._refused.items():
            yield Measure("submissions_refused_total", count, (reason,))

    async def admit(self, tenant: str, runs: Sequence[NewRun]) -> None:
        """Let submissions of one request in, all or none.

        Raises:
            TooMany: a queue or the tenant is full, or the tenant's rate is used up. Nothing was stored.
        """
        if self.is_open:
            return
        wanted = self._wanted(tenant, runs)
        if wanted:
            await self._count(wanted)
            self._refuse_if_full(wanted, len(runs))
        if tenant in self._rates:
            await self._spend(tenant, len(runs))
        for scope, more in wanted.items():
            if scope in self._counted:
                self._counted[scope].came += more

    async def admit_events(self, tenant: str, count: int) -> None:
        """Let events of one request in, all or none. Full queues do not refuse them, as they do not refuse fires.

        Raises:
            TooMany: the tenant's rate is used up. Nothing was stored.
        """
        if tenant in self._rates:
            await self._spend(tenant, count)

    async def admit_jobs(self, tenant: str, names: Sequence[str]) -> None:
        """Let a tenant have further jobs, all of these names or none. Those of names that exist are no further ones.

        Raises:
            Conflict: they would be more than the tenant may have. Nothing was stored.
        """
        cap = self._job_caps.get(tenant)
        if cap is None:
            return
        found = await self._store.find_jobs(tenant, names)
        new = sum(job is None for job in found)
        if not new:
            return
        jobs = await self._store.count_jobs(tenant, most=cap)
        if jobs + new > cap:
            more = "one more does" if new == 1 else f"{new:,} more do"
            message = (
                f"tenant {tenant!r} has {jobs:,} of at most {cap:,} jobs, so {more} not fit; delete some"
            )
            raise Conflict("max_jobs", message)

    def _wanted(self, tenant: str, runs: Sequence[NewRun]) -> dict[WaitingScope, int]:
        """Return how many runs each scope with a cap would get."""
        caps = self._caps
        wanted = {
            scope: more
            for scope, more in count_wanted(WaitingScope("queue", run.lane.queue) for run in runs).items()
            if scope in caps
        }
        owner = WaitingScope("tenant", tenant)
        return wanted | {owner: len(runs)} if owner in caps else wanted

    def _refuse_if_full(self, wanted: Mapping[WaitingScope, int], count: int) -> None:
        counted = {scope: self._counted.get(scope) for scope in wanted}
        backlogs = {scope: one.backlog for scope, one in counted.items() if one and one.backlog is not None}
        for scope, more in wanted.items():
            cap = self._caps.get(scope)
            if cap is None:  # lifted while it was counted
                continue
            try:
                refuse_if_full({scope: cap}, backlogs, {scope: more})
            except TooMany:
                self._refused[f"{scope.owner}_full"] += count
                raise

    async def _count(self, scopes: Mapping[WaitingScope, int]) -> None:
        """Have counts of these scopes that are still good. Whoever finds an old one counts, and others wait for it."""
        at = self._clock.monotonic()
        old: dict[WaitingScope, int] = {}
        for scope in scopes:
            counted = self._counted.get(scope)
            if (counted is None or counted.good_until <= at) and scope not in self._counting:
                old[scope] = self._caps[scope]
        if old:
            counting = asyncio.ensure_future(self._count_again(old))
            self._counting |= dict.fromkeys(old, counting)
        under_way = [self._counting[scope] for scope in scopes if scope in self._counting]
        for one in dict.fromkeys(under_way):
            await asyncio.shield(one)

    async def _count_again(self, caps: Mapping[WaitingScope, int]) -> None:
        begun = self._clock.monotonic()
        counts = [count_for(scope, cap) for scope, cap in caps.items()]
        found: Sequence[int | None] = [None] * len(counts)
        try:
            found = await self._store.count_waiting(counts)
        except TookTooLong as error:  # what is not known refuses nobody, and is not asked for at once again
            _log.warning("waiting_runs_not_counted", error=str(error))
        finally:
            for scope in caps:
                del self._counting[scope]
        ended = self._clock.monotonic()
        for (scope, most), number in zip(counts, found, strict=True):
            if self._caps.get(scope) != caps[scope]:
                continue  # it was changed meanwhile
            before = self._counted.get(scope)
            backlog = None
            if number is not None:
                backlog = next_backlog(
                    None if before is None else before.backlog,
                    WaitingCount(scope, most),
                    number,
                    came=0 if before is None else before.came,
                    seconds=0.0 if before is None else begun - before.at,
                )
            pacing = Pacing(longest=LONGEST) if before is None else before.pacing
            good_until = max(begun + PERIOD, ended + pacing.rest(ended - begun, has_failed=number is None))
            self._counted[scope] = _Counted(backlog, caps[scope], begun, good_until, pacing)

    async def _spend(self, tenant: str, count: int) -> None:
        now, until = self._clock.now(), self._dry_until.get(tenant)
        if until is None or until <= now:
            [until] = await self._permits([PermitRequest(tenant, count)])
            if until is None:
                self._dry_until.pop(tenant, None)
                return
            if count == 1:  # who wants more has to wait for longer than others
                self._dry_until[tenant] = until
        self._refused["submit_rate"] += count
        rate = self._rates.get(tenant)
        raise rate_is_used_up(tenant, "" if rate is None else rate.text, until=until, now=now)

    async def _take_permits(self, requests: Sequence[PermitRequest]) -> list[datetime | None]:
        return await self._store.take_permits(requests, now=self._clock.now())


class _Counted:
    """A count, and what has come in since.

    Attributes:
        backlog: None if counting took too long.
        cap: the cap that it was made for.
        at, good_until: on the monotonic clock.
        pacing: says how long counts of it are good.
    """

    __slots__ = ("at", "backlog", "came", "cap", "good_until", "pacing")

    def __init__(
        self, backlog: Backlog | None, cap: int, at: float, good_until: float, pacing: Pacing
    ) -> None:
        self.backlog = backlog
        self.cap = cap
        self.at = at
        self.good_until = good_until
        self.pacing = pacing
        self.came = 0
