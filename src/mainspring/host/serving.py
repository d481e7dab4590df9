"""Serves the API on a port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainspring.api import create_api
from mainspring.api.callers import CALLER, CallerFinder, Callers
from mainspring.api.ics import IcsReader
from mainspring.api.metrics_app import make_metrics_app
from mainspring.api.request_times import RequestTimes
from mainspring.clock import LoopWaiter, UuidSource
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.engine.usecases.logins import FailedLogins, Logins
from mainspring.errors import InvalidInput, MainspringError, StoreUnavailable
from mainspring.host.certificates import read_certificates
from mainspring.host.logs import process_log
from mainspring.login.passwords import Argon2Hasher
from mainspring.sdk.credentials import read_token_file
from mainspring.telemetry.exposition import ProcessFacts, expose_process, expose_tenant

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.engine.assembly import Engine
    from mainspring.ports.telemetry import Telemetry

_log = structlog.get_logger(__name__)
_LAST_REQUESTS = 0.3
"""Seconds in which requests are still answered, each with the header that closes the connection after it."""
_LAST_READS = 0.1
"""Seconds to read what arrived before the port was closed."""


@contextlib.contextmanager
def listen(host: str, port: int, *, option: str = "--port") -> Iterator[socket.socket]:
    """Bind the port before anything else starts, because a server that cannot be reached must not fire.

    Args:
        option: which option names another one, for errors.

    Raises:
        MainspringError: the port is in use, or not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                hint = f"another server may be running; choose another one with {option}"
                raise MainspringError(f"port {port} on {host} is in use; {hint}") from None
            raise MainspringError(f"port {port} on {host} is not available: {error.strerror}") from None
        listener.setblocking(False)
        yield listener


@contextlib.contextmanager
def listen_nearby(host: str, port: int) -> Iterator[socket.socket]:
    """Bind the port, or a free one if another process has it.

    Raises:
        MainspringError: the address is not available.
    """
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(listen(host, port))
        except MainspringError:
            listener = stack.enter_context(listen(host, 0))
        yield listener


@contextlib.asynccontextmanager
async def serve(
    engine: Engine, settings: Settings, listener: socket.socket, callers: Callers, *, patience: float
) -> AsyncIterator[None]:
    """Serve the API until the block ends.

    Args:
        callers: whom the server admits.
        patience: seconds that requests under way have when the block ends. Those not answered by then get the answer
            to try again.

    Raises:
        InvalidInput: a certificate or the file with the administrator's token cannot be read, or accounts are needed
            and there are none.
    """

    async def ping() -> None:
        await engine.store.read_time()

    file = settings.admin_token_file
    admin_token = None if file is None else read_token_file(file, "auth.admin_token_file")
    if settings.access.needs_accounts and admin_token is None and engine.identities.is_open:
        raise InvalidInput(
            "host",
            "others can reach this server, so it needs accounts, and there are none yet; make the first token with"
            " `mainspring token create --role admin --store …`, or give auth.admin_token_file",
        )
    certificates = read_certificates(settings, waiter=LoopWaiter())
    if certificates is not None:
        engine.run_beside(certificates)
    times = RequestTimes()
    for source in (times, ProcessFacts()):
        engine.telemetry.watch(source)
    hasher = Argon2Hasher()
    sign_in = Logins(
        engine.store, clock=engine.clock, ids=UuidSource(), hasher=hasher, lasts=settings.auth_session
    )
    engine.run_beside(FailedLogins(sign_in, waiter=LoopWaiter()))
    rules = settings.identity_provider
    provider = None
    if rules is not None:
        from mainspring.login.oidc import OidcProvider

        provider = OidcProvider(
            rules, secrets=engine.tools.secrets or ConfiguredSecrets(settings.secrets), clock=engine.clock
        )
    api = create_api(
        engine.client,
        engine.gateway,
        identify=callers.identify,
        identities=engine.identities,
        admin_token=admin_token,
        store_name=settings.store.scheme,
        ping=ping,
        shards=engine.shards,
        failovers=lambda: engine.store.failovers,
        figures=engine.telemetry.figures,
        expose=lambda tenant: (
            expose_process(engine.telemetry) if tenant is None else expose_tenant(engine.telemetry, tenant)
        ),
        observe=times,
        deny=times.deny,
        access=settings.access,
        ics=IcsReader(most_bytes=settings.ics_most_bytes, most_days=settings.calendars_most_days),
        why_rate=settings.why_rate,
        test_rate=settings.channel_test_rate,
        findings=lambda: None if engine.job_check is None else engine.job_check.findings,
        logs=process_log(),
        sign_in=sign_in,
        provider=provider,
    )
    config = uvicorn.Config(
        api,
        access_log=True,  # False would silence the logger for all servers of uvicorn in this process
        http=_QuietConnection if callers.finder is None else _told_apart_by(callers.finder),
        lifespan="off",
        log_config=None,
        proxy_headers=settings.behind_proxy is not None,
        forwarded_allow_ips=settings.behind_proxy,
        ssl_context_factory=None if certificates is None else lambda *_: certificates.context,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(patience),
        timeout_keep_alive=75,
        ws="none",
    )
    try:
        async with _running(_Server(config), listener):
            try:
                yield
            finally:
                engine.matcher.close()  # claims that wait for work would use up the patience
    finally:
        with contextlib.suppress(StoreUnavailable):
            await sign_in.tell_failures(at_end=True)
    hasher.close()
    if provider is not None:
        await provider.stop()
    if callers.finder is not None:
        callers.finder.close()


