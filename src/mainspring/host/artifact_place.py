"""Looks whether files of runs can be kept from here."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mainspring.errors import InvalidInput, MissingExtra

_PROBE = "mainspring-doctor"
_NAME = "artifacts.url"


async def reach_artifacts(url: str) -> str | None:
    """Return why files cannot be kept at an address; None if they can. A small file is written, and deleted."""
    from mainspring.config.artifact_settings import read_artifact_place
    from mainspring.objects import ObjectsUnavailable, open_streams

    try:
        files = open_streams(read_artifact_place(url), feature=_NAME, extra="objects")
        await files.write(_PROBE, _nothing(), content_type="text/plain", disposition="attachment")
        await files.measure(_PROBE)
        await files.delete(_PROBE)
    except (InvalidInput, MissingExtra, ObjectsUnavailable) as error:
        return str(error)
    return None


async def _nothing() -> AsyncIterator[bytes]:
    yield b"This file may be deleted.\n"
