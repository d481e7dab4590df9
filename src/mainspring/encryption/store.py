"""Stands for a store, and has what users put in encrypted before it gets there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any, cast

from mainspring.core.artifacts import ArtifactVerdict
from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun
from mainspring.core.ids import RunId
from mainspring.core.model import Run
from mainspring.core.redrives import DeadVersion
from mainspring.encryption.checkpoints import EncryptedCheckpoints
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.events import EncryptedEvents
from mainspring.encryption.fields import Fields, Place
from mainspring.encryption.jobs import EncryptedJobs, JobTenants
from mainspring.errors import InvalidInput
from mainspring.ports.store import Store
from mainspring.ports.store.artifacts import ArtifactAdded, NewArtifact
from mainspring.ports.store.redrives import DeadWindow, NewRedrive

_ERRORS_HIDDEN = (
    "errors are encrypted in the store, so it cannot search in them;"
    " ask by job, queue, reason, time or error_group"
)


class EncryptedStore(EncryptedJobs, EncryptedCheckpoints, EncryptedEvents):
    """The verbs through which what users put in passes; all else is the store's own."""

    def __init__(self, store: Store, cipher: Cipher) -> None:
        self._store = store
        self._fields = Fields(cipher)
        self._tenants = JobTenants(store)
        self._places = {}

    async def list_runs(self, tenant: str, *, error: str | None = None, **wanted: Any) -> list[Run]:
        """See `BrowseStore`.

        Raises:
            InvalidInput: it is to search in errors.
        """
        if error is not None:
            raise InvalidInput("error", _ERRORS_HIDDEN)
        return await super().list_runs(tenant, **wanted)

    async def list_dead(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        """See `DeadStore`. Errors that cannot be decrypted say so."""
        _check(wanted)
        found = await self._store.list_dead(tenant, wanted, before=before, limit=limit)
        return [self._show_dead(dead) for dead in found]

    async def group_dead(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadGroup]:
        """See `DeadStore`. The groups of encrypted errors are marks."""
        _check(wanted)
        return await self._store.group_dead(tenant, wanted, limit=limit)

    async def count_dead(self, tenant: str, wanted: DeadFilter) -> int:
        """See `DeadStore`."""
        _check(wanted)
        return await self._store.count_dead(tenant, wanted)

    async def discard_dead(
        self,
        tenant: str,
        wanted: DeadFilter,
        *,
        reason: str,
        now: datetime,
        limit: int,
        audit: Sequence[AuditEntry] = (),
    ) -> list[RunId]:
        """See `DeadStore`."""
        _check(wanted)
        return await self._store.discard_dead(
            tenant, wanted, reason=reason, now=now, limit=limit, audit=audit
        )

    async def count_dead_versions(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadVersion]:
        """See `RedriveStore`."""
        _check(wanted)
        return await self._store.count_dead_versions(tenant, wanted, limit=limit)

    async def add_redrive(self, new: NewRedrive, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> None:
        """See `RedriveStore`."""
        _check(new.wanted)
        await self._store.add_redrive(new, now=now, audit=audit)

    async def find_dead_to_redrive(
        self, tenant: str, wanted: DeadFilter, *, after: RunId, limit: int
    ) -> DeadWindow:
        """See `RedriveStore`. A redrive from before that searches in errors finds those that are plain."""
        return await self._store.find_dead_to_redrive(tenant, wanted, after=after, limit=limit)

    async def add_artifact(self, new: NewArtifact, *, most: int) -> ArtifactAdded:
        """See `ArtifactIndex`. What is encrypted here must not lie elsewhere in plain text, so results stay here."""
        if new.is_result:
            return ArtifactAdded(ArtifactVerdict.SEALED)
        return await self._store.add_artifact(new, most=most)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if iscoroutinefunction(found):
            self.__dict__[name] = found  # so that it is found without coming here
        return found

    def _show_dead(self, dead: DeadRun) -> DeadRun:
        run = dead.run
        place = Place(run.tenant, run.job_id)
        error = self._fields.show_text(run.error, "error", place, run.id)
        return dead if error is run.error else replace(dead, run=replace(run, error=error))


WRITING = frozenset(
    (
        *("add_jobs", "edit_jobs", "apply_jobs", "submit_runs", "submit_claimed"),
        *("record_fires", "advance_fire_ranges", "advance_backfills", "apply", "start_flows", "turn_flows"),
        "post_mail",
        *("add_run_logs", "keep_checkpoints", "add_events"),
    )
)
"""The verbs that write what users put in."""


def encrypted(store: Store, cipher: Cipher) -> Store:
    """Return what stands for a store, and encrypts what it is given."""
    return cast("Store", EncryptedStore(store, cipher))


def _check(wanted: DeadFilter) -> None:
    if wanted.error is not None:
        raise InvalidInput("error", _ERRORS_HIDDEN)
