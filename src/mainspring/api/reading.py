"""Reads bodies, paths and queries. Errors name what is wrong, before anything reaches the engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive

from mainspring.api.errors import Rejected
from mainspring.api.field_errors import refuse_body_of
from mainspring.core.fields import MAX_DEPTH, check_known, is_deep, read_moment
from mainspring.core.ids import (
    ArtifactId,
    BackfillId,
    JobId,
    RedriveId,
    RunId,
    SessionId,
    parse_artifact_id,
    parse_backfill_id,
    parse_job_id,
    parse_redrive_id,
    parse_run_id,
)
from mainspring.errors import InvalidInput, NotFound
from mainspring.wire.operation import BODY_LIMIT, BULK_LIMIT, JSON, MERGE_PATCH, Body, Parameter
from mainspring.wire.protocol.sessions import read_session

T = TypeVar("T")
Id = TypeVar("Id")
_LONGEST_NUMBER = 6
_SESSION = re.compile("ses_[0-9]{1,18}", re.ASCII)
_SPACED_OFFSET = re.compile("(:.*[0-9]) ([0-9]{2}:[0-9]{2})", re.ASCII)
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BodyReader:
    """Reads the body that an operation describes.

    Args:
        limit: the most bytes.
    """

    def __init__(self, body: Body, *, limit: int) -> None:
        self._limit = limit
        self._media_types = {JSON, MERGE_PATCH} if JSON in body.media_types else {*body.media_types}
        self._usual = body.media_types[0]
        self._is_object = body.decoded_as == dict[str, Any]
        self._kind = Any if self._is_object else body.decoded_as
        self._is_raw = body.decoded_as is bytes
        self._decode = msgspec.json.Decoder(self._kind).decode

    async def read(self, receive: Receive, *, media_type: str, length: str) -> Any:
        """Return the decoded body. An empty body counts as an empty object. One that is not JSON is left as it is.

        Args:
            media_type, length: the request's headers `Content-Type` and `Content-Length`; empty if not given.

        Raises:
            Rejected: the body is too large, not JSON, not UTF-8, of another content type, or cut off.
            InvalidInput: the body is nested too deep, or a field is wrong. The error names the field.
        """
        kind = media_type.partition(";")[0].strip().lower() if media_type else self._usual
        if kind not in self._media_types:
            raise Rejected(415, f"the content type must be {self._usual}, not {kind[:60]}")
        if length.isdigit() and int(length) > self._limit:
            raise Rejected(413, f"the body has {length} bytes; the limit is {self._limit}")
        event = await receive()
        text = event.get("body", b"")
        if event["type"] != "http.request" or event.get("more_body", False) or len(text) > self._limit:
            text = await _receive_rest(receive, event, limit=self._limit)
        if self._is_raw:
            return text
        _check_depth(text)
        try:
            value = self._decode(text or b"{}")
        except msgspec.ValidationError as error:
            refuse_body_of(self._kind, error, text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Rejected(400, f"the body is not JSON in UTF-8: {str(error)[:200]}") from None
        if self._is_object and not isinstance(value, dict):
            raise InvalidInput("body", "must be an object")
        return value


async def refuse_body(receive: Receive) -> None:
    """Refuse the body of a request whose operation takes none. An empty object says as little as no body.

    Raises:
        Rejected: the body says something, is too large, or was cut off. The error names its first field.
    """
    event = await receive()
    text = event.get("body", b"")
    if event["type"] == "http.request" and not event.get("more_body", False) and not text:
        return
    try:
        text = await _receive_rest(receive, event, limit=BODY_LIMIT)
        fields = _read_fields(text) if text else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Rejected(400, "this operation takes no body; send none") from None
    for name in fields:
        raise Rejected(400, f"this operation takes no body, so there is no field {name[:60]!r}; send no body")


async def _receive_rest(receive: Receive, event: Message, *, limit: int) -> bytes:
    """Return a body that does not arrive in one piece.

    Args:
        event: the first piece.
        limit: the most bytes.
    """
    chunks: list[bytes] = []
    size = 0
    while True:
        if event["type"] != "http.request":
            raise Rejected(400, "the connection was closed before the whole body arrived")
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise Rejected(413, f"the body has more than {limit} bytes")
        chunks.append(chunk)
        if not event.get("more_body", False):
            return b"".join(chunks)
        event = await receive()


def _check_depth(body: bytes) -> None:
    if is_deep(body, MAX_DEPTH + 8):  # a payload or result has its own limit; its check names the field
        raise InvalidInput("body", f"is nested deeper than {MAX_DEPTH} levels")


def convert(value: object, kind: type[T]) -> T:
    """Convert a decoded body to a given type.

    Raises:
        InvalidInput: a field is wrong. The error names it.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        refuse_body_of(kind, error)


