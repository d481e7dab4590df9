"""A command's calls to a server, and how it finds jobs and reads arguments."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from mainspring.cli.options import TENANT
from mainspring.core.ids import DEFAULT_TENANT, parse_job_id
from mainspring.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.views import JobView

T = TypeVar("T")
_MOST_BYTES = 64 << 20
"""Of a file that is read whole. What servers take is far less; a device has no end."""


def call(server: str, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
    """Make calls to a server for the tenant that --tenant names, and return their results."""
    from mainspring.cli.saved_logins import find_login
    from mainspring.sdk.client import AsyncClient
    from mainspring.sdk.credentials import names_token

    context = click.get_current_context(silent=True)  # there is none where a program calls this
    tenant: str = DEFAULT_TENANT if context is None else context.meta.get(TENANT, DEFAULT_TENANT)

    token = None if names_token() else find_login(server)

    async def run() -> T:
        async with AsyncClient(server, tenant=tenant, token=token) as client:
            return await work(client)

    return asyncio.run(run())


def plain(value: object) -> Any:
    """Convert an answer to dicts and lists, as in JSON; instants stay instants."""
    import msgspec

    return msgspec.to_builtins(value, builtin_types=(datetime,))


async def find_job(client: AsyncClient, key: str) -> JobView:
    """Return a job by id or name. A key in the form of an id is never taken for a name.

    Raises:
        NotFound: there is no such job.
    """
    try:
        parse_job_id(key)
    except ValueError:
        page = await client.list_jobs(name=key)
        if not page.items:
            raise NotFound("job", key) from None
        return page.items[0]
    return await client.get_job(key)


def checked_run(run: str) -> str:
    """Return the id of a run as it was given.

    Raises:
        InvalidInput: it is not the id of a run.
    """
    from mainspring.core.ids import parse_run_id

    try:
        parse_run_id(run)
    except ValueError as error:
        raise InvalidInput("run", str(error)) from None
    return run


def read_json_text(text: str, field: str) -> Any:
    """Read JSON from an argument.

    Raises:
        InvalidInput: the text is not JSON, holds a number that no float can hold, or names a key twice.
    """

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            [twice, *_] = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
            raise InvalidInput(field, f"names {twice[:60]!r} twice; leave one of them out")
        return read

    try:
        return json.loads(
            text,
            parse_constant=_refuse_number,
            parse_float=_read_float,
            object_pairs_hook=read_object,
        )
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None


def _read_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not a number that JSON can carry")


def read_file(name: str, field: str) -> bytes:
    """Read a file; `-` is standard input.

    Raises:
        InvalidInput: the file cannot be read, or is larger than anything that a server takes.
    """
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(field, f"{name}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidInput(field, f"{name} has more than {_MOST_BYTES >> 20} MiB")
    return data


def read_text_file(name: str, field: str) -> str:
    """Read a file in UTF-8; `-` is standard input.

    Raises:
        InvalidInput: the file cannot be read, or is not UTF-8.
    """
    data = read_file(name, field)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            field, f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
        ) from None
