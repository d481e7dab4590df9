"""Answers every error with problem details (RFC 9457). No traceback reaches a user."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import structlog

from mainspring.core.ids import looks_like_job_id
from mainspring.errors import (
    CannotDecrypt,
    Conflict,
    InvalidFields,
    InvalidInput,
    MissingExtra,
    NeedsRight,
    NotFound,
    PayloadTooLarge,
    StoreUnavailable,
    TookTooLong,
    TooMany,
)
from mainspring.objects import ObjectsUnavailable

_log = structlog.get_logger(__name__)
_TOKEN = re.compile(r"ms_[a-z2-9]{8}_[a-z2-9]+")
MEDIA_TYPE = "application/problem+json"
_NO_HEADERS: Mapping[str, str] = {}
RETRY_AFTER_SECONDS = 1


class FieldError(msgspec.Struct):
    """One field that is wrong, and what would be right."""

    field: str
    message: str


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Problem details."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    errors: list[FieldError] | None = None
    retry_after_seconds: int | None = None


class Rejected(Exception):
    """A request is refused, or cannot be read at all.

    Attributes:
        status: the status of the answer.
        detail: why, and what would be right.
        headers: additional headers of the answer.
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers: Mapping[str, str] | dict[str, str] = headers or {}


class Reply(NamedTuple):
    """An answer, ready to send.

    Attributes:
        headers: those besides type, length and request id.
        cookies: the values of headers `Set-Cookie`.
        pieces, length: what is sent in place of a body, and its bytes; None for a body.
    """

    status: int
    body: bytes
    media_type: bytes = b"application/json"
    headers: Mapping[str, str] = _NO_HEADERS
    cookies: tuple[str, ...] = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    length: int = 0


_WHERE_LISTED = {
    "job": "; GET /api/v1/jobs lists them",
    "run": "; GET /api/v1/runs lists them",
    "artifact": "; GET /api/v1/runs/{id}/artifacts lists them",
    "backfill": "; GET /api/v1/backfills lists them",
    "redrive": "; GET /api/v1/redrives lists them",
    "calendar": "; GET /api/v1/calendars lists them",
    "limit": "; GET /api/v1/limits lists them",
    "priority class": "; GET /api/v1/priority-classes lists them",
    "account": "; GET /api/v1/accounts lists them",
    "token": "; GET /api/v1/tokens lists those that you may see",
}


def answer_error(error: BaseException, *, path: str, request_id: str) -> Reply:
    """Turn any exception into an answer. Log what is the server's fault. A token in the path is not repeated."""
    path = _TOKEN.sub("ms_…", path)
    if isinstance(error, CannotDecrypt):
        _log.error("cannot_decrypt", path=path, request_id=request_id, error=str(error))
    return _answer(error, path=path, request_id=request_id)


def _answer(error: BaseException, *, path: str, request_id: str) -> Reply:
    status, detail = 500, "something went wrong in the server; its log says what"
    fields: list[FieldError] | None = None
    headers, wait = _NO_HEADERS, None
    if isinstance(error, InvalidInput):
        status, detail = _status_of(error), str(error)
        every = error.errors if isinstance(error, InvalidFields) else (error,)
        fields = [FieldError(one.field, one.message) for one in every]
    elif isinstance(error, NotFound):
        status, detail = 404, f"{error}{_remedy(error, path)}"
    elif isinstance(error, Conflict):
        status, detail = 409, str(error)
        fields = [FieldError(error.field, error.message)]
    elif isinstance(error, TooMany):
        status, detail = 429, str(error)
        fields, wait = [FieldError(error.field, error.message)], error.retry_after
    elif isinstance(error, Rejected):
        status, detail, headers = error.status, error.detail, error.headers
    elif isinstance(error, MissingExtra | CannotDecrypt):
        status, detail = 501 if isinstance(error, MissingExtra) else 500, str(error)
    elif isinstance(error, StoreUnavailable | ObjectsUnavailable):
        status, detail = 503, _tell_outage(error, path, request_id)
    else:
        _log.error("request_failed", path=path, request_id=request_id, exc_info=error)
    if status == 503:
        headers = {"retry-after": str(RETRY_AFTER_SECONDS), **headers}
    elif wait is not None:
        headers = {"retry-after": str(wait)}
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=path,
        request_id=request_id,
        errors=fields,
        retry_after_seconds=wait,
    )
    return Reply(status, msgspec.json.encode(problem), MEDIA_TYPE.encode(), headers)


def _tell_outage(error: StoreUnavailable | ObjectsUnavailable, path: str, request_id: str) -> str:
    """Log what does not answer, and return what the caller is told of it."""
    if isinstance(error, TookTooLong):
        return "this takes longer than a list or count may take (browse.timeout); ask for less"
    if isinstance(error, ObjectsUnavailable):
        _log.warning("files_unavailable", path=path, request_id=request_id, error=str(error))
        return "the place for files of runs does not answer, or refuses; the server's log says why; try again"
    _log.warning("store_unavailable", path=path, request_id=request_id, error=str(error))
    return "the store does not answer; nothing is known to be lost, try again"


def _remedy(error: NotFound, path: str) -> str:
    """Say where what was not found is listed, or how a job is found whose name stands where its id belongs."""
    if error.kind == "job" and not looks_like_job_id(error.key) and f"/jobs/{error.key}" in path:
        return f"; a job is addressed by its id: GET /api/v1/jobs?name={quote(error.key, safe='')} finds it by its name"
    return _WHERE_LISTED.get(error.kind, "")


def _status_of(error: InvalidInput) -> int:
    if isinstance(error, PayloadTooLarge):
        return 413
    return 403 if isinstance(error, NeedsRight) else 422
