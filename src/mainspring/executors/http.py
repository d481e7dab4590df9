"""Executor of HTTP calls."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from mainspring.core.causes import Cause
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.model import DEFAULT_TIMEOUT
from mainspring.core.outcomes import Failure
from mainspring.core.secrets import read_reference
from mainspring.core.targets.http import HttpType
from mainspring.core.tracing import show_traceparent
from mainspring.core.webhooks import sign
from mainspring.egress.client import GuardedClient, Lookup, NoAnswer, read_retry_after, read_start
from mainspring.egress.policy import Blocked, Destination, check_url, make_policy, parse_url
from mainspring.egress.secrets import NoSecrets, Revealer
from mainspring.errors import InvalidInput
from mainspring.executors._call_traces import CallTraces
from mainspring.executors._text import ERROR_LIMIT, OUTPUT_LIMIT, clean, decode, seconds
from mainspring.executors.context import ExecutorContext
from mainspring.ports.executor import AttemptContext, Outcome, Success
from mainspring.ports.secrets import SecretMissing, Secrets
from mainspring.ports.tracing import Tracer

__all__ = ["HttpExecutor", "check_url", "make_executor"]

_TYPE = HttpType()
_BODILESS = frozenset({"GET", "HEAD"})
_GONE = 410
_THROTTLED = frozenset({429, 503})
_NONE = NoSecrets()


class HttpExecutor:
    """Runs attempts of target type `http`.

    `core.targets.http` describes `params`, which are checked against it. The payload is the body (`{}` without one).
    Headers describe the attempt to the target. A status of 2xx is a success; redirects are not followed.

    Args:
        allow: internal targets: networks or hosts, with or without a port (`10.1.0.0/16`, `localhost:8099`).
        allow_http: allow plain http to public addresses, too.
        timeout: the limit of a call whose job leaves its own time limit at the default.
        connect_timeout: the limit for connecting.
        lookup: resolves a host; by default through the system's resolver, in such a way that slow names delay no
            others.
        tls: how certificates are checked; by default against the system's authorities.
        secrets: those that jobs may name; by default there are none.
        now: gives the instant of a signature; needed if there are secrets.
        tracer: takes the spans of calls; None if they are not exported.

    Raises:
        InvalidInput: an entry of `allow` cannot be read.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        allow_http: bool = False,
        timeout: timedelta = timedelta(seconds=30),
        connect_timeout: timedelta = timedelta(seconds=10),
        lookup: Lookup | None = None,
        tls: ssl.SSLContext | None = None,
        secrets: Secrets = _NONE,
        now: Callable[[], datetime] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        policy = make_policy(allow, allow_http=allow_http)
        self._client = GuardedClient(policy, connect_timeout=connect_timeout, lookup=lookup, tls=tls)
        self._timeout = timeout
        self._secrets = secrets
        self._now = now
        self._traces = CallTraces(tracer)

    @property
    def type(self) -> str:
        return "http"

    async def start(self) -> None:
        await self._client.start()

    async def execute(self, context: AttemptContext) -> Outcome:
        if context.trace is None:
            return await self._execute(context, None)
        call, outcome = self._traces.begin(context.trace), None
        try:
            outcome = await self._execute(context, call.trace)
        finally:
            self._traces.end(call, context.params, outcome)
        return outcome

    async def _execute(self, context: AttemptContext, trace: bytes | None) -> Outcome:
        limit = self._timeout if context.timeout == DEFAULT_TIMEOUT else context.timeout
        try:
            endpoint = parse_url(context.params.get("url"))
            return await self._call(context, endpoint, _TYPE.read_kept(context.params), limit, trace)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        except Blocked as error:
            return Failure(error=f"blocked: {error}", is_retryable=False)
        except TimeoutError:
            return Failure(error=f"no answer within {seconds(limit)}", is_timeout=True)
        except NoAnswer as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), cause=Cause(is_connection=True))
        except SecretMissing as error:
            return Failure(error=clean(str(error), ERROR_LIMIT))

    async def stop(self) -> None:
        await self._client.stop()

    async def _call(
        self,
        context: AttemptContext,
        endpoint: Destination,
        params: Mapping[str, Any],
        limit: timedelta,
        trace: bytes | None,
    ) -> Outcome:
        method: str = params["method"]
        revealer = Revealer(self._secrets, context.tenant)
        headers = revealer.fill_headers({name.title(): text for name, text in params["headers"].items()})
        body = context.payload
        if body is None and method not in _BODILESS:
            body = b"{}"
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        headers |= _describe(context, trace)
        if "signing" in params:
            keys = revealer.signing_keys(read_reference(params["signing"], "target.signing"))
            headers |= self._sign(keys, context, body or b"")
        async with self._client.request(
            method, params["url"], endpoint, body=body, headers=headers, limit=limit
        ) as response:
            try:
                data, is_cut = await read_start(response, OUTPUT_LIMIT)
            except TimeoutError:
                text = f"response status {response.status}, but the answer was not complete within {seconds(limit)}"
                return Failure(error=text, is_timeout=True)
            output = revealer.hide(decode(data), is_cut_after=is_cut) + (
                "\n[… the rest was not read …]" if is_cut else ""
            )
            return _judge(response, output or None)

    def _sign(self, keys: Sequence[bytes], context: AttemptContext, body: bytes) -> dict[str, str]:
        """Return the header fields of a signature. Its id is the run's, so that each attempt has the same."""
        assert self._now is not None, "who has secrets has the time, too"
        signed = sign(keys, format_run_id(context.run_id), self._now(), body)
        return {name.title(): text for name, text in signed.items()}


def make_executor(context: ExecutorContext) -> HttpExecutor:
    """Make a worker's executor."""
    settings = context.settings
    return HttpExecutor(
        allow=settings.callback_allow,
        allow_http=settings.callback_allow_http,
        connect_timeout=settings.callback_connect_timeout,
        timeout=settings.callback_timeout,
        secrets=context.secrets,
        now=context.host_time,
        tracer=context.tracer,
    )


def _describe(context: AttemptContext, trace: bytes | None) -> dict[str, str]:
    headers = {
        "Mainspring-Run-Id": format_run_id(context.run_id),
        "Mainspring-Job-Id": format_job_id(context.job_id),
        "Mainspring-Attempt": str(context.attempt),
        "Mainspring-Token": str(context.token),
        "Idempotency-Key": "".join(
            c if c.isascii() and c.isprintable() else "?" for c in context.idempotency_key
        ),
    }
    if trace is not None:
        headers["Traceparent"] = show_traceparent(trace)
    if context.fire_at is not None:
        headers["Mainspring-Fire-At"] = context.fire_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return headers


def _judge(response: aiohttp.ClientResponse, output: str | None) -> Outcome:
    status = response.status
    result = b'{"status":%d}' % status
    if 200 <= status < 300:
        return Success(result=result, output=output)
    error = f"response status {status}"
    if 300 <= status < 400:
        error += "; redirects are not followed"
    return Failure(
        error=error,
        output=output,
        result=result,
        is_retryable=status != _GONE,
        retry_after=read_retry_after(response.headers) if status in _THROTTLED else None,
        cause=Cause(status=status),
    )
