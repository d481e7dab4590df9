"""What an app's code defines: its jobs are marked, and those that it does not define any more are named or deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mainspring.core.actors import Actor
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.owners import OwnerChange
from mainspring.core.values import value
from mainspring.engine.common.serving import OfferReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.jobs import Jobs
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.applying import OwnedNames

PAGE = 500
MOST_TOLD = 1000
"""Jobs that an answer names, at most."""
MOST_TOGETHER = 1000
"""Jobs that are deleted in the transaction of an apply, at most."""


@value(kw_only=True)
class OwnerReport:
    """What became of the jobs of an owner.

    Attributes:
        missing: names of jobs that do not exist. Whoever defines them stores them, and says it again.
        taken: names of jobs that belonged to another owner until now, with that owner.
        undefined: its jobs that it does not define any more, each with whether a live worker has its function.
        deleted: those of them that were deleted.
    """

    missing: tuple[str, ...]
    taken: tuple[tuple[str, str], ...]
    undefined: tuple[tuple[Job, bool], ...]
    deleted: tuple[Job, ...]


@value()
class Gone:
    """Jobs that belong to owners who do not define them any more, each with whether a live worker has its function."""

    of_owners: tuple[tuple[tuple[Job, bool], ...], ...]

    def deletable(self) -> list[Job]:
        """Return those that one transaction deletes."""
        found = [job for jobs in self.of_owners for job, is_served in jobs if not is_served]
        return sorted(found, key=lambda job: job.id)[:MOST_TOGETHER]


class Owners:
    """The use case of an app that tells at its start which jobs it defines."""

    def __init__(
        self, store: Store, jobs: Jobs, offers: OfferReader, *, clock: Clock, wakeups: Wakeups
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._offers = offers
        self._clock = clock
        self._wakeups = wakeups

    async def define(
        self, tenant: str, owner: str, names: Sequence[str], *, prune: bool, by: Actor | None = None
    ) -> OwnerReport:
        """Mark the jobs that an owner's code defines, and find those that it does not define any more.

        Args:
            prune: delete the latter. A job stays whose function a live worker has: another version of the app is
                alive that defines it, or has just not been stopped yet.
        """
        now = self._clock.now()
        audit = auditing.jobs_owned(by, tenant, owner, names, now)
        change = await self._store.own_jobs(tenant, owner, names, now=now, audit=audit)
        if change.defined:
            self._wakeups.clocks_changed()  # their revisions are others
        offers = await self._offers.read_now()
        undefined: list[tuple[Job, bool]] = []
        deleted: list[Job] = []
        after: JobId | None = None
        while page := await self._store.list_undefined(tenant, owner=owner, after=after, limit=PAGE):
            after = page[-1].id
            for job in page:
                is_served = offers.has_function(_function_of(job), tenant)
                if prune and not is_served and await self._jobs.delete_undefined(tenant, job.id, by=by):
                    deleted.append(job)
                else:
                    undefined.append((job, is_served))
            if len(page) < PAGE or (not prune and len(undefined) >= MOST_TOLD):
                break
        return OwnerReport(
            missing=change.missing,
            taken=change.taken,
            undefined=tuple(undefined[:MOST_TOLD]),
            deleted=tuple(deleted[:MOST_TOLD]),
        )

    async def find_gone(self, tenant: str, owners: Sequence[OwnedNames], *, keep: Collection[str]) -> Gone:
        """Find the jobs that belong to owners and that they do not define any more.

        Args:
            owners: what they define, by name.
            keep: names of jobs that are none of those, whoever owns them.
        """
        if not owners:
            return Gone(())
        offers = await self._offers.read_now()
        found: list[tuple[tuple[Job, bool], ...]] = []
        for each in owners:
            defined = frozenset(each.names).union(keep)
            jobs: list[Job] = []
            after: JobId | None = None
            while page := await self._store.list_owned(tenant, each.owner, after=after, limit=PAGE):
                after = page[-1].id
                jobs += [job for job in page if job.spec.name not in defined]
                if len(page) < PAGE:
                    break
            found.append(tuple((job, offers.has_function(_function_of(job), tenant)) for job in jobs))
        return Gone(tuple(found))

    async def settle(
        self,
        tenant: str,
        changes: Sequence[OwnerChange],
        gone: Gone,
        deleted: Sequence[Job],
        *,
        prune: bool,
        by: Actor | None = None,
    ) -> list[OwnerReport]:
        """Do what follows the transaction of an apply: cancel the runs of deleted jobs, and delete what was too many.

        Args:
            changes: what the transaction answered for each owner.
            deleted: what it deleted.
        """
        done = {job.id for job in deleted}
        for job in deleted:
            await self._jobs.cancel_waiting(tenant, job.id)
        if prune and len(deleted) == MOST_TOGETHER:
            left = [
                job for jobs in gone.of_owners for job, is_served in jobs if not (is_served or job.id in done)
            ]
            done |= {job.id for job in left if await self._jobs.delete_undefined(tenant, job.id, by=by)}
        return [
            OwnerReport(
                missing=change.missing,
                taken=change.taken,
                undefined=tuple(one for one in jobs if one[0].id not in done)[:MOST_TOLD],
                deleted=tuple(job for job, _ in jobs if job.id in done)[:MOST_TOLD],
            )
            for change, jobs in zip(changes, gone.of_owners, strict=True)
        ]


def _function_of(job: Job) -> str:
    return str(job.spec.target.params.get("function", ""))
