"""Redrives: records, and the steps in which they go through dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import DeadVersion, Redrive, RedriveChange
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs


class RedriveStore(Protocol):
    """Redrives. The owner of shard 0 takes their steps; the runs themselves are inserted as submissions."""

    async def count_dead_versions(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadVersion]:
        """Return by which versions of their jobs open dead letters ran, those with the most first.

        It is stopped at the time limit of lists, and raises `TookTooLong` then.
        """
        ...

    async def add_redrive(self, new: NewRedrive, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> None:
        """Insert a redrive, which is running then."""
        ...

    async def get_redrive(self, redrive_id: RedriveId) -> Redrive | None:
        """Return a redrive; None for an unknown one."""
        ...

    async def list_redrives(
        self, tenant: str, *, before: RedriveId | None = None, limit: int = 100
    ) -> list[Redrive]:
        """Return a page of a tenant's redrives, the newest first."""
        ...

    async def change_redrive(
        self, redrive_id: RedriveId, change: RedriveChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Pause, resume or cancel a redrive; say whether it then is in the state that was asked for."""
        ...

    async def list_running_redrives(self, *, limit: int) -> list[Redrive]:
        """Return running redrives of all tenants, the oldest first."""
        ...

    async def find_dead_to_redrive(
        self, tenant: str, wanted: DeadFilter, *, after: RunId, limit: int
    ) -> DeadWindow:
        """Look at the next open dead letters of a tenant whose ids are above one, at most `limit`, in order of id."""
        ...

    async def advance_redrives(self, steps: Sequence[RedriveStep], *, epochs: Epochs, now: datetime) -> bool:
        """Move the cursors of redrives, and count what is redriven of what they pass.

        What was redriven since the redrive was made counts, whoever did it; so a step that is taken again after a
        crash counts what the first had inserted. Steps of redrives that are not running, or whose cursors have moved,
        are left out. Return False, and change nothing, without the epoch of shard 0.
        """
        ...


@value()
class DeadWindow:
    """Dead letters that were looked at.

    Attributes:
        run_ids: those that are meant, in order.
        last: the last one that was looked at; None if there is none.
    """

    run_ids: list[RunId]
    last: RunId | None


@value(kw_only=True)
class NewRedrive:
    """A redrive to insert.

    Attributes:
        total: how many dead letters are open that it goes through.
    """

    id: RedriveId
    tenant: str
    wanted: DeadFilter
    is_newest: bool
    rate: int
    total: int


@value(kw_only=True)
class RedriveStep:
    """A step of a redrive.

    Attributes:
        is_done: no dead letter is left above the new cursor.
    """

    redrive: Redrive
    cursor_to: RunId
    is_done: bool
