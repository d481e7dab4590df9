"""What importers of Python objects have in common: they write an app of what they found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainspring.cli.imports import exit_code, show_import
from mainspring.core.values import value
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.importers.found import Imported

_FIELD = "write"


@value()
class Code:
    """What a written module says beside its jobs.

    Attributes:
        source: what was imported, in words.
        owner: the name of its app.
        setup: lines that come before the first job.
    """

    source: str
    owner: str
    setup: Sequence[str] = ()


def check_target(file: str | None) -> None:
    """Refuse a file that cannot be imported, or that is there: it may have been edited.

    Raises:
        InvalidInput: the file is not one to write.
    """
    if file is None:
        return
    path = Path(file)
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise InvalidInput(_FIELD, f"{file} cannot be imported; give a name like jobs.py")
    if path.exists():
        raise InvalidInput(
            _FIELD, f"{file} exists, and you may have edited it; give another name, or remove it"
        )


def show_code(
    found: Imported, now: datetime, code: Code, *, write: str | None, skips: bool, as_json: bool
) -> int:
    """Show what was found, and write it if that is asked for. Return the exit code."""
    is_written = write is not None and bool(found.entries) and (skips or not found.problems)
    if write is not None and is_written:
        _write(write, found, code)
    then = "" if is_written else "Write it with --write jobs.py"
    show_import(found, now, as_json=as_json, skips=skips, then=then)
    if write is not None and is_written:
        words = (
            f"wrote {len(found.entries)} jobs to {write}; to run them: mainspring up {Path(write).stem}:app"
        )
        click.echo(words, err=True)
    return exit_code(found, skips=skips)


def _write(file: str, found: Imported, code: Code) -> None:
    from mainspring.importers.app_text import write_app

    text = write_app(found.entries, source=code.source, owner=code.owner, setup=code.setup)
    try:
        with Path(file).open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise InvalidInput(_FIELD, f"{file}: {error.strerror}") from None
