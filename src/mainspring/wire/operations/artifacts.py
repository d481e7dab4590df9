"""Operations on files that runs leave behind."""

from __future__ import annotations

from typing import Any

from mainspring.core.rights import Right
from mainspring.wire import protocol
from mainspring.wire.artifacts import ArtifactPage, ArtifactView
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

_ARTIFACT = f"{API}/artifacts/{{artifact_id}}"
_WORKER = f"{API}/worker/artifacts"
ANY_TYPE = "application/octet-stream"

LIST_RUN_ARTIFACTS = Operation(
    id="list_run_artifacts",
    method="GET",
    path=f"{API}/runs/{{run_id}}/artifacts",
    right=Right.READ,
    summary="List the files of a run",
    description="Return a page of the files that the run's last attempt has left behind, by name.",
    query=(LIMIT, Parameter("after", "Only names after this one: the `next` of the previous page.")),
    answer=ArtifactPage,
)
GET_ARTIFACT = Operation(
    id="get_artifact",
    method="GET",
    path=_ARTIFACT,
    right=Right.READ,
    summary="Show a file of a run",
    description="Say what a file is that a run has left behind.",
    answer=ArtifactView,
)
# Its answer is sent piece by piece, as `Streamed`.
GET_ARTIFACT_CONTENT: Operation[Any] = Operation(
    id="get_artifact_content",
    method="GET",
    path=f"{_ARTIFACT}/content",
    right=Right.READ,
    summary="Fetch a file of a run",
    description="Send the file (200, or 206 for a `Range`), or the address at a bucket where it can be fetched for"
    " five minutes (302). 410 says that its time is over.",
    headers=(Parameter("Range", "One range of bytes, like `bytes=0-1023`. It has no effect on 302."),),
    answer=str,
    statuses=(200, 206, 302),
    media_type=ANY_TYPE,
)
PUT_ARTIFACT_CONTENT = Operation(
    id="put_artifact_content",
    method="PUT",
    path=f"{_ARTIFACT}/content",
    right=Right.WORK,
    summary="Put the bytes of a file",
    description="Take the bytes of a file where the server said to put them here, and check them. 409: the lease is"
    " lost, or they are there already.",
    body=Body(str, bytes, media_types=(ANY_TYPE,), is_streamed=True),
    query=(Parameter("session_id", "The session that holds the run.", is_required=True),),
    answer=ArtifactView,
    is_conflicting=True,
)


def content_path(artifact_id: str, session: str) -> str:
    """Return where a worker puts the bytes of a file at this server."""
    return f"{PUT_ARTIFACT_CONTENT.url(artifact_id)}?session_id={session}"


WORKER_ARTIFACT = Operation(
    id="worker_artifact",
    method="POST",
    path=_WORKER,
    right=Right.WORK,
    summary="Ask where a file goes",
    description="Say where to put a file of an attempt. Repeated with the same name, it stands for the same file, as"
    " long as that is not confirmed. 409: the lease is lost, or no files are kept.",
    body=Body(protocol.ArtifactBody, protocol.ArtifactBody),
    answer=protocol.ArtifactPlaceView,
    statuses=(201,),
    is_conflicting=True,
)
WORKER_CONFIRM = Operation(
    id="worker_confirm",
    method="POST",
    path=f"{_WORKER}/confirm",
    right=Right.WORK,
    summary="Confirm that a file is there",
    description="Have a file shown whose bytes were put. It may be repeated. 409: the lease is lost, or the bytes have"
    " not arrived.",
    body=Body(protocol.ConfirmBody, protocol.ConfirmBody),
    answer=ArtifactView,
    is_conflicting=True,
)
