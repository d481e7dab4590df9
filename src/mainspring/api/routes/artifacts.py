"""Files that runs leave behind: listed, shown, fetched; and how workers put them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from mainspring.api.call import Answer, Call, Endpoint, Streamed, handles
from mainspring.api.errors import Rejected
from mainspring.api.reading import path_artifact_id, path_run_id, query_session_id
from mainspring.api.routes.worker import is_own, tenant_of
from mainspring.core.artifacts import Artifact, disposition_of, read_sha256
from mainspring.core.ids import SessionId, format_artifact_id
from mainspring.engine.usecases.artifacts import ArtifactOffer
from mainspring.errors import Conflict
from mainspring.wire import operations, protocol
from mainspring.wire.artifacts import ArtifactPage, ArtifactView, view_artifact
from mainspring.wire.operations.artifacts import content_path
from mainspring.wire.protocol.artifacts import read_artifact_id
from mainspring.wire.protocol.leases import read_run_id

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})", re.ASCII)
_PATIENCE = 60.0
"""Seconds that the next piece of a body may take."""


@handles(operations.LIST_RUN_ARTIFACTS)
async def list_run_artifacts(call: Call) -> ArtifactPage:
    limit: int = call.query["limit"]
    found = await call.engine.artifacts.list_page(
        call.tenant, path_run_id(call.key), after=call.query.get("after"), limit=limit
    )
    following = found[-1].name if len(found) == limit else None
    hides = call.principal.hides_payloads
    return ArtifactPage([view_artifact(one, is_hidden=hides) for one in found], following)


@handles(operations.GET_ARTIFACT)
async def get_artifact(call: Call) -> ArtifactView:
    found = await call.engine.artifacts.get(call.tenant, path_artifact_id(call.key))
    return view_artifact(found, is_hidden=call.principal.hides_payloads)


@handles(operations.GET_ARTIFACT_CONTENT)
async def get_artifact_content(call: Call) -> Answer[Streamed | str]:
    if call.principal.hides_payloads:
        raise Rejected(
            403, "what jobs carry is hidden from this account, and so are the files that runs leave behind"
        )
    artifacts = call.engine.artifacts
    found = await artifacts.get(call.tenant, path_artifact_id(call.key))
    if found.expires_at <= call.engine.now():
        raise _gone(found)
    address = await artifacts.sign(found)
    if address is not None:
        return Answer("", 302, {"location": address, "cache-control": "no-store"})
    if not await artifacts.check_there(found):
        raise _gone(found)
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, no-store",
        "content-disposition": disposition_of(found.name),
        "content-security-policy": "sandbox; default-src 'none'",
        "x-content-type-options": "nosniff",
    }
    bounds = _read_range(call.fields.get("range"), found.size)
    start, stop = bounds or (0, found.size)
    if bounds is not None:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{found.size}"
    content = Streamed(artifacts.read(found, start, stop), stop - start, found.content_type)
    return Answer(content, 200 if bounds is None else 206, headers)


def _gone(found: Artifact) -> Rejected:
    return Rejected(410, f"the file {format_artifact_id(found.id)} is not kept any more")


def _read_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Return which bytes a header asks for; None for all. What is no single range counts as not given, as HTTP has it.

    Raises:
        Rejected: 416, there are no such bytes.
    """
    found = None if text is None else _RANGE.fullmatch(text.strip())
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        start, stop = max(size - int(found[2]), 0), size
    else:
        start = int(found[1])
        stop = min(int(found[2]) + 1, size) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= stop:
        raise Rejected(
            416, f"the file has {size:,} bytes, and not those", headers={"content-range": f"bytes */{size}"}
        )
    return start, stop


@handles(operations.WORKER_ARTIFACT)
async def worker_artifact(call: Call, body: protocol.ArtifactBody) -> protocol.ArtifactPlaceView:
    session_id = protocol.read_session(body.session_id)
    offer = ArtifactOffer(
        run_id=read_run_id(body.run_id),
        token=body.token,
        name=body.name,
        content_type=body.content_type,
        size=body.size,
        sha256=read_sha256(body.sha256),
        is_result=body.is_result,
    )
    await _check_own(call, session_id)
    place = await call.engine.artifacts.begin(session_id, offer, tenant=tenant_of(call))
    artifact_id = format_artifact_id(place.artifact_id)
    if place.address is not None:
        return protocol.ArtifactPlaceView(
            artifact_id=artifact_id, url=place.address, headers=dict(place.headers)
        )
    return protocol.ArtifactPlaceView(
        artifact_id=artifact_id,
        url=content_path(artifact_id, protocol.show_session(session_id)),
        headers={"Content-Type": operations.ANY_TYPE},
    )


@handles(operations.PUT_ARTIFACT_CONTENT)
async def put_artifact_content(call: Call) -> ArtifactView:
    artifact_id = path_artifact_id(call.key)
    session_id = query_session_id(call.query["session_id"], "session_id")
    await _check_own(call, session_id)
    artifacts = call.engine.artifacts
    return view_artifact(
        await artifacts.receive(session_id, artifact_id, _body_of(call), tenant=tenant_of(call))
    )


@handles(operations.WORKER_CONFIRM)
async def worker_confirm(call: Call, body: protocol.ConfirmBody) -> ArtifactView:
    session_id = protocol.read_session(body.session_id)
    artifact_id = read_artifact_id(body.artifact_id)
    await _check_own(call, session_id)
    artifacts = call.engine.artifacts
    return view_artifact(await artifacts.confirm(session_id, artifact_id, tenant=tenant_of(call)))


async def _check_own(call: Call, session_id: SessionId) -> None:
    """Refuse a session that is not the caller's, as one that holds nothing.

    Raises:
        Conflict: it is not.
    """
    if not await is_own(call, session_id):
        raise Conflict("lease", "this session does not hold the run, so its files are not kept")


async def _body_of(call: Call) -> AsyncIterator[bytes]:
    """Yield the pieces of a body as they arrive.

    Raises:
        Rejected: 400, the connection was closed; 408, nothing arrives.
    """
    while True:
        try:
            event = await asyncio.wait_for(call.receive(), _PATIENCE)
        except TimeoutError:
            raise Rejected(408, f"nothing of the body has arrived for {_PATIENCE:.0f} s") from None
        if event["type"] != "http.request":
            raise Rejected(400, "the connection was closed before the whole body arrived")
        if piece := event.get("body", b""):
            yield piece
        if not event.get("more_body", False):
            return


ROUTES: list[Endpoint] = [
    list_run_artifacts,
    get_artifact,
    get_artifact_content,
    put_artifact_content,
    worker_artifact,
    worker_confirm,
]
