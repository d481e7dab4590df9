"""Files that an attempt leaves behind: a worker asks where each goes, puts it there, and confirms."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.ids import ArtifactId, parse_artifact_id
from mainspring.errors import InvalidInput
from mainspring.wire.protocol.leases import RunText, Token
from mainspring.wire.protocol.sessions import SessionText

ArtifactIdText = Annotated[str, Meta(description="An artifact's id.", examples=["art_0000000000021"])]


class ArtifactBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A file that an attempt leaves behind, with what it comes to."""

    session_id: SessionText
    run_id: RunText
    token: Token
    name: Annotated[
        str, Meta(description="Its name, like `report.pdf` or `plots/a.png`. That of a result is ignored.")
    ] = ""
    content_type: Annotated[str, Meta(description="Its media type.", examples=["text/csv"])]
    size: Annotated[int, Meta(ge=0, le=2**53, description="Its bytes.")]
    sha256: Annotated[str, Meta(description="The digest of its bytes, in 64 hexadecimal digits.")]
    is_result: Annotated[
        bool, Meta(description="It is the run's result as JSON, which is too large for the report.")
    ] = False


class ArtifactPlaceView(Struct, kw_only=True):
    """Where the bytes go, by PUT."""

    artifact_id: ArtifactIdText
    url: Annotated[
        str,
        Meta(
            description="An address at a bucket, which is good for 15 minutes; or a path of this server, where the"
            " request needs your access token."
        ),
    ]
    headers: Annotated[dict[str, str], Meta(description="Headers that the request has to have.")]


class ConfirmBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The bytes of a file are where they belong."""

    session_id: SessionText
    artifact_id: ArtifactIdText


def read_artifact_id(text: str, field: str = "artifact_id") -> ArtifactId:
    """Read `art_…`.

    Raises:
        InvalidInput: the text is not an artifact's id. The error names the field.
    """
    try:
        return parse_artifact_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None
