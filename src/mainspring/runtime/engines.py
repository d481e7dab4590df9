"""From settings to an engine on its store: which back end, which services, and what they are given."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mainspring.clock import (
    LoopWaiter,
    StoreClock,
    UuidSource,
    host_nanoseconds,
    host_time,
    monotonic,
    sampled_clock,
    system_random,
)
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.config.settings import Settings
from mainspring.core.backfill_settings import BackfillLimits
from mainspring.core.pacing import Pace
from mainspring.core.targets import TARGETS, accepted_types
from mainspring.engine.assembly import Engine
from mainspring.engine.common.late_sender import LateSender
from mainspring.engine.common.service import Service
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.identities import TokenUses
from mainspring.errors import InvalidInput
from mainspring.objects import ObjectStreams
from mainspring.plugins import load_plugins
from mainspring.ports.archive import Archive
from mainspring.ports.channel import Pinger, Sender
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.secrets import Secrets
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import NodeFacts
from mainspring.registry import FunctionRegistry
from mainspring.runtime.key_watch import KeyWatch
from mainspring.runtime.stores import make_hints, make_store
from mainspring.runtime.vaults import ProcessSecrets
from mainspring.telemetry.otlp import OtlpExport, make_export, sending
from mainspring.telemetry.store import StoreTimes, timed
from mainspring.zone_data import tzdata_version

if TYPE_CHECKING:
    pass

_log = structlog.get_logger(__name__)
_SAMPLE_PERIOD = 5.0


class ClockSampler:
    """Keeps the process's clock in step with the store's."""

    name = "clock"

    def __init__(self, clock: StoreClock, *, waiter: Waiter) -> None:
        self._clock = clock
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Sample the store's clock again."""
        del now
        await self._clock.sample()
        return _SAMPLE_PERIOD


@asynccontextmanager
async def open_engine(
    settings: Settings,
    *,
    registry: FunctionRegistry | None = None,
    with_scheduler: bool = True,
    holds_start: bool = False,
    owns_process: bool = True,
) -> AsyncIterator[Engine]:
    """Open the store, and run the engine's services on it until the block ends.

    If the process has no keys, and the store gets encrypted meanwhile, the block is broken off.

    Args:
        holds_start: jobs whose trigger is at start wait for `Engine.release_start`.
        owns_process: nothing else runs in the process.

    Raises:
        InvalidInput: the keys and the store do not go together, or do not any more.
        MissingExtra: an extra that the settings need is not installed.
    """
    load_plugins()  # before any stored job is read
    kept = ProcessSecrets(settings)
    bare = make_store(settings.store, settings=settings)
    store = timed(bare, times := StoreTimes(monotonic))
    await store.open()
    try:
        clock = await sampled_clock(store.read_time)
        store, watch = await _encrypting(store, settings, clock)
        sender, pinger = _make_outward(settings, clock, kept.secrets, with_scheduler=with_scheduler)
        export = make_exporter(settings, "mainspring" if sender is not None else "mainspring-worker")
        engine = Engine(
            store,
            _make_tools(clock, kept.secrets),
            _engine_settings(settings, registry, with_scheduler=with_scheduler),
            hints=make_hints(settings.store, bare),
            sender=sender,
            tracer=None if export is None else export.tracer,
            archive=make_archive(settings) if with_scheduler else None,
            pinger=pinger,
            files=make_files(settings),
        )
        engine.telemetry.watch(times)
        beside = await _services_beside(engine, clock, settings, watch)
        async with (
            kept.running(engine.telemetry),
            _running(engine, beside, outward=(sender, pinger), holds_start=holds_start),
            sending(export, engine.telemetry, LoopWaiter(), owns_process=owns_process),
            nullcontext() if watch is None else watch.breaking_off(),
        ):
            yield engine
    finally:
        await store.close()


