"""Every error as problem details (RFC 9457); no traceback reaches a user."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from mainspring.errors import Conflict, InvalidInput, NotFound, PayloadTooLarge, StoreUnavailable

_log = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
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
    errors: list[FieldError] | None = None


def problem(
    request: Request[Any, Any, Any],
    status: int,
    detail: str,
    *,
    errors: list[FieldError] | None = None,
    headers: dict[str, str] | None = None,
) -> Response[bytes]:
    """Make an answer."""
    body = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.scope.get("path", ""),
        errors=errors,
    )
    return Response(
        msgspec.json.encode(body), status_code=status, media_type=MEDIA_TYPE, headers=headers or {}
    )


def handle(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Turn any exception into an answer."""
    if isinstance(error, InvalidInput):
        status = 413 if isinstance(error, PayloadTooLarge) else 422
        fields = [FieldError(error.field, error.message)]
        return problem(request, status, str(error), errors=fields)
    if isinstance(error, NotFound):
        return problem(request, 404, str(error))
    if isinstance(error, Conflict):
        return problem(request, 409, str(error), errors=[FieldError(error.field, error.message)])
    if isinstance(error, StoreUnavailable):
        _log.warning("store_unavailable", path=request.scope.get("path"), error=str(error))
        return problem(
            request,
            503,
            "the store does not answer; nothing is known to be lost, try again",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    if isinstance(error, BadBody):
        return problem(request, error.status, error.detail)
    if isinstance(error, HTTPException):
        return problem(request, error.status_code, _detail(request, error), headers=dict(error.headers or {}))
    _log.error("request_failed", path=request.scope.get("path"), exc_info=error)
    return problem(request, 500, "something went wrong here; the log of the server says what")


class BadBody(Exception):
    """A request's body cannot be read at all."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def _detail(request: Request[Any, Any, Any], error: HTTPException) -> str:
    if error.status_code == 404:
        return f"there is nothing at {request.scope.get('path', '')}; see /openapi.json"
    if error.status_code == 405:
        return f"{request.scope.get('method')} is not allowed here; see /openapi.json"
    return str(error.detail)
