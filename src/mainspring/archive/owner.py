"""Reads whose archive a place is."""

from __future__ import annotations

import msgspec

from mainspring.archive.tasks import INSTALLATION, InstallationNote
from mainspring.objects import ObjectMissing, Objects, ObjectsUnavailable


def read_owner(objects: Objects) -> str | None:
    """Return which installation an archive belongs to; None if no one has used it yet.

    Raises:
        ObjectsUnavailable: the archive cannot be reached, or what says so is damaged.
    """
    try:
        return msgspec.json.decode(objects.read(INSTALLATION), type=InstallationNote).installation
    except ObjectMissing:
        return None
    except msgspec.MsgspecError as error:
        raise ObjectsUnavailable(f"{INSTALLATION} is damaged: {error}") from None


def tell_owner(found: str | None, mine: str) -> str:
    """Return why an archive is refused that is not this installation's."""
    return (
        f"{INSTALLATION} says that the archive is of the installation {found or 'none'}, and this is {mine}:"
        " give each installation a folder or prefix of its own; if this one takes the archive over, remove that file"
    )
