"""gRPC: a call of a method that takes one message and gives one. Carried out by `executors.grpc`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from mainspring.core.fields import read_text, show_key
from mainspring.core.kinds import Text
from mainspring.core.options import Option, Options
from mainspring.core.targets.base import TargetType
from mainspring.core.targets.http import Headers, Url
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_SCHEMES = ("grpcs://", "grpc://")
_METHOD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*/[A-Za-z_]\w*", re.ASCII)
_KEY = re.compile(r"[0-9a-z_.-]{1,100}", re.ASCII)
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_RESERVED = frozenset({"content-type", "traceparent", "user-agent"})


@value()
class GrpcUrl(Url):
    """The address of a server; which hosts may be reached is the executor's to say."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address: a host and perhaps a port, and nothing behind them."""
        del old
        url = read_text(value, path, longest=self.longest)
        if not url.lower().startswith(_SCHEMES):
            raise InvalidInput(path, "must begin with grpcs:// (or grpc://), with a host and perhaps a port")
        host = url.partition("://")[2].removesuffix("/")
        if not host or not host.isascii() or re.search(r"[/?#@\s\\]", host):
            message = "must be a host and perhaps a port, like grpcs://orders.example.com:8443; the method has its own"
            raise InvalidInput(path, f"{message} field")
        return url

    def limits(self) -> str:
        """Say how long it may be."""
        return f"`grpcs://HOST[:PORT]` or `grpc://HOST[:PORT]`, at most {self.longest} characters"


@value()
class MethodName(Text):
    """The full name of a method."""

    longest: int = 400
    metavar: ClassVar[str] = "METHOD"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a service's full name and the method's, with a slash between them."""
        del old
        name = read_text(value, path, longest=self.longest).removeprefix("/")
        if not _METHOD.fullmatch(name):
            raise InvalidInput(
                path, f"must be a service and its method, like shop.v1.Orders/Settle, not {name[:80]!r}"
            )
        return name

    def limits(self) -> str:
        """Say how it is written."""
        return f"`PACKAGE.SERVICE/METHOD`, at most {self.longest} characters"


@value()
class Metadata(Headers):
    """Metadata that a job adds to its calls."""

    def read(self, value: object, path: str, old: Any) -> dict[str, str]:
        """Read names and texts."""
        metadata = Headers.read(self, value, path, old)
        for name, text in metadata.items():
            where = f"{path}.{show_key(name)}"
            if not _KEY.fullmatch(name):
                raise InvalidInput(where, "is not a name of metadata: lower case letters, digits and - _ .")
            if name.startswith("grpc-") or name in _RESERVED:
                raise InvalidInput(where, "is set by gRPC or by the scheduler")
            if name.endswith("-bin"):
                raise InvalidInput(where, "would be binary; a job can add text only")
            if not _PRINTABLE.fullmatch(text):
                raise InvalidInput(where, "must be printable ASCII")
        return metadata

    def limits(self) -> str:
        """Say how many there may be, and which are taken."""
        return f"{Headers.limits(self)}; `grpc-…` and `…-bin`, too"


class GrpcType(TargetType):
    """`grpc`."""

    name = "grpc"
    summary = "Calls a method of a gRPC server. Server and worker need `executors.grpc.enabled`."
    switch: ClassVar[str | None] = "grpc_enabled"
    turned_on_by: ClassVar[str] = "executors.grpc.enabled"
    options: ClassVar[Options] = Options(
        Option(
            name="url",
            kind=GrpcUrl(),
            summary="The server: its host, and its port if that is not 443 (80 without TLS).",
            example="grpcs://orders.example.com",
        ),
        Option(
            name="method",
            kind=MethodName(),
            summary="Call this method, which takes one message and gives one.",
            example="shop.v1.Orders/Settle",
        ),
        Option(
            name="headers",
            kind=Metadata(),
            summary="Further metadata.",
            detail="`${secret:NAME}` in a value stands for a [secret](../howto/keep-secrets.md) of the worker.",
            default={},
            example={"authorization": "Bearer ${secret:orders-token}"},
        ),
    )
