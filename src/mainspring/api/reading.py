"""Reads bodies, paths and queries; what is wrong is named before anything is decoded into the engine."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from litestar import Request

from mainspring.api.errors import BadBody
from mainspring.core.definition.fields import MAX_DEPTH, check_known, is_deep
from mainspring.core.ids import JobId, RunId, parse_job_id, parse_run_id
from mainspring.errors import InvalidInput, NotFound

BODY_LIMIT = 1024 * 1024
MAX_PAGE = 1000
AnyRequest = Request[Any, Any, Any]
T = TypeVar("T")
_PATH = re.compile(r"^(.*?) - at `\$\.?(.*)`$", re.DOTALL)
_FIELD = re.compile(r"(?:required|unknown) field `([^`]+)`")


async def read_json(request: AnyRequest) -> Any:
    """Return the decoded body; an empty body is an empty object.

    Raises:
        BadBody: too large, not JSON, not UTF-8, or of another content type.
        InvalidInput: nested too deep.
    """
    return _decode(await _read(request), Any)


async def read_object(request: AnyRequest) -> dict[str, Any]:
    """Return a body that is an object, undecoded further.

    Raises:
        BadBody, InvalidInput: as `read_json`; or it is no object.
    """
    body = await read_json(request)
    if not isinstance(body, dict):
        raise InvalidInput("body", "must be an object")
    return body


async def read_struct(request: AnyRequest, kind: type[T], *, limit: int = BODY_LIMIT) -> T:
    """Return a body of a given shape.

    Raises:
        BadBody, InvalidInput: as `read_json`; or a field is wrong, which is named.
    """
    return _decode(await _read(request, limit), kind)


async def _read(request: AnyRequest, limit: int = BODY_LIMIT) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in {"application/json", "application/merge-patch+json"}:
        raise BadBody(415, f"the content type must be application/json, not {kind[:60]}")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise BadBody(413, f"the body has {length} bytes; at most {limit} are read")
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BadBody(413, f"the body has more than {limit} bytes")
        chunks.append(chunk)
    body = b"".join(chunks)
    _check_depth(body)
    return body


def _check_depth(body: bytes) -> None:
    if is_deep(body, MAX_DEPTH + 8):  # a payload or result may have its own depth; the field is named there
        raise InvalidInput("body", f"is nested deeper than {MAX_DEPTH} levels")


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise _named(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(400, f"the body is not JSON in UTF-8: {str(error)[:200]}") from None


def _named(error: msgspec.ValidationError) -> InvalidInput:
    text = str(error)
    match = _PATH.match(text)
    message, path = (match.group(1), match.group(2)) if match else (text, "")
    field = _FIELD.search(message)
    if field is not None:
        path = f"{path}.{field.group(1)}".lstrip(".")
    return InvalidInput(path or "body", message[:1].lower() + message[1:])


def read_query(request: AnyRequest, known: Collection[str]) -> dict[str, str]:
    """Return the query's parameters.

    Raises:
        InvalidInput: one is unknown, given twice, or holds what cannot be printed.
    """
    pairs = list(request.query_params.multi_items())
    check_known([name for name, _ in pairs], known)
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise InvalidInput(name, "is given twice")
        values[name] = str(value)
        if not values[name].isprintable():
            raise InvalidInput(name, "holds characters that cannot be printed")
    return values


def read_limit(values: dict[str, str], default: int = 100) -> int:
    """Return the page size."""
    text = values.get("limit", str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 1 <= int(text) <= MAX_PAGE:
        raise InvalidInput("limit", f"must be a whole number from 1 to {MAX_PAGE}")
    return int(text)


def path_job_id(text: str) -> JobId:
    """Return a job's id from a path; what is none names no job."""
    try:
        return parse_job_id(text)
    except ValueError:
        raise NotFound("job", text[:60]) from None


def path_run_id(text: str) -> RunId:
    """Return a run's id from a path; what is none names no run."""
    try:
        return parse_run_id(text)
    except ValueError:
        raise NotFound("run", text[:60]) from None


def query_job_id(text: str, field: str) -> JobId:
    """Return a job's id from a query or body."""
    try:
        return parse_job_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None


def query_run_id(text: str, field: str) -> RunId:
    """Return a run's id from a query or body."""
    try:
        return parse_run_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None