class QueryReader:
    """Reads the query parameters that an operation describes."""

    def __init__(self, parameters: tuple[Parameter, ...], *, ignores_others: bool = False) -> None:
        self._ignores_others = ignores_others
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._required = [parameter.name for parameter in parameters if parameter.is_required]
        self._defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not None
        }

    def read(self, text: bytes) -> Mapping[str, Any]:
        """Return the parameters that were given, and those with a default.

        Raises:
            InvalidInput: one is unknown, given twice, missing, out of its bounds, or holds characters that cannot be
                printed.
        """
        if not text and not self._required:
            return self._defaults
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True)
        if self._ignores_others:
            pairs = [(name, value) for name, value in pairs if name in self._parameters]
        check_known([name for name, _ in pairs], self._parameters)
        given: dict[str, str] = {}
        for name, value in pairs:
            if name in given:
                raise InvalidInput(name, "is given twice")
            if not value.isprintable():
                raise InvalidInput(name, "holds characters that cannot be printed")
            given[name] = value
        for name in self._required:
            if name not in given:
                raise InvalidInput(name, "is missing")
        values: dict[str, Any] = dict(self._defaults)
        for name, value in given.items():
            bounds = self._parameters[name].bounds
            values[name] = value if bounds is None else _read_number(name, value, bounds)
        return values


def _read_number(name: str, text: str, bounds: tuple[int, int]) -> int:
    lowest, highest = bounds
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    if not is_number or not lowest <= int(text) <= highest:
        raise InvalidInput(name, f"must be a whole number from {lowest} to {highest}")
    return int(text)


def check_bulk(body: object, items: str) -> None:
    """Check that a body is a list that is not empty, and within the limit of one request.

    Args:
        items: what the list holds, in the plural.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(body, list) or not 1 <= len(body) <= BULK_LIMIT:
        raise InvalidInput("body", f"must be a list of 1 to {BULK_LIMIT} {items}")


def path_job_id(text: str) -> JobId:
    """Return a job's id from a path.

    Raises:
        NotFound: the text is not a job's id, so there is no such job.
    """
    return _path_id(text, parse_job_id, "job")


def path_backfill_id(text: str) -> BackfillId:
    """Return a backfill's id from a path.

    Raises:
        NotFound: the text is not a backfill's id, so there is no such backfill.
    """
    return _path_id(text, parse_backfill_id, "backfill")


def query_backfill_id(text: str, field: str) -> BackfillId:
    """Return a backfill's id from a query.

    Raises:
        InvalidInput: the text is not a backfill's id.
    """
    return _query_id(text, parse_backfill_id, field)


def path_redrive_id(text: str) -> RedriveId:
    """Return a redrive's id from a path.

    Raises:
        NotFound: the text is not a redrive's id, so there is no such redrive.
    """
    return _path_id(text, parse_redrive_id, "redrive")


def query_redrive_id(text: str, field: str) -> RedriveId:
    """Return a redrive's id from a query.

    Raises:
        InvalidInput: the text is not a redrive's id.
    """
    return _query_id(text, parse_redrive_id, field)


def path_artifact_id(text: str) -> ArtifactId:
    """Return an artifact's id from a path.

    Raises:
        NotFound: the text is not an artifact's id, so there is no such artifact.
    """
    return _path_id(text, parse_artifact_id, "artifact")


def path_run_id(text: str) -> RunId:
    """Return a run's id from a path.

    Raises:
        NotFound: the text is not a run's id, so there is no such run.
    """
    return _path_id(text, parse_run_id, "run")


def query_job_id(text: str, field: str) -> JobId:
    """Return a job's id from a query or body.

    Raises:
        InvalidInput: the text is not a job's id.
    """
    return _query_id(text, parse_job_id, field)


def query_session_id(text: str, field: str) -> SessionId:
    """Return a session's id from a query.

    Raises:
        InvalidInput: the text is not a session's id.
    """
    if _SESSION.fullmatch(text) is None:
        raise InvalidInput(field, f"{text[:60]!r} is not a session's id like ses_17")
    return read_session(text)


def query_moment(text: str, field: str, *, now: datetime) -> datetime:
    """Return an instant from a query: ISO 8601, or text like `2h`, which means so long ago.

    The `+` of an offset is a space if it was written into an address as it is.

    Args:
        now: the store's time.

    Raises:
        InvalidInput: the text is neither.
    """
    return read_moment(_SPACED_OFFSET.sub(r"\1+\2", text), field, now=now)


def query_run_id(text: str, field: str) -> RunId:
    """Return a run's id from a query or body.

    Raises:
        InvalidInput: the text is not a run's id.
    """
    return _query_id(text, parse_run_id, field)


def _path_id(text: str, parse: Callable[[str], Id], kind: str) -> Id:
    try:
        return parse(text)
    except ValueError:
        raise NotFound(kind, text[:60]) from None


def _query_id(text: str, parse: Callable[[str], Id], field: str) -> Id:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None
