"""What attempts write while they run: encrypted as it is kept, decrypted as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.ids import RunId
from mainspring.core.run_logs import LogPart
from mainspring.encryption.fields import Place
from mainspring.encryption.flows import EncryptedFlows
from mainspring.errors import CannotDecrypt
from mainspring.ports.store.run_logs import KeptProgress, LogEntry, LogPlace


class EncryptedRunLogs(EncryptedFlows):
    """Output of attempts, and the messages beside their progress. Places, sizes and numbers stay plain."""

    async def add_run_logs(self, entries: Sequence[LogEntry], *, now: datetime) -> list[bool]:
        """See `RunLogStore`."""
        places = await self._find_places([entry.run_id for entry in entries])
        encrypted = [self._encrypt_entry(entry, places.get(entry.run_id)) for entry in entries]
        return await self._store.add_run_logs(encrypted, now=now)

    def _encrypt_entry(self, entry: LogEntry, place: Place | None) -> LogEntry:
        if place is None:  # there is no such run, and nothing of it may be written as it is
            return replace(entry, parts=(), progress=None)
        fields, run_id = self._fields, entry.run_id
        parts = [
            replace(part, data=fields.encrypt_log(part.data, place, run_id, entry.token, part.start))
            for part in entry.parts
        ]
        progress = entry.progress
        if progress is not None:
            progress = replace(progress, message=fields.encrypt_message(progress.message, place, run_id))
        return replace(entry, parts=tuple(parts), progress=progress)

    async def list_log_parts(self, places: Sequence[LogPlace], *, limit: int) -> list[list[LogPart]]:
        """See `RunLogStore`. A part that cannot be decrypted is empty."""
        found = await self._store.list_log_parts(places, limit=limit)
        owners = await self._find_places(
            [place.run_id for place, parts in zip(places, found, strict=True) if parts]
        )
        return [
            [self._decrypt_part(part, place, owners.get(place.run_id)) for part in parts]
            for place, parts in zip(places, found, strict=True)
        ]

    def _decrypt_part(self, part: LogPart, place: LogPlace, owner: Place | None) -> LogPart:
        if owner is None:
            return replace(part, data=b"")
        try:
            data = self._fields.decrypt_log(part.data, owner, place.run_id, place.token, part.start)
        except CannotDecrypt:
            data = b""
        return part if data is part.data else replace(part, data=data)

    async def get_progress(self, run_ids: Sequence[RunId]) -> list[KeptProgress | None]:
        """See `RunLogStore`. A message that cannot be decrypted says so."""
        found = await self._store.get_progress(run_ids)
        told = [run_id for run_id, one in zip(run_ids, found, strict=True) if one is not None]
        owners = await self._find_places(told)
        return [
            None if one is None else self._show_progress(one, run_id, owners.get(run_id))
            for run_id, one in zip(run_ids, found, strict=True)
        ]

    def _show_progress(self, told: KeptProgress, run_id: RunId, owner: Place | None) -> KeptProgress:
        if told.progress.message is None:
            return told
        message = None
        if owner is not None:
            message = self._fields.show_text(told.progress.message, "progress", owner, run_id)
        return replace(told, progress=replace(told.progress, message=message))
