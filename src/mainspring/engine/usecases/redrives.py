"""Use cases on redrives: plan, make, show, pause, resume and cancel them. `Redriver` takes their steps."""

from __future__ import annotations

from mainspring.core.actors import Actor
from mainspring.core.audit import Subject, entries
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RedriveId, RunId, format_redrive_id
from mainspring.core.redrives import FASTEST, USUAL_RATE, DeadVersion, Redrive, RedriveChange
from mainspring.core.values import value
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.dead_letters import SHOWN, DeadLetters, bound, too_slow
from mainspring.errors import Conflict, InvalidInput, NotFound, TookTooLong
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.redrives import NewRedrive


@value(kw_only=True)
class PlannedRedrive:
    """What a redrive goes through, and itself; None after a dry run.

    Attributes:
        count: how many dead letters are open that are meant.
        versions: by which versions of their jobs they ran, those with the most first.
        first: some of them, the newest first.
    """

    count: int
    versions: list[DeadVersion]
    first: tuple[RunId, ...]
    redrive: Redrive | None


class Redrives:
    """Use cases on redrives. Every method acts for one tenant."""

    def __init__(self, store: Store, letters: DeadLetters, *, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._letters = letters
        self._clock = clock
        self._ids = ids

    async def create(
        self,
        tenant: str,
        wanted: DeadFilter,
        *,
        rate: int = USUAL_RATE,
        is_newest: bool = True,
        is_dry_run: bool = False,
        by: Actor | None = None,
    ) -> PlannedRedrive:
        """Have open dead letters run again, unless it is a dry run. Those that fail meanwhile are not meant.

        Args:
            rate: runs a second, 1 to 1,000.
            is_newest: by the newest definitions of their jobs, not by those that they had.

        Raises:
            InvalidInput: nothing says which ones, there are none, the rate is out of bounds, or the store is too slow.
        """
        if not 1 <= rate <= FASTEST:
            raise InvalidInput("rate", f"must be 1 to {FASTEST:,} runs a second")
        now = self._clock.now()
        wanted, _ = bound(wanted, now)
        count, first = await self._letters.count(tenant, wanted)
        try:
            versions = await self._store.count_dead_versions(tenant, wanted, limit=SHOWN)
        except TookTooLong as error:
            raise too_slow(wanted, prefix="filter.") from error
        if is_dry_run:
            return PlannedRedrive(count=count, versions=versions, first=first, redrive=None)
        if not count:
            raise InvalidInput(
                "filter", "means no dead letter that is open, so there is nothing to run again"
            )
        redrive_id = RedriveId(self._ids.new_uuid())
        new = NewRedrive(
            id=redrive_id, tenant=tenant, wanted=wanted, is_newest=is_newest, rate=rate, total=count
        )
        after = {"filter": auditing.show_filter(wanted), "rate": rate, "total": count}
        audit = entries(by, _subject(tenant, redrive_id), at=now, after=after)
        await self._store.add_redrive(new, now=now, audit=audit)
        redrive = await self.get(tenant, redrive_id)
        return PlannedRedrive(count=count, versions=versions, first=first, redrive=redrive)

    async def get(self, tenant: str, redrive_id: RedriveId) -> Redrive:
        """Return a redrive, and how far it has come.

        Raises:
            NotFound: this tenant has no such redrive.
        """
        redrive = await self._store.get_redrive(redrive_id)
        if redrive is None or redrive.tenant != tenant:
            raise NotFound("redrive", format_redrive_id(redrive_id))
        return redrive

    async def list_page(
        self, tenant: str, *, before: RedriveId | None = None, limit: int = 100
    ) -> list[Redrive]:
        """Return a page of redrives, the newest first."""
        return await self._store.list_redrives(tenant, before=before, limit=limit)

    async def change(
        self, tenant: str, redrive_id: RedriveId, change: RedriveChange, *, by: Actor | None = None
    ) -> Redrive:
        """Pause, resume or cancel a redrive; in the wanted state it may be already. Runs that it has made go on.

        Raises:
            NotFound: this tenant has no such redrive.
            Conflict: it is over.
        """
        redrive = await self.get(tenant, redrive_id)
        now = self._clock.now()
        audit = entries(
            by,
            _subject(tenant, redrive_id),
            at=now,
            before={"state": redrive.state.value},
            after={"state": change.leads_to.value},
        )
        if not await self._store.change_redrive(redrive_id, change, now=now, audit=audit):
            redrive = await self.get(tenant, redrive_id)
            raise Conflict("state", f"the redrive is {redrive.state.value} already")
        return await self.get(tenant, redrive_id)


def _subject(tenant: str, redrive_id: RedriveId) -> Subject:
    return Subject(kind="redrive", id=format_redrive_id(redrive_id), tenant=tenant)
