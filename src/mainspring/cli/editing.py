"""Lets the user edit a text in an editor."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from mainspring.errors import InvalidInput

_REMEDY = "set VISUAL or EDITOR to the command of your editor"


def edit_text(text: bytes, *, ending: str) -> bytes | None:
    """Open a text in the user's editor, and return what was saved; None if nothing was.

    Args:
        ending: of the file's name, like `.toml`.

    Raises:
        InvalidInput: there is no such editor, it has failed, or it has removed the file.
    """
    try:
        return click.edit(text, extension=ending)
    except click.ClickException as error:
        raise InvalidInput("EDITOR", f"{error.message}; nothing was stored, {_REMEDY}") from None
    except FileNotFoundError:
        raise InvalidInput("EDITOR", "has removed the file that it was given; nothing was stored") from None
    except ValueError as error:  # of shlex
        raise InvalidInput("EDITOR", f"cannot be split into words: {error}; {_REMEDY}") from None


def read_edited(data: bytes) -> str:
    """Return what an editor has saved as text.

    Raises:
        InvalidInput: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; save it in UTF-8"
        raise InvalidInput("file", message) from None


def keep_edited(data: bytes, name: str) -> Path:
    """Keep what an editor has saved where the user finds it, and return where."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-"))
    path = folder / name
    path.write_bytes(data)
    return path
