"""How files of an attempt reach the place where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Protocol, runtime_checkable

from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.core.values import value


@value(kw_only=True)
class ArtifactUpload:
    """A file that an attempt leaves behind, with what it comes to.

    Attributes:
        token: the token under which the attempt holds its run.
        size: its bytes.
        sha256, md5: their digests. Buckets check the second one.
        open: opens the file; it may be read more than once.
        is_result: whether it is the run's own result.
    """

    run_id: RunId
    token: int
    name: str
    content_type: str
    size: int
    sha256: bytes
    md5: bytes
    open: Callable[[], BinaryIO]
    is_result: bool = False


@runtime_checkable
class ArtifactGateway(Protocol):
    """A gateway that takes files."""

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Keep a file. Once this returns, the whole file is safe, and shown if the attempt is the run's last.

        Raises:
            Conflict: the lease is lost, the attempt has one of that name, or has too many; or no files are kept here.
            InvalidInput: its name or type is none, or it is too large.
            StoreUnavailable, Unreachable, ObjectsUnavailable: it did not work now.
        """
        ...
