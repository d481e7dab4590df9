"""`mainspring artifact`: shows and fetches the files that runs leave behind."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from mainspring.cli.calling import call, checked_run, plain
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json, print_table
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.artifacts import ArtifactView


@click.group("artifact")
def artifact_group() -> None:
    """Show and fetch the files that runs leave behind."""


@artifact_group.command("list")
@click.argument("run")
@caller_options
@json_option
def list_command(run: str, server: str, *, as_json: bool) -> None:
    """List the files that RUN has left behind."""
    run = checked_run(run)

    async def read(client: AsyncClient) -> list[ArtifactView]:
        page = await client.list_artifacts(run, limit=1000)
        return page.items

    found = call(server, read)
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (one.artifact_id, one.name or "(hidden)", show_size(one.size), one.content_type, one.expires_at)
        for one in found
    ]
    print_table(("ARTIFACT", "NAME", "SIZE", "TYPE", "KEPT UNTIL"), rows, empty="no files", last=("NAME",))


@artifact_group.command("get")
@click.argument("artifact")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to write it; - is standard output. By default its own name, in this folder.",
)
@caller_options
def get_command(artifact: str, server: str, *, output: str | None) -> None:
    """Fetch ARTIFACT, a file of a run, and check that it is whole."""
    if output == "-":
        call(server, lambda client: client.fetch_artifact(artifact, sys.stdout.buffer))
        return

    async def fetch(client: AsyncClient) -> tuple[Path, int]:
        view = await client.get_artifact(artifact)
        target = Path(output) if output is not None else _own_place(view)
        with _replacing(target) as file:
            return target, await client.fetch_artifact(artifact, file, sha256=view.sha256, size=view.size)

    target, size = call(server, fetch)
    click.echo(f"{target}: {show_size(size)}", err=True)


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Write a file that takes its place when it is whole.

    Raises:
        InvalidInput: it cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise InvalidInput("output", f"{target.parent}: {error.strerror}") from None
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        part.chmod(0o666 & ~_umask())
        part.replace(target)
    except OSError as error:
        raise InvalidInput("output", f"{target}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _own_place(view: ArtifactView) -> Path:
    """Return where a file goes by its own name; one that is there is left alone.

    Raises:
        InvalidInput: there is one, or the name is hidden.
    """
    if view.name is None:
        raise InvalidInput("output", "the name of this file is hidden from you; give --output")
    target = Path(view.name.rpartition("/")[2].lstrip("."))
    if target.exists():
        raise InvalidInput("output", f"{target} is there already; give --output")
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def show_size(size: int) -> str:
    """Return a size for people."""
    from mainspring.config.archive_settings import show_size as show

    return show(size)
