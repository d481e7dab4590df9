"""The index of artifacts, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.artifacts import Artifact, ArtifactVerdict
from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.ports.store.artifacts import ArtifactAdded, NewArtifact
from mainspring.stores._sql.artifacts import refusal_of
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import NamedRow, to_instant, to_micros
from mainspring.stores.sqlite.statements import fetch_row, fetch_rows, fetch_value


class SqliteArtifactStore:
    """Implements `ArtifactIndex`."""

    _reader: Database
    _writer: Database

    async def add_artifact(self, new: NewArtifact, *, most: int) -> ArtifactAdded:
        """See `ArtifactIndex`."""
        key = {
            "run_id": new.run_id,
            "token": new.token,
            "session_id": new.session_id,
            "name": new.name,
        }
        values = {
            **key,
            "tenant": new.tenant,
            "location": new.location,
            "content_type": new.content_type,
            "size": new.size,
            "digest": new.sha256,
            "now": to_micros(new.created_at),
            "expiry_at": to_micros(new.expires_at),
            "most": most,
        }

        def work(db: apsw.Connection) -> ArtifactAdded:
            added = fetch_value(db, "add_artifact", values)
            if added is not None:
                return ArtifactAdded(ArtifactVerdict.ADDED, ArtifactId(added))
            why = fetch_row(db, "explain_artifact", key)
            assert why is not None, "it has one row"
            return ArtifactAdded(refusal_of(is_held=bool(why.is_held), is_taken=bool(why.is_taken)))

        return await self._writer.call(work)

    async def finish_artifact(
        self, artifact_id: ArtifactId, *, session_id: SessionId, now: datetime, expires_at: datetime
    ) -> bool:
        """See `ArtifactIndex`."""
        values = {
            "artifact_id": artifact_id,
            "session_id": session_id,
            "now": to_micros(now),
            "expiry_at": to_micros(expires_at),
        }

        def work(db: apsw.Connection) -> bool:
            if fetch_value(db, "finish_artifact", values) is not None:
                return True
            found = fetch_row(db, "get_artifact", {"artifact_id": artifact_id})
            return found is not None and bool(found.is_ready)

        return await self._writer.call(work)

    async def get_artifact(self, artifact_id: ArtifactId) -> Artifact | None:
        """See `ArtifactIndex`."""
        values = {"artifact_id": artifact_id}
        row = await self._reader.call(lambda db: fetch_row(db, "get_artifact", values))
        return None if row is None else _artifact_of(row)

    async def list_artifacts(
        self, run_id: RunId, token: int, *, after: str | None = None, limit: int = 100
    ) -> list[Artifact]:
        """See `ArtifactIndex`."""
        values = {"run_id": run_id, "token": token, "after": after or "", "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_artifacts", values))
        return list(map(_artifact_of, rows))

    async def list_expired_artifacts(self, *, before: datetime, limit: int) -> list[Artifact]:
        """See `ArtifactIndex`."""
        values = {"before": to_micros(before), "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_expired_artifacts", values))
        return list(map(_artifact_of, rows))

    async def delete_artifacts(self, artifact_ids: Sequence[ArtifactId]) -> int:
        """See `ArtifactIndex`."""
        if not artifact_ids:
            return 0
        values = {"artifact_ids": json.dumps(artifact_ids)}
        return await self._writer.call(lambda db: len(fetch_rows(db, "delete_artifacts", values)))


def _artifact_of(row: NamedRow) -> Artifact:
    return Artifact(
        id=ArtifactId(row.id),
        tenant=row.tenant,
        run_id=RunId(row.run_id),
        token=row.token,
        name=row.name,
        location=row.location,
        content_type=row.content_type,
        size=row.size,
        sha256=row.sha256,
        is_ready=bool(row.is_ready),
        created_at=to_instant(row.created_at),
        expires_at=to_instant(row.expires_at),
    )
