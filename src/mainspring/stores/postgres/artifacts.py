"""The index of artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.artifacts import Artifact, ArtifactVerdict
from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.ports.store.artifacts import ArtifactAdded, NewArtifact
from mainspring.stores._sql.artifacts import refusal_of
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresArtifactStore:
    """`ArtifactIndex` on PostgreSQL."""

    _connections: Connections

    async def add_artifact(self, new: NewArtifact, *, most: int) -> ArtifactAdded:
        async def work(transaction: Transaction) -> ArtifactAdded:
            added = await transaction.fetch(
                "add_artifact",
                tenant=new.tenant,
                run_id=new.run_id,
                token=new.token,
                session_id=new.session_id,
                name=new.name,
                location=new.location,
                content_type=new.content_type,
                size=new.size,
                digest=new.sha256,
                now=new.created_at,
                expiry_at=new.expires_at,
                most=most,
            )
            if added:
                return ArtifactAdded(ArtifactVerdict.ADDED, ArtifactId(added[0]["id"]))
            [why] = await transaction.fetch(
                "explain_artifact",
                run_id=new.run_id,
                token=new.token,
                session_id=new.session_id,
                name=new.name,
            )
            return ArtifactAdded(refusal_of(is_held=why["is_held"], is_taken=why["is_taken"]))

        return await self._connections.transact(Role.EDIT, work)

    async def finish_artifact(
        self, artifact_id: ArtifactId, *, session_id: SessionId, now: datetime, expires_at: datetime
    ) -> bool:
        async def work(transaction: Transaction) -> bool:
            if await transaction.fetch(
                "finish_artifact",
                artifact_id=artifact_id,
                session_id=session_id,
                now=now,
                expiry_at=expires_at,
            ):
                return True
            found = await transaction.fetch("get_artifact", artifact_id=artifact_id)
            return bool(found) and bool(found[0]["is_ready"])

        return await self._connections.transact(Role.EDIT, work)

    async def get_artifact(self, artifact_id: ArtifactId) -> Artifact | None:
        rows = await self._connections.fetch(
            Role.READ, "get_artifact", is_repeatable=True, artifact_id=artifact_id
        )
        return _artifact_of(rows[0]) if rows else None

    async def list_artifacts(
        self, run_id: RunId, token: int, *, after: str | None = None, limit: int = 100
    ) -> list[Artifact]:
        rows = await self._connections.fetch(
            Role.READ,
            "list_artifacts",
            is_repeatable=True,
            run_id=run_id,
            token=token,
            after=after or "",
            limit=limit,
        )
        return list(map(_artifact_of, rows))

    async def list_expired_artifacts(self, *, before: datetime, limit: int) -> list[Artifact]:
        rows = await self._connections.fetch(
            Role.UPKEEP, "list_expired_artifacts", is_repeatable=True, before=before, limit=limit
        )
        return list(map(_artifact_of, rows))

    async def delete_artifacts(self, artifact_ids: Sequence[ArtifactId]) -> int:
        if not artifact_ids:
            return 0
        rows = await self._connections.fetch(
            Role.UPKEEP, "delete_artifacts", is_repeatable=True, artifact_ids=sorted(artifact_ids)
        )
        return len(rows)


def _artifact_of(row: Record) -> Artifact:
    return Artifact(
        id=ArtifactId(row["id"]),
        tenant=row["tenant"],
        run_id=RunId(row["run_id"]),
        token=row["token"],
        name=row["name"],
        location=row["location"],
        content_type=row["content_type"],
        size=row["size"],
        sha256=bytes(row["sha256"]),
        is_ready=row["is_ready"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
