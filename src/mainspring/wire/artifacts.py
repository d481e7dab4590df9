"""Artifacts, as the HTTP API shows them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.artifacts import RESULT_NAME, Artifact
from mainspring.core.ids import format_artifact_id, format_run_id
from mainspring.wire.protocol.artifacts import ArtifactIdText
from mainspring.wire.views import Instant, RunIdText


class ArtifactView(Struct, kw_only=True):
    """A file that a run has left behind."""

    artifact_id: ArtifactIdText
    run_id: RunIdText
    name: Annotated[str | None, Meta(description="Its name; null if it is hidden from you.")]
    content_type: str
    size: Annotated[int, Meta(description="Its bytes.")]
    sha256: Annotated[
        str | None, Meta(description="The digest of its bytes, in hexadecimal digits; null if it is hidden.")
    ]
    is_result: Annotated[bool, Meta(description="It is the run's result, which is too large for the run.")]
    created_at: Instant
    expires_at: Annotated[Instant, Meta(description="From when on it is removed.")]


class ArtifactPage(Struct):
    """A page of the files of a run, by name; `next` is the value of `after` for the page that follows."""

    items: list[ArtifactView]
    next: str | None


def view_artifact(artifact: Artifact, *, is_hidden: bool = False) -> ArtifactView:
    """Show an artifact.

    Args:
        is_hidden: the reader is not to see what jobs carry.
    """
    return ArtifactView(
        artifact_id=format_artifact_id(artifact.id),
        run_id=format_run_id(artifact.run_id),
        name=None if is_hidden else artifact.name,
        content_type=artifact.content_type,
        size=artifact.size,
        sha256=None if is_hidden else artifact.sha256.hex(),
        is_result=artifact.name == RESULT_NAME,
        created_at=artifact.created_at,
        expires_at=artifact.expires_at,
    )