@contextlib.asynccontextmanager
async def serve_metrics(telemetry: Telemetry, settings: Settings) -> AsyncIterator[None]:
    """Serve the metrics port until the block ends, if the settings name one.

    Raises:
        MainspringError: the port is in use, or not available.
    """
    if settings.metrics_port is None:
        yield
        return
    with listen(settings.metrics_host, settings.metrics_port, option="--metrics-port") as listener:
        config = uvicorn.Config(
            make_metrics_app(lambda: expose_process(telemetry)),
            access_log=True,
            http=_QuietConnection,
            lifespan="off",
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        async with _running(_Server(config), listener):
            host, port = listener.getsockname()[:2]
            _log.info("metrics_served", host=host, port=port)
            yield


@contextlib.asynccontextmanager
async def _running(server: _Server, listener: socket.socket) -> AsyncIterator[None]:
    """Run a server until the block ends.

    Raises:
        MainspringError: it does not start.
    """
    quiet = _Quiet()
    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(quiet)
    serving = asyncio.ensure_future(server.serve([listener]))
    while not server.started:
        if serving.done():
            serving.result()
            raise MainspringError("the server did not start")
        await asyncio.wait((serving,), timeout=0.005)
    try:
        yield
    finally:
        quiet.level = logging.CRITICAL  # it logs cut-off long polls as errors
        server.should_exit = True
        await serving
        logger.removeFilter(quiet)


class _Server(uvicorn.Server):
    """Leaves signals to the process, and answers every request that was sent before the end."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close busy connections with an answer to their request, and idle ones without.

        If a connection were simply closed, it might carry a request that was not read. Then its client could not know
        whether the request was executed.
        """
        waiter = LoopWaiter()
        headers = self.server_state.default_headers
        self.server_state.default_headers = [*headers, (b"connection", b"close")]
        await waiter.wait(_LAST_REQUESTS)
        for server in self.servers:
            server.close()
        await waiter.wait(_LAST_READS)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Quiet(logging.Filter):
    """Drops what this server logs below a level. The process may have another server of uvicorn, in another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.level = logging.WARNING
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread or record.levelno >= self.level


class _QuietConnection(HttpToolsProtocol):
    """Logs no requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False


def _told_apart_by(finder: CallerFinder) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol class, extended to put each connection's caller into the state of its requests."""

    class Connection(_QuietConnection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            caller = finder.find(transport.get_extra_info("socket"))
            self.app_state = {**self.app_state, CALLER: caller}

    return Connection
