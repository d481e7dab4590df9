"""Divides definitions into requests, and names the job that an error is about."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.wire.operation import BODY_LIMIT, BULK_LIMIT, DEFINITIONS_LIMIT

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.owners import OwnerView

_log = logging.getLogger("mainspring.jobs")
_MOST_CHARACTERS = DEFINITIONS_LIMIT - BODY_LIMIT
"""Of the jobs of one request. The rest is left for the names of all jobs of their owners."""
_PLACE = re.compile(r"(?:jobs)?\[([0-9]+)\](?:\.(.*))?", re.DOTALL)


def parts_of(bodies: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Divide jobs into what one request may hold, which is applied as a whole: 1,000 jobs, and 3 MiB of text.

    Of no jobs there is one part, too: an owner may have none.
    """
    part: list[Mapping[str, Any]] = []
    size = 0
    for body in bodies:
        length = len(json.dumps(body))
        if part and (len(part) == BULK_LIMIT or size + length > _MOST_CHARACTERS):
            yield part
            part, size = [], 0
        part.append(body)
        size += length
    yield part


async def apply_to(
    client: AsyncClient,
    bodies: Sequence[Mapping[str, Any]],
    owners: Mapping[str, Sequence[str]],
    *,
    prune: bool,
) -> list[OwnerView]:
    """Apply jobs as a whole. A server of an earlier release gets them one after another.

    Returns:
        What became of the other jobs of the owners; nothing if the server does not know of owners.
    """
    try:
        return (await client.apply_definitions(bodies, owners=owners, prune=prune)).owners
    except NotFound as error:
        if error.kind != "path":
            raise
    _log.warning("jobs applied one after another: the server is of an earlier release")
    for body in bodies:
        await client.put_job(body)
    try:
        return [await client.put_owner(owner, names, prune=prune) for owner, names in owners.items()]
    except NotFound:
        _log.warning("owner of jobs not kept: the server is of an earlier release")
        return []


def split_place(field: str, count: int) -> tuple[int, str] | None:
    """Return which job of a request a field belongs to, and its name there; None if it belongs to none.

    Args:
        field: like `[3].every` or `jobs[3].every`.
        count: how many jobs the request had.
    """
    found = _PLACE.fullmatch(field)
    if found is None or int(found[1]) >= count:
        return None
    return int(found[1]), found[2] or ""


def name_job(error: InvalidInput | Conflict, bodies: Sequence[Mapping[str, Any]]) -> InvalidInput | Conflict:
    """Return an error that names the job instead of its place, like `job 'report': every`."""
    place = split_place(error.field, len(bodies))
    if place is None:
        return error
    name = bodies[place[0]].get("name")
    job = f"job {name!r}" if isinstance(name, str) else f"job {place[0] + 1}"

    def in_job(path: str) -> str:
        _, field = split_place(path, len(bodies)) or (0, path)
        return f"{job}: {field}" if field else job

    if isinstance(error, InvalidInput):
        return error.renamed(in_job)
    return Conflict(in_job(error.field), error.message)
