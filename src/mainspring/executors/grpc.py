"""Executor of gRPC calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.core.causes import Cause
from mainspring.core.fields import MAX_PAYLOAD
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.model import DEFAULT_TIMEOUT
from mainspring.core.outcomes import Failure
from mainspring.core.results import LeftOut, keep, leave_out
from mainspring.core.targets.grpc import GrpcType
from mainspring.core.tracing import show_traceparent
from mainspring.egress.names import NameLookups
from mainspring.egress.policy import Blocked, Destination, make_policy, parse_url
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.executors._text import ERROR_LIMIT, clean, seconds
from mainspring.executors.context import ExecutorContext
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.secrets import SecretMissing, Secrets

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

    from mainspring.executors._grpc.channels import GrpcChannels, KeptChannel, Lookup
    from mainspring.executors._grpc.descriptors import Method

_TYPE = GrpcType()
_NONE = NoSecrets()
_FINAL = frozenset(
    {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "DATA_LOSS",
    }
)
"""Statuses after which a call is not tried again: it would end the same way."""
_SWOLLEN = f"the answer is more than {1 << 20:,} bytes of JSON; at most {MAX_PAYLOAD:,} can be kept"
_TOO_LONG = re.compile(r"Received message larger than max \((\d{1,12}) vs\. (\d{1,12})\)", re.ASCII)
"""What gRPC itself says of an answer that is over its limit: the method has been carried out all the same."""
_DETAILS = "grpc-status-details-bin"


class GrpcExecutor:
    """Runs attempts of target type `grpc`.

    `core.targets.grpc` describes `params`, which are checked against it. The payload is the method's message, as
    Protocol Buffers have it in JSON, and so is the result. What a method takes is read from files, or else from the
    server, by reflection. Metadata describe the attempt to the server.

    Args:
        allow: internal targets: networks or hosts, with or without a port.
        allow_plain: allow calls without TLS to public addresses, too.
        timeout: the limit of a call whose job leaves its own time limit at the default.
        connect_timeout: the limit for connecting.
        descriptors: files that describe servers without reflection.
        ca: certificates of authorities, as a PEM file; by default those that gRPC brings.
        client: files of a certificate to present and of its key.
        lookup: resolves a host; by default as HTTP calls do.
        secrets: those that jobs may name; by default there are none.

    Raises:
        MissingExtra: the extra `grpc` is not installed.
        InvalidInput: an entry of `allow` or a file cannot be read.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        allow_plain: bool = False,
        timeout: timedelta = timedelta(seconds=30),
        connect_timeout: timedelta = timedelta(seconds=10),
        descriptors: Iterable[str] = (),
        ca: str | None = None,
        client: tuple[str, str] | None = None,
        lookup: Lookup | None = None,
        secrets: Secrets = _NONE,
    ) -> None:
        try:
            from mainspring.executors._grpc.descriptors import read_files
        except ModuleNotFoundError:
            raise MissingExtra("executors.grpc.enabled", "grpc") from None
        self._policy = make_policy(allow, allow_http=allow_plain, field="executors.grpc.allow")
        self._timeout = timeout
        self._connect_timeout = connect_timeout.total_seconds()
        self._described: DescriptorPool = read_files(descriptors)
        self._ca = None if ca is None else _read(ca, "executors.grpc.ca")
        self._client = None if client is None else _read_client(*client)
        self._names = NameLookups()
        self._lookup = lookup or self._names
        self._secrets = secrets
        self._channels: GrpcChannels | None = None

    @property
    def type(self) -> str:
        return "grpc"

    async def start(self) -> None:
        import grpc

        from mainspring.executors._grpc.channels import GrpcChannels

        cert, key = self._client or (None, None)
        credentials = grpc.ssl_channel_credentials(self._ca, key, cert)
        self._channels = GrpcChannels(
            self._policy, self._lookup, credentials, connect_timeout=self._connect_timeout
        )

    async def stop(self) -> None:
        if self._channels is not None:
            await self._channels.close()
            self._channels = None
        self._names.close()

    async def execute(self, context: AttemptContext) -> Outcome:
        from mainspring.executors._grpc.channels import NoChannel, NotServing
        from mainspring.executors._grpc.descriptors import Misfit, Undescribed

        limit = self._timeout if context.timeout == DEFAULT_TIMEOUT else context.timeout
        revealer = Revealer(self._secrets, context.tenant)
        try:
            async with asyncio.timeout(limit.total_seconds()):
                return await self._execute(context, revealer, limit)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except Blocked as error:
            told = str(error).replace("plain http", "plain grpc").replace("https", "grpcs")
            return Failure(error=f"blocked: {told}", is_retryable=False)
        except TimeoutError:
            return Failure(error=f"no answer within {seconds(limit)}", is_timeout=True)
        except NoChannel as error:
            cause = Cause(is_connection=True, exceptions=("grpc.UNAVAILABLE",))
            return Failure(error=clean(str(error), ERROR_LIMIT), cause=cause)
        except NotServing as error:
            return Failure(
                error=clean(str(error), ERROR_LIMIT), cause=Cause(exceptions=("grpc.UNAVAILABLE",))
            )
        except (Misfit, Undescribed) as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except SecretMissing as error:
            return Failure(error=clean(str(error), ERROR_LIMIT))

    async def _execute(self, context: AttemptContext, revealer: Revealer, limit: timedelta) -> Outcome:
        import grpc.aio

        from mainspring.executors._grpc.answers import Swollen

        assert self._channels is not None, "start() comes first"
        params = _TYPE.read_kept(context.params)
        endpoint = read_endpoint(params["url"])
        metadata = _describe(context, revealer.fill_headers(params["headers"]))
        name: str = params["method"]
        kept = await self._channels.get(endpoint, name.partition("/")[0])
        try:
            method, message = await self._encode(kept, name, context.payload, limit)
            call = kept.channel.unary_unary(f"/{name}")
            data: bytes = await call(message, timeout=limit.total_seconds(), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return _judge(error, revealer, limit)
        try:
            return Success(result=_without_secrets(method.decode(data), revealer))
        except Swollen:
            return Success(result=leave_out(_SWOLLEN, LeftOut.TOO_LARGE))

    async def _encode(
        self, kept: KeptChannel, name: str, payload: bytes | None, limit: timedelta
    ) -> tuple[Method, bytes]:
        """Return the method, and the payload as its message. If that does not fit, the server is asked once more."""
        from mainspring.executors._grpc.descriptors import Misfit, find_method

        described = find_method(self._described, name)
        if described is not None:
            return described, described.encode(payload)
        was_known = name in kept.methods
        method = await kept.describe(name, limit.total_seconds())
        try:
            return _there(method, name), _there(method, name).encode(payload)
        except (Misfit, InvalidInput):
            if not was_known:
                raise
        method = _there(await kept.describe(name, limit.total_seconds(), anew=True), name)
        return method, method.encode(payload)


def make_executor(context: ExecutorContext) -> GrpcExecutor:
    """Make a worker's executor."""
    settings = context.settings
    cert, key = settings.grpc_client_cert, settings.grpc_client_key
    if (cert is None) != (key is None):
        missing = "client_cert" if cert is None else "client_key"
        raise InvalidInput(f"executors.grpc.{missing}", "is missing; a certificate and its key go together")
    return GrpcExecutor(
        allow=settings.grpc_allow,
        allow_plain=settings.grpc_allow_plain,
        timeout=settings.grpc_timeout,
        connect_timeout=settings.grpc_connect_timeout,
        descriptors=settings.grpc_descriptors,
        ca=settings.grpc_ca,
        client=None if cert is None or key is None else (cert, key),
        secrets=context.secrets,
    )


def read_endpoint(url: str) -> Destination:
    """Read the server that an address names, as strictly as that of an HTTP call.

    Raises:
        InvalidInput: names `target.url`.
    """
    scheme, _, rest = url.partition("://")
    plain = {"grpcs": "https", "grpc": "http"}.get(scheme.lower())
    if plain is None or rest.removesuffix("/") != rest.partition("/")[0]:
        raise InvalidInput("target.url", "must be grpcs://HOST or grpc://HOST, perhaps with a port")
    return parse_url(f"{plain}://{rest}")


def _there(method: Method | None, name: str) -> Method:
    if method is None:
        raise InvalidInput("target.method", f"the server's service has no method {name.partition('/')[2]!r}")
    return method


def _describe(context: AttemptContext, given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call: the job's own, and which attempt it is."""
    metadata = {
        **given,
        "mainspring-run-id": format_run_id(context.run_id),
        "mainspring-job-id": format_job_id(context.job_id),
        "mainspring-attempt": str(context.attempt),
        "mainspring-token": str(context.token),
        "idempotency-key": "".join(
            c if c.isascii() and c.isprintable() else "?" for c in context.idempotency_key
        ),
    }
    if context.trace is not None:
        metadata["traceparent"] = show_traceparent(context.trace)
    if context.fire_at is not None:
        metadata["mainspring-fire-at"] = context.fire_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return tuple(metadata.items())


def _without_secrets(text: bytes, revealer: Revealer) -> bytes:
    """Return a result in which no secret stands that the call has taken."""
    plain = text.decode()
    hidden = revealer.hide(plain)
    if hidden == plain:
        return keep(text)
    try:
        msgspec.json.decode(hidden)
    except msgspec.DecodeError:
        return leave_out("the answer holds a secret")
    return keep(hidden.encode())


def _judge(error: Any, revealer: Revealer, limit: timedelta) -> Failure:
    """Return what a status other than OK means."""
    from mainspring.executors._grpc.channels import without_addresses

    status: str = error.code().name
    details = without_addresses(error.details() or "")
    text = revealer.hide(f"{status}: {details}" if details else status)
    result = b'{"status":"%b"}' % status.encode()
    if status == "RESOURCE_EXHAUSTED" and (found := _TOO_LONG.search(details)):
        told = f"the method has answered with {int(found[1]):,} bytes; a call takes at most {int(found[2]):,}"
        return Failure(error=told, result=result, is_retryable=False)
    if status == "DEADLINE_EXCEEDED":
        told = f"no answer within {seconds(limit)}" if details == "Deadline Exceeded" else text
        return Failure(error=clean(told, ERROR_LIMIT), result=result, is_timeout=True)
    return Failure(
        error=clean(text, ERROR_LIMIT),
        result=result,
        is_retryable=status not in _FINAL,
        retry_after=_retry_after(error.trailing_metadata()),
        cause=Cause(exceptions=(f"grpc.{status}",), is_connection=status == "UNAVAILABLE"),
    )


def _retry_after(trailing: Any) -> timedelta | None:
    """Return how long the server asks to wait, by the RetryInfo in a status."""
    from google.protobuf.message import DecodeError

    from mainspring.executors._grpc.protocols import status_messages

    told, info = status_messages()
    for key, data in trailing or ():
        if key != _DETAILS or not isinstance(data, bytes):
            continue
        try:
            for detail in told.FromString(data).details:
                if detail.type_url.rpartition("/")[2] == "google.rpc.RetryInfo":
                    delay = info.FromString(detail.value).retry_delay
                    wait = timedelta(seconds=delay.seconds, microseconds=delay.nanos // 1000)
                    return max(timedelta(0), min(wait, timedelta(hours=1)))
        except (DecodeError, OverflowError):
            return None
    return None


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(setting, f"{path} cannot be read: {error.strerror}") from None


def _read_client(cert: str, key: str) -> tuple[bytes, bytes]:
    return _read(cert, "executors.grpc.client_cert"), _read(key, "executors.grpc.client_key")
