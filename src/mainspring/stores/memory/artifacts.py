"""The index of artifacts, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

from mainspring.core.artifacts import Artifact, ArtifactVerdict
from mainspring.core.fencing import is_held
from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.ports.store.artifacts import ArtifactAdded, NewArtifact
from mainspring.stores.memory.tables import Tables

_Key = tuple[RunId, int, str]


@dataclass(slots=True)
class ArtifactTables:
    """Artifacts by id, and the ids by run, token and name."""

    artifacts: dict[ArtifactId, Artifact] = field(default_factory=dict)
    names: dict[_Key, ArtifactId] = field(default_factory=dict)
    sequence: count[int] = field(default_factory=lambda: count(1))


class MemoryArtifactStore:
    """`ArtifactIndex` in memory."""

    _tables: Tables
    _artifacts: ArtifactTables

    def _is_leased(self, run_id: RunId, token: int, session_id: SessionId) -> bool:
        run = self._tables.runs.get(run_id)
        return run is not None and is_held(run, token, session_id)

    async def add_artifact(self, new: NewArtifact, *, most: int) -> ArtifactAdded:
        if not self._is_leased(new.run_id, new.token, new.session_id):
            return ArtifactAdded(ArtifactVerdict.STALE)
        tables, key = self._artifacts, (new.run_id, new.token, new.name)
        old = tables.artifacts.get(tables.names[key]) if key in tables.names else None
        if old is not None and old.is_ready:
            return ArtifactAdded(ArtifactVerdict.TAKEN)
        others = [name for name in tables.names if name[:2] == key[:2] and name != key]
        if len(others) >= most:
            return ArtifactAdded(ArtifactVerdict.FULL)
        artifact_id = ArtifactId(next(tables.sequence)) if old is None else old.id
        tables.names[key] = artifact_id
        tables.artifacts[artifact_id] = Artifact(
            id=artifact_id,
            tenant=new.tenant,
            run_id=new.run_id,
            token=new.token,
            name=new.name,
            location=new.location,
            content_type=new.content_type,
            size=new.size,
            sha256=new.sha256,
            is_ready=False,
            created_at=new.created_at if old is None else old.created_at,
            expires_at=new.expires_at,
        )
        return ArtifactAdded(ArtifactVerdict.ADDED, artifact_id)

    async def finish_artifact(
        self, artifact_id: ArtifactId, *, session_id: SessionId, now: datetime, expires_at: datetime
    ) -> bool:
        found = self._artifacts.artifacts.get(artifact_id)
        if found is None or found.is_ready:
            return found is not None
        if found.expires_at <= now or not self._is_leased(found.run_id, found.token, session_id):
            return False
        self._artifacts.artifacts[artifact_id] = replace(found, is_ready=True, expires_at=expires_at)
        return True

    async def get_artifact(self, artifact_id: ArtifactId) -> Artifact | None:
        return self._artifacts.artifacts.get(artifact_id)

    async def list_artifacts(
        self, run_id: RunId, token: int, *, after: str | None = None, limit: int = 100
    ) -> list[Artifact]:
        found = [
            one
            for one in self._artifacts.artifacts.values()
            if (one.run_id, one.token) == (run_id, token) and one.is_ready and one.name > (after or "")
        ]
        return sorted(found, key=lambda one: one.name)[:limit]

    async def list_expired_artifacts(self, *, before: datetime, limit: int) -> list[Artifact]:
        found = [one for one in self._artifacts.artifacts.values() if one.expires_at < before]
        return sorted(found, key=lambda one: one.expires_at)[:limit]

    async def delete_artifacts(self, artifact_ids: Sequence[ArtifactId]) -> int:
        gone = [self._artifacts.artifacts.pop(one, None) for one in artifact_ids]
        for artifact in gone:
            if artifact is not None:
                del self._artifacts.names[artifact.run_id, artifact.token, artifact.name]
        return sum(artifact is not None for artifact in gone)
