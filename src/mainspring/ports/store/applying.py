"""All that one apply of definitions changes, at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.owners import OwnerChange
from mainspring.core.values import value
from mainspring.ports.store.jobs import ClockChange, JobEdit, NewJob


class ApplyStore(Protocol):
    """All that one apply of definitions changes, at once."""

    async def apply_jobs(
        self, change: JobsChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[OwnerChange] | None:
        """Add, edit, pause and delete jobs, and note whose jobs they are: all of it, or nothing.

        Each part is as in `add_jobs`, `edit_jobs`, `pause_jobs`, `delete_jobs` and `own_jobs`, in that order.

        Returns:
            What `own_jobs` answers, for each owner. None if nothing was changed, because a part does not fit any more:
            a name is taken, a job has moved or is missing, or a calendar or a limit has changed. Then read the jobs
            and decide again.
        """
        ...


@value(kw_only=True)
class JobsChange:
    """What an apply changes. It names no job twice, apart from new ones that are paused at once, and renames none.

    Attributes:
        pauses: also of jobs in `adds`.
        owners: whose jobs are which. A name without a job does not fit.
    """

    tenant: str
    adds: Sequence[NewJob] = ()
    edits: Sequence[JobEdit] = ()
    pauses: Sequence[ClockChange] = ()
    deletes: Sequence[ClockChange] = ()
    owners: Sequence[OwnedNames] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.changes_jobs or self.owners)

    @property
    def changes_jobs(self) -> bool:
        """Whether it changes more than whose jobs are which."""
        return bool(self.adds or self.edits or self.pauses or self.deletes)


@value()
class OwnedNames:
    """The names of all jobs that an owner defines."""

    owner: str
    names: tuple[str, ...]
