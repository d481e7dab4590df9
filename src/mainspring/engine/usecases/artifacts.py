"""Use cases on artifacts: files that runs leave behind."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

import structlog

from mainspring.core.artifacts import (
    MOST_ARTIFACTS,
    RESULT_NAME,
    UPLOAD_TIME,
    Artifact,
    ArtifactVerdict,
    check_artifact_name,
    check_content_type,
    check_size,
    disposition_of,
    locate,
)
from mainspring.core.fencing import is_held
from mainspring.core.ids import ArtifactId, RunId, SessionId, format_artifact_id, format_run_id
from mainspring.core.values import value
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.objects import ObjectMissing, ObjectStreams, ObjectsUnavailable
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.artifacts import NewArtifact

_log = structlog.get_logger(__name__)
KEEP = timedelta(days=30)
LIMIT = 5 * 10**9
DIRECT_LIMIT = 1 << 30
"""What is larger goes through the server, which puts it into a bucket in parts."""
SIGNED_GET = timedelta(minutes=5)
_SIGNED_PUT = timedelta(minutes=15)
_MARGIN = timedelta(minutes=1)
"""How long after its time an artifact goes: clocks of servers differ by less."""
SWEEP = 100
_AT_ONCE = 8
_SWEEP_SECONDS = 30.0
"""How long one sweep may take: other upkeep waits for it."""
_PIECE = 1 << 20
_OFF = "is not set, so files of runs cannot be kept; set it to a folder or a bucket on all servers"
_LOST = "the attempt does not hold this run any more, so its files are not kept"


@value(kw_only=True)
class ArtifactOffer:
    """What a worker wants to put.

    Attributes:
        token: the token under which it holds the run.
    """

    run_id: RunId
    token: int
    name: str
    content_type: str
    size: int
    sha256: bytes
    is_result: bool = False


@value()
class ArtifactPlace:
    """Where the bytes of an artifact go.

    Attributes:
        address: a signed one; None if they go through the server.
        headers: those that a request there has to have.
    """

    artifact_id: ArtifactId
    address: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Artifacts:
    """Takes files from workers, shows them, and removes them when their time is over.

    Args:
        files: where their bytes lie; None keeps none.
        keep: how long they are kept.
        limit: the most bytes of one.
    """

    def __init__(
        self,
        store: Store,
        files: ObjectStreams | None = None,
        *,
        clock: Clock,
        keep: timedelta = KEEP,
        limit: int = LIMIT,
    ) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self._keep = keep
        self._limit = limit

    @property
    def is_on(self) -> bool:
        """Whether this process can reach the place for files."""
        return self._files is not None

    async def list_page(
        self, tenant: str, run_id: RunId, *, after: str | None = None, limit: int = 100
    ) -> list[Artifact]:
        """Return a page of what a run has left behind, by name: that of its last attempt.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        (run,) = await self._store.get_runs([run_id])
        if run is None or run.tenant != tenant:
            raise NotFound("run", format_run_id(run_id))
        return await self._store.list_artifacts(run_id, run.token, after=after, limit=limit)

    async def get(self, tenant: str, artifact_id: ArtifactId) -> Artifact:
        """Return an artifact that is shown: it is ready, and of the last attempt of a run that is on record.

        Raises:
            NotFound: this tenant has no such artifact.
        """
        found = await self._store.get_artifact(artifact_id)
        if found is not None and found.is_ready and found.tenant == tenant:
            (run,) = await self._store.get_runs([found.run_id])
            if run is not None and run.token == found.token:
                return found
        raise NotFound("artifact", format_artifact_id(artifact_id))

    async def sign(self, artifact: Artifact) -> str | None:
        """Return an address at which an artifact may be fetched for a while; None if the server has to send it."""
        return await self._reach().sign_get(artifact.location, SIGNED_GET)

    async def check_there(self, artifact: Artifact) -> bool:
        """Say whether the bytes of an artifact are where they belong."""
        try:
            return (await self._reach().measure(artifact.location)).size == artifact.size
        except ObjectMissing:
            return False

    def read(self, artifact: Artifact, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an artifact from `start` up to before `stop`."""
        return self._reach().read(artifact.location, start, stop)

    async def begin(
        self,
        session_id: SessionId,
        offer: ArtifactOffer,
        *,
        tenant: str | None = None,
        is_direct: bool = True,
    ) -> ArtifactPlace:
        """Say where the bytes of an artifact go. It is not shown before `confirm` or `receive`.

        Args:
            tenant: the only one whose runs exist for the session; None means all.
            is_direct: the caller may put them into a bucket itself.

        Raises:
            InvalidInput: its name or type is none, or it is too large.
            Conflict: the lease is lost, the attempt has one of that name or too many, or no files are kept here.
        """
        files = self._reach()
        name = RESULT_NAME if offer.is_result else check_artifact_name(offer.name)
        content_type = check_content_type(offer.content_type)
        check_size(offer.size, limit=self._limit)
        (run,) = await self._store.get_runs([offer.run_id])
        if run is None or (tenant is not None and run.tenant != tenant):
            raise Conflict("lease", _LOST)
        now = self._clock.now()
        new = NewArtifact(
            tenant=run.tenant,
            run_id=offer.run_id,
            token=offer.token,
            session_id=session_id,
            name=name,
            location=locate(run.tenant, offer.run_id, offer.token, name),
            content_type=content_type,
            size=offer.size,
            sha256=offer.sha256,
            is_result=offer.is_result,
            created_at=now,
            expires_at=now + UPLOAD_TIME,
        )
        added = await self._store.add_artifact(new, most=MOST_ARTIFACTS)
        if added.artifact_id is None:
            raise _refusal(added.verdict, name)
        if is_direct and offer.size <= DIRECT_LIMIT:
            signed = await files.sign_put(
                new.location, _SIGNED_PUT, content_type=content_type, disposition=disposition_of(name)
            )
            if signed is not None:
                return ArtifactPlace(added.artifact_id, signed.url, signed.headers)
        return ArtifactPlace(added.artifact_id)

    async def receive(
        self,
        session_id: SessionId,
        artifact_id: ArtifactId,
        content: AsyncIterator[bytes],
        *,
        tenant: str | None = None,
    ) -> Artifact:
        """Take the bytes of an artifact, check them, and show it.

        Raises:
            InvalidInput: they are not what was announced. Nothing is kept of them.
            Conflict: the lease is lost, or the bytes are there already.
            NotFound: there is no such artifact.
        """
        files, found = self._reach(), await self._find(artifact_id, tenant)
        if found.is_ready:
            raise Conflict("artifact", "its bytes are there already")
        (run,) = await self._store.get_runs([found.run_id])
        if run is None or not is_held(run, found.token, session_id):
            raise Conflict("lease", _LOST)
        await files.write(
            found.location,
            _checked(content, found),
            content_type=found.content_type,
            disposition=disposition_of(found.name),
        )
        return await self._finish(session_id, found)

    async def confirm(
        self, session_id: SessionId, artifact_id: ArtifactId, *, tenant: str | None = None
    ) -> Artifact:
        """Show an artifact whose bytes were put where `begin` said.

        Raises:
            InvalidInput: what is there is not what was announced.
            Conflict: the lease is lost, or the bytes have not arrived.
            NotFound: there is no such artifact.
        """
        files, found = self._reach(), await self._find(artifact_id, tenant)
        if found.is_ready:
            return found
        try:
            facts = await files.measure(found.location)
        except ObjectMissing:
            raise Conflict("artifact", "its bytes have not arrived; put them first") from None
        if facts.size != found.size:
            raise InvalidInput("size", f"{found.size:,} bytes were announced, and {facts.size:,} are there")
        if facts.disposition is None or not facts.disposition.startswith("attachment"):
            raise InvalidInput(
                "Content-Disposition", "is not the one that was told; put the bytes with all headers"
            )
        return await self._finish(session_id, found)

    async def put(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Keep a file of an attempt in this process; see `ArtifactGateway`."""
        offer = ArtifactOffer(
            run_id=upload.run_id,
            token=upload.token,
            name=upload.name,
            content_type=upload.content_type,
            size=upload.size,
            sha256=upload.sha256,
            is_result=upload.is_result,
        )
        place = await self.begin(session_id, offer, is_direct=False)
        try:
            await self.receive(session_id, place.artifact_id, _pieces(upload))
        except ObjectsUnavailable as error:
            # Whoever wrote the job is told, and may never have seen the setting.
            raise ObjectsUnavailable(f"artifacts.url: {error}") from None
        return place.artifact_id

    async def sweep(self, *, now: datetime) -> int:
        """Remove a batch of artifacts whose time is over, and of uploads that were not finished. Return how many.

        What cannot be removed now stays in the index, and is tried again.
        """
        if self._files is None:
            return 0
        due = await self._store.list_expired_artifacts(before=now - _MARGIN, limit=SWEEP)
        gone: list[ArtifactId] = []
        try:
            async with asyncio.timeout(_SWEEP_SECONDS):
                for start in range(0, len(due), _AT_ONCE):
                    part = due[start : start + _AT_ONCE]
                    await asyncio.gather(*(self._files.delete(one.location) for one in part))
                    gone += [one.id for one in part]
        except (ObjectsUnavailable, TimeoutError) as error:
            _log.warning("artifacts_not_removed", error=str(error) or "no answer")
        return await self._store.delete_artifacts(gone)

    async def _find(self, artifact_id: ArtifactId, tenant: str | None) -> Artifact:
        found = await self._store.get_artifact(artifact_id)
        if found is None or (tenant is not None and found.tenant != tenant):
            raise NotFound("artifact", format_artifact_id(artifact_id))
        return found

    async def _finish(self, session_id: SessionId, found: Artifact) -> Artifact:
        now = self._clock.now()
        is_ready = await self._store.finish_artifact(
            found.id, session_id=session_id, now=now, expires_at=now + self._keep
        )
        ready = await self._store.get_artifact(found.id) if is_ready else None
        if ready is None:
            raise Conflict("lease", _LOST)
        return ready

    def _reach(self) -> ObjectStreams:
        if self._files is None:
            raise Conflict("artifacts.url", _OFF)
        return self._files


def _refusal(verdict: ArtifactVerdict, name: str) -> Conflict:
    if verdict is ArtifactVerdict.TAKEN:
        return Conflict("name", f"this attempt has an artifact named {name!r} already; give it another name")
    if verdict is ArtifactVerdict.FULL:
        return Conflict(
            "name", f"an attempt may leave {MOST_ARTIFACTS:,} files behind, and this one has them; pack them"
        )
    if verdict is ArtifactVerdict.SEALED:
        return Conflict("result", "results of this store are encrypted, so none is kept as a file")
    return Conflict("lease", _LOST)


async def _checked(content: AsyncIterator[bytes], expected: Artifact) -> AsyncIterator[bytes]:
    """Yield what arrives in pieces of some size, and refuse it in the end if it is not what was announced."""
    digest, size = hashlib.sha256(), 0
    waiting = bytearray()
    async for chunk in content:
        size += len(chunk)
        if size > expected.size:
            raise InvalidInput("body", f"has more than the {expected.size:,} bytes that were announced")
        waiting += chunk
        if len(waiting) >= _PIECE:
            piece = bytes(waiting)
            waiting.clear()
            await asyncio.to_thread(digest.update, piece)
            yield piece
    digest.update(waiting)
    if size < expected.size:
        raise InvalidInput("body", f"has {size:,} bytes, and {expected.size:,} were announced")
    if digest.digest() != expected.sha256:
        raise InvalidInput("sha256", f"the body comes to {digest.hexdigest()}, and another one was announced")
    if waiting:
        yield bytes(waiting)


async def _pieces(upload: ArtifactUpload) -> AsyncIterator[bytes]:
    """Yield the pieces of a file."""
    file = await asyncio.to_thread(upload.open)
    try:
        while chunk := await asyncio.to_thread(file.read, _PIECE):
            yield chunk
    finally:
        file.close()