@asynccontextmanager
async def _running(
    engine: Engine,
    services: Sequence[Service],
    *,
    outward: tuple[Sender | None, Pinger | None],
    holds_start: bool,
) -> AsyncIterator[None]:
    """Run the engine with these services beside its own, and with what it tells the outside, until the block ends."""
    _, pinger = outward
    try:
        if pinger is not None:
            await pinger.start()
        await engine.start(*services, holds_start=holds_start)
        yield
    finally:
        await engine.stop()
        for one in outward:
            if one is not None:
                await one.stop()


def _make_tools(clock: Clock, secrets: Secrets) -> Tools:
    return Tools(
        clock=clock,
        random=system_random(),
        ids=UuidSource(),
        waiter=LoopWaiter,
        host_time=host_time,
        secrets=secrets,
    )


def _make_outward(
    settings: Settings, clock: Clock, secrets: Secrets, *, with_scheduler: bool
) -> tuple[Sender | None, Pinger | None]:
    """Make what delivers messages, and what pings a monitor elsewhere; None where the process does not."""
    sender = _sender_beside(settings, clock, secrets) if with_scheduler or settings.has_api else None
    return sender, make_pinger(settings) if with_scheduler else None


def make_exporter(settings: Settings, service: str) -> OtlpExport | None:
    """Make what sends traces and figures to a collector; None if none is named.

    Args:
        service: the name of this kind of process in tools.

    Raises:
        MissingExtra: the settings name a collector, and the extra `otel` is not installed.
    """
    random = system_random().randbytes
    return make_export(settings.otlp, service=service, ids=UuidSource(), random=random, time=host_nanoseconds)


async def _encrypting(store: Store, settings: Settings, clock: Clock) -> tuple[Store, KeyWatch | None]:
    """Return the store, or what stands for it and encrypts what it is given.

    A process without keys gets, besides, what watches that the store stays as it is; None if no other process can
    write to it.

    Raises:
        InvalidInput: the keys and the store do not go together.
        MissingExtra: there are keys, and the extra `crypto` is not installed.
    """
    if settings.keys_file is not None:
        from mainspring.encryption.starting import encrypt_store

        return await encrypt_store(store, settings.keys_file, now=clock.now()), None
    if await store.list_encryption_keys():
        message = "is not set, but this store is encrypted; give the file that the other servers have"
        raise InvalidInput("keys_file", message)
    if not store.capabilities.concurrent_writers:
        return store, None
    watch = KeyWatch(store, waiter=LoopWaiter())
    return watch.store, watch


def _sender_beside(settings: Settings, clock: Clock, secrets: Secrets) -> Sender:
    """Return what delivers the messages of channels. What is wrong with settings of mail is said at the start."""
    if settings.mail_server is not None:
        make_senders(settings, clock, secrets)
    return LateSender(lambda: make_senders(settings, clock, secrets))


def make_archive(settings: Settings) -> Archive | None:
    """Make what writes the archive; None if there is none.

    Raises:
        MissingExtra: the extra `archive` is not installed.
    """
    if settings.archive_url is None:
        return None
    from mainspring.archive.writing import ChildArchive
    from mainspring.objects import read_place

    place = read_place(settings.archive_url, "archive.url")
    return ChildArchive(settings.archive_url, place, memory=settings.archive_memory)


def make_files(settings: Settings) -> ObjectStreams | None:
    """Make what reaches the place for files of runs; None if there is none.

    Raises:
        MissingExtra: the place is a bucket, and the extra `objects` is not installed.
        InvalidInput: the variables that lead to the bucket do not fit.
    """
    if settings.artifacts_url is None:
        return None
    from mainspring.config.artifact_settings import read_artifact_place
    from mainspring.objects import ObjectsUnavailable, open_streams

    place = read_artifact_place(settings.artifacts_url)
    if place.kind == "folder" and not Path(place.target).is_dir():  # it may yet be mounted, so this goes on
        meaning = "no file of a run can be kept: make the folder, or mount what it is for"
        _log.warning("artifacts_folder_missing", folder=place.target, meaning=meaning)
    try:
        return open_streams(place, feature="artifacts.url", extra="objects")
    except ObjectsUnavailable as error:
        raise InvalidInput("artifacts.url", str(error)) from None


