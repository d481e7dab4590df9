"""Copies a whole store into a file, and back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from mainspring.core.backups import BackupManifest, Restored, StoreFacts


class Saved(NamedTuple):
    """A copy that was made.

    Attributes:
        tool: what wrote it, with its version.
        taken_at: the instant as of which it is, by the store's clock.
    """

    tool: str
    taken_at: datetime
    facts: StoreFacts


class BackupStore(Protocol):
    """A store that can be copied as a whole, without being opened as `Store`."""

    @property
    def kind(self) -> str:
        """Which stores can take its copies: `sqlite` or `postgresql`."""
        ...

    async def save(self, file: Path) -> Saved:
        """Write a copy as of one instant into a file, which is there and empty. Writers go on meanwhile.

        Raises:
            StoreUnavailable: the store does not answer, or the tool that copies it failed.
            InvalidInput: there is no such store, or the tool is missing or too old.
        """
        ...

    async def restore(self, file: Path, manifest: BackupManifest, *, now: datetime) -> Restored:
        """Fill an empty store from a file, and see to it that nobody of before is taken for somebody of now.

        Epochs, revisions and the ids that are given next are raised (`core.backups.step_over`), nodes are forgotten,
        and workers' sessions have ended. The runs that were under way belong to ended sessions that no worker has ever
        had. An older schema is brought up to date.

        Raises:
            Conflict: the store is not empty.
            SchemaMismatch: the file's schema is newer, and does not fit this program.
            StoreUnavailable: the store does not answer, or the tool that fills it failed.
            InvalidInput: the tool is missing or too old, or the file is damaged.
        """
        ...
