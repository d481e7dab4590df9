"""What keeps runs from being given out, and takes effect exactly: pauses, blackouts, and caps of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.blackouts import Blackout
from mainspring.core.lane_caps import NO_CAPS, LaneCaps
from mainspring.core.pauses import LanePauses, Pause, PauseKey
from mainspring.core.values import value

PROTOCOL = 3
"""How this program works on a store together with others: what it knows of `KEEPS_RESTRICTIONS` and what follows."""
KEEPS_RESTRICTIONS = 2
"""Programs before this protocol do not look at the policy epoch, and know nothing of limits and of rules for running
once."""
TELLS_FLOWS = 3
"""Programs before this protocol end runs of steps without telling their flows."""


@value()
class Restrictions:
    """All that restricts claims.

    Attributes:
        epoch: grows with every change. A claim that was chosen under another one gives nothing out.
        pauses: also some that have ended by themselves, for the fires that they skip.
        blackouts: in order of what they stop. A store does not read their calendars; `RestrictionReader` does.
        caps: how many runs of queues, tenants and labels may be under way.
    """

    epoch: int = 0
    pauses: LanePauses = field(default_factory=LanePauses)
    blackouts: tuple[Blackout, ...] = ()
    caps: LaneCaps = NO_CAPS


@value()
class BlackoutsWritten:
    """What became of a write of blackouts. Nothing was written if `older` names any, or `is_moved`.

    Attributes:
        older: the servers and workers of older releases that are alive, and would not keep a blackout.
        is_moved: the calendars have changed since they were read.
    """

    older: tuple[str, ...] = ()
    is_moved: bool = False


class RestrictionStore(Protocol):
    """The restrictions that every claim keeps, from the moment in which they are written.

    A change raises the policy epoch, and with it that of every live session. Every claim writes its session's row, and
    gives nothing if the epoch there is not the one under which its lanes were chosen. So a claim that is under way has
    been committed before the change, or it finds another epoch.
    """

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        """Return all that restricts claims, as of one instant; None if it is still that of the epoch `known`."""
        ...

    async def list_older_programs(self, *, protocol: int = KEEPS_RESTRICTIONS) -> list[str]:
        """Return some of the servers and workers of releases before a protocol that are alive."""
        ...

    async def add_pauses(
        self, pauses: Sequence[Pause], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Pause queues, tenants or everything, instead of what was said about the same before (see `renew`).

        When this returns, nothing of them is given out any more, by whatever claim. Pauses that ended by themselves
        long ago are removed.

        Returns:
            The servers and workers of older releases that are alive, and would not keep a pause; if there are any,
            nothing was written.
        """
        ...

    async def lift_pauses(
        self, keys: Sequence[PauseKey], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """End pauses. Return for each whether it was on."""
        ...

    async def set_blackouts(
        self,
        key: PauseKey,
        blackouts: Sequence[Blackout],
        *,
        revision: int,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> BlackoutsWritten:
        """Give a queue, a tenant or everything these blackouts instead of those that it has (see `renew_blackout`).

        When this returns, every claim keeps them. None of them removes all, whatever programs are running.

        `write_calendars` has blackouts that follow a calendar go by its new version, and takes effect in the same way.
        A calendar that a blackout names cannot be deleted.

        Args:
            revision: that of the calendars as of which their versions were read.
        """
        ...

    async def begin_blackouts(self, begun_at: datetime, *, now: datetime) -> bool:
        """Have every claim give nothing that was chosen before a blackout began at `begun_at`.

        Nothing is written if what restricts claims has changed since then: of several processes, one does it.

        Returns:
            Whether it was written.
        """
        ...