def _retention(settings: Settings) -> Retention:
    return Retention(
        history=settings.history,
        settled=settings.keep_settled,
        audit=settings.keep_audit,
        usage_minutes=settings.keep_usage_minutes,
        usage_hours=settings.keep_usage_hours,
        sessions=settings.keep_sessions,
        run_logs=settings.keep_run_logs,
        events=settings.keep_events,
    )


async def _services_beside(
    engine: Engine, clock: StoreClock, settings: Settings, watch: KeyWatch | None
) -> list[Service]:
    """Return the services of a process beside those of its engine, ready to be started."""
    services: list[Service] = [ClockSampler(clock, waiter=LoopWaiter())]
    if watch is not None:
        services.append(watch)
    if settings.has_api:
        await engine.identities.refresh()  # no request may be answered before it is known who there is
        services += [
            engine.identities,
            TokenUses(engine.store, engine.identities, waiter=LoopWaiter()),
        ]
    return services


def _engine_settings(
    settings: Settings, registry: FunctionRegistry | None, *, with_scheduler: bool
) -> EngineSettings:
    return EngineSettings(
        node=_node_facts() if with_scheduler else None,
        beat_period=settings.beat_period,
        shards=ShardSettings(period=settings.node_period, clock_limit=settings.clock_limit),
        retention=_retention(settings),
        key_lifetime=settings.keep_keys,
        list_budget=settings.browse_budget,
        backfills=_backfill_limits(settings),
        catch_up=Pace(settings.catch_up_rate, settings.catch_up_max_live),
        accepted=_accepted(settings, registry),
        trace_sample=settings.trace_sample,
        trace_split_after=settings.trace_split_after,
        public_url=settings.public_url,
        keep_artifacts=settings.keep_artifacts,
        artifact_limit=settings.artifacts_limit,
    )


def _backfill_limits(settings: Settings) -> BackfillLimits:
    return BackfillLimits(
        rate=settings.backfill_rate,
        max_live=settings.backfill_max_live,
        most_fires=settings.backfill_most_fires,
    )


def _node_facts() -> NodeFacts:
    return NodeFacts(
        id=str(UuidSource().new_uuid()),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("mainspring"),
        tzdata=tzdata_version(),
    )


def make_senders(settings: Settings, clock: Clock, secrets: Secrets | None = None) -> Sender:
    """Make what delivers the messages of channels, without starting it.

    Args:
        secrets: those of this process; None are those of the settings that are in variables and files.

    Raises:
        InvalidInput: settings of mail do not go together.
        MissingExtra: mail is to be sent, and the extra `mail` is not installed.
    """
    from mainspring.channels.senders import Senders

    return Senders(
        secrets=ConfiguredSecrets(settings.secrets) if secrets is None else secrets,
        clock=clock,
        mail=settings.mail_server,
        allow=settings.channel_allow,
        allow_http=settings.channel_allow_http,
        limit=settings.channel_timeout,
    )


def make_pinger(settings: Settings) -> Pinger | None:
    """Make what pings a monitor elsewhere while alerts are judged; None if none is named.

    Raises:
        InvalidInput: the URL cannot be read, or the settings have no such secret.
    """
    if settings.watchdog_ping_url is None:
        return None
    from mainspring.channels.pings import UrlPinger

    return UrlPinger(
        settings.watchdog_ping_url,
        "watchdog.ping_url",
        secrets=ConfiguredSecrets(settings.secrets),
        allow=settings.channel_allow,
        allow_http=settings.channel_allow_http,
        limit=settings.channel_timeout,
    )


def _accepted(settings: Settings, registry: FunctionRegistry | None) -> Accepted:
    from mainspring.egress import check_url
    from mainspring.expressions.cel import CelExpressions

    functions = (lambda: frozenset(registry.names())) if registry is not None else frozenset
    switches = {one.switch for one in TARGETS if one.switch is not None and getattr(settings, one.switch)}
    return Accepted(
        types=accepted_types(switches),
        expressions=CelExpressions(),
        functions=functions,
        check_url=check_url,
    )
