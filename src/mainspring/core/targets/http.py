"""HTTP: a callback to a URL. Carried out by `executors.http`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from mainspring.core.fields import read_entries, read_text, show_key
from mainspring.core.kinds import Kind, OneOf, Schema
from mainspring.core.options import Option, Options, Path
from mainspring.core.secrets import SecretName, check_marks
from mainspring.core.targets.base import TargetType
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MAX_URL = 2048
METHODS = ("POST", "PUT", "PATCH", "GET", "HEAD", "DELETE")
_MAX_ENTRIES = 64
_MAX_TEXT = 4096
_HEADERS_LIMIT = 8192
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_TEXT = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\uffff]*")
_RESERVED = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "idempotency-key",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_RESERVED_STARTS = ("mainspring-", "proxy-")


@value()
class Url(Kind):
    """The address of an HTTP call; which hosts may be reached is the executor's to say."""

    longest: int = MAX_URL
    metavar: ClassVar[str] = "URL"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a URL."""
        del old
        url = read_text(value, path, longest=self.longest)
        if not url.lower().startswith(("http://", "https://")):
            raise InvalidInput(path, "must begin with https:// (or http://)")
        return url

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def limits(self) -> str:
        """Say how long it may be."""
        return f"`https://…` or `http://…`, at most {self.longest} characters"


@value()
class Headers(Kind):
    """Header fields that a job adds to its calls. The executor holds its jobs to the same rules."""

    def read(self, value: object, path: str, old: Any) -> dict[str, str]:
        """Read names and texts."""
        del old
        headers: dict[str, str] = {}
        for name, item in read_entries(value, path, most=_MAX_ENTRIES):
            where = f"{path}.{show_key(name)}"
            if not _HEADER_NAME.fullmatch(name):
                raise InvalidInput(where, "is not a header's name: 1 to 100 letters, digits and - _ .")
            if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_STARTS):
                raise InvalidInput(where, "is set by the scheduler")
            if not isinstance(item, str) or len(item) > _MAX_TEXT or not _HEADER_TEXT.fullmatch(item):
                raise InvalidInput(where, f"must be text of at most {_MAX_TEXT} characters in one line")
            check_marks(item, where)
            headers[name] = item
        if sum(len(name) + len(item) for name, item in headers.items()) > _HEADERS_LIMIT:
            raise InvalidInput(path, f"must have at most {_HEADERS_LIMIT} characters in all")
        return headers

    def store(self, value: dict[str, str]) -> dict[str, str]:
        """Return an object of one's own."""
        return dict(value)

    def schema(self) -> Schema:
        """Return the schema of an object of texts."""
        return {"type": "object", "additionalProperties": {"type": "string"}}

    def limits(self) -> str:
        """Say how many there may be, and which are taken."""
        return (
            f"{_MAX_ENTRIES} entries of {_MAX_TEXT} characters, {_HEADERS_LIMIT} in all; "
            "`Mainspring-…`, `Proxy-…` and those of the connection are reserved"
        )


class HttpType(TargetType):
    """`callback_url`."""

    name = "http"
    summary = "Calls a URL."
    options: ClassVar[Options] = Options(
        Option(name="url", kind=Url(), summary="Call this URL.", example="https://example.com/hooks/report"),
        Option(
            name="method",
            kind=OneOf(METHODS, in_any_case=True),
            summary="The call's method, in any case.",
            default="POST",
        ),
        Option(
            name="headers",
            kind=Headers(),
            summary="Further header fields.",
            detail="`${secret:NAME}` in a value stands for a [secret](../howto/keep-secrets.md) of the worker.",
            default={},
            example={"Authorization": "Bearer ${secret:reports-token}"},
        ),
        Option(
            name="signing",
            kind=SecretName(),
            summary="The worker's secret that signs the call.",
            detail="The signature is that of [Standard Webhooks](https://www.standardwebhooks.com).",
            default=None,
            is_nullable=True,
            example="secret:reports-key",
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"callback_url": "url"}

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters; a call that is not signed has none about that."""
        params = super().make(values, path, functions=functions)
        if params["signing"] is None:
            del params["signing"]
        return params
