"""Each kind of rule on the three stores: what is wrong fires, what is mended ends, and both are told."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.access import Account
from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.monitors import PingKind
from mainspring.core.notifications import AlertState, Message
from mainspring.core.pauses import PauseScope
from mainspring.core.rights import ALL_TENANTS, AccessRole
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Report
from mainspring.ports.store import Store
from mainspring.ports.store.access import NewToken
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.alert_facts import make_token
from mainspring.testing.factories import at
from mainspring.testing.manual import ManualRuntime

PLACE = {"kind": "webhook", "config": {"url": "https://hooks.example.com/x"}, "group_wait": 0}


class Post:
    """A sender that keeps what it delivers.

    Attributes:
        trouble: what it raises instead.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tried: list[str] = []
        self.trouble: Exception | None = None

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        """Take everything."""

    async def send(self, config: ChannelConfig, message: Message) -> None:
        self.tried.append(message.id)
        if self.trouble is not None:
            raise self.trouble
        self.messages.append(message)


class Bench:
    """A server that judges, and what it tells."""

    def __init__(self, runtime: ManualRuntime, post: Post) -> None:
        self.runtime = runtime
        self.post = post
        self.store = runtime.store
        self.client = runtime.client

    async def look(self, seconds: float = 10) -> list[tuple[str, str, str]]:
        """Let time pass, judge twice, and deliver; return what was told: kind, rule, subject."""
        known = len(self.post.messages)
        self.runtime.clock.advance(seconds)
        await self.runtime.tick("restrictions", "census")
        for _ in range(2):
            await self.runtime.tick("watchdog")
        while not await self.runtime.services["notifier"].tick(self.runtime.clock.now()):
            continue
        return [
            (message.kind.value, message.rule, alert.subject)
            for message in self.post.messages[known:]
            for alert in message.alerts
        ]

    async def rule(self, name: str, **settings: Any) -> None:
        """Have a rule tell the channel at once."""
        body = {"kind": name, "hold": 0, "channels": ["ops"], **settings}
        await self.client.alert_rules.put(ALL_TENANTS, name, body)

    async def job(self, **job: Any) -> Any:
        body = {"name": "report", "function": "work", "retry": {"max_retries": 0}, **job}
        return (await self.client.jobs.create("default", body)).id

    async def submit(self, job_id: Any) -> None:
        await self.client.runs.submit_many("default", [Submission(job_id=job_id)])


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    clock = FakeClock()
    stores: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(time=clock.now),
        "sqlite": lambda: SqliteStore(tmp_path / "mainspring.db"),
        "postgres": lambda: PostgresStore(
            request.getfixturevalue("migrated_database"), random=random.Random(1)
        ),
    }
    registry = FunctionRegistry()
    registry.add("work", fail)
    post = Post()
    async with ManualRuntime(registry, store=stores[request.param](), clock=clock, sender=post) as runtime:
        bench = Bench(runtime, post)
        await bench.client.channels.put(ALL_TENANTS, "ops", PLACE)
        yield bench


def fail() -> None:
    raise ValueError("no customer")


async def test_dead_letters(bench: Bench) -> None:
    await bench.rule("dead_letters", threshold=0)
    job_id = await bench.job(queue="mail")
    assert await bench.look() == []
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    assert await bench.look() == [("firing", "dead_letters", "queue:mail")]
    assert bench.post.messages[0].tenant == "default"
    await bench.client.dead_letters.discard("default", DeadFilter(until=at(10_000_000)), reason="test")
    assert await bench.look() == [("resolved", "dead_letters", "queue:mail")]
    assert await bench.look(100) == []


async def test_no_workers(bench: Bench) -> None:
    await bench.rule("no_workers")
    job_id = await bench.job(queue="mail")
    await bench.submit(job_id)
    assert await bench.look(59) == []
    assert await bench.look(1) == [("firing", "no_workers", "queue:mail")]
    [alert] = bench.post.messages[0].alerts
    assert alert.summary == "No worker is alive. Queue mail: runs have been ready for 1m"
    await bench.runtime.worker(functions=())
    found = await bench.look()
    assert sorted(found) == [
        ("firing", "no_workers", "queue:mail work"),
        ("resolved", "no_workers", "queue:mail"),
    ]
    await bench.runtime.worker()
    assert await bench.look() == [("resolved", "no_workers", "queue:mail work")]


async def test_runs_that_are_paused_need_no_worker(bench: Bench) -> None:
    await bench.rule("no_workers")
    await bench.submit(await bench.job(queue="mail"))
    await bench.client.pauses.pause(PauseScope.QUEUE, "mail", {}, made_by="ann")
    assert await bench.look(100) == []


async def test_too_few_slots(bench: Bench) -> None:
    await bench.rule("no_workers", threshold=150)
    await bench.runtime.worker()
    assert await bench.look() == [("firing", "no_workers", "slots")]
    await bench.runtime.worker()
    assert await bench.look() == [("resolved", "no_workers", "slots")]


async def test_missed_run(bench: Bench) -> None:
    await bench.rule("missed_run")
    await bench.job(cron="* * * * *")
    assert await bench.look(119) == []
    assert await bench.look(11) == [("firing", "missed_run", "clocks")]
    await bench.runtime.plan()
    assert await bench.look() == [("resolved", "missed_run", "clocks")]


async def test_worker_lost(bench: Bench) -> None:
    await bench.rule("worker_lost")
    await bench.runtime.worker(name="w1")
    assert await bench.look() == []
    [session] = await bench.store.list_sessions()
    await bench.store.expire_sessions([(session.id, session.beats)], now=bench.runtime.clock.now())
    assert await bench.look() == [("firing", "worker_lost", "worker:w1")]
    await bench.runtime.worker(name="w1")
    assert await bench.look() == [("resolved", "worker_lost", "worker:w1")]


async def test_a_lost_worker_is_given_up_after_an_hour(bench: Bench) -> None:
    await bench.rule("worker_lost")
    await bench.runtime.worker(name="w1")
    [session] = await bench.store.list_sessions()
    await bench.store.expire_sessions([(session.id, session.beats)], now=bench.runtime.clock.now())
    assert await bench.look(3500) == [("firing", "worker_lost", "worker:w1")]
    assert await bench.look(100) == [("resolved", "worker_lost", "worker:w1")]


async def test_stuck_run(bench: Bench) -> None:
    await bench.rule("stuck_run")
    job_id = await bench.job(timeout=60)
    await bench.submit(job_id)
    worker = await bench.runtime.worker()
    [lease] = await worker.claim()
    assert await bench.look(359) == []
    [told] = await bench.look(1)
    assert told[:2] == ("firing", "stuck_run")
    assert bench.post.messages[0].alerts[0].run_id == lease.run_id
    await worker.report(await worker.carry_out(lease))
    assert (await bench.look())[0][:2] == ("resolved", "stuck_run")


async def test_token_expiry(bench: Bench) -> None:
    await bench.rule("token_expiry", period="2d")
    account = Account(name="ann", grants={"*": AccessRole.ADMIN}, is_disabled=False, created_at=at(0))
    day = 86_400.0
    assert await bench.store.add_first_token(account, NewToken(make_token("aaaaaaaa", 3 * day), b"a" * 32))
    assert await bench.look(day) == []
    assert await bench.look(100) == [("firing", "token_expiry", "token:aaaaaaaa")]
    await bench.store.revoke_token("aaaaaaaa", now=bench.runtime.clock.now())
    assert await bench.look() == [("resolved", "token_expiry", "token:aaaaaaaa")]


async def test_monitors(bench: Bench) -> None:
    await bench.rule("monitor")
    monitors = bench.client.monitors
    dump = await monitors.put("default", "dump", {"every": "1h", "start_grace": "5m"})
    feed = await monitors.put("default", "feed", {"every": "1h", "start_grace": "5m", "tolerance": 2})
    assert dump.key is not None
    assert feed.key is not None
    assert await bench.look(3600 + 300) == []
    assert await bench.look(1) == [("firing", "monitor", "monitor:dump")]
    assert await bench.look(3600) == [("firing", "monitor", "monitor:feed")]
    await monitors.take_ping(dump.key, PingKind.START)
    assert await bench.look() == []  # it has begun, and not yet succeeded
    await monitors.take_ping(dump.key, PingKind.SUCCESS)
    assert await bench.look() == [("resolved", "monitor", "monitor:dump")]
    await monitors.take_ping(dump.key, PingKind.FAIL)
    assert await bench.look() == [("firing", "monitor", "monitor:dump")]
    await monitors.delete("default", "dump")
    await monitors.put("default", "feed", {"every": "2h"})
    told = await bench.look()
    assert sorted(told) == [
        ("resolved", "monitor", "monitor:dump"),
        ("resolved", "monitor", "monitor:feed"),
    ]


async def test_oldest_ready(bench: Bench) -> None:
    await bench.rule("oldest_ready", period="90s")
    await bench.submit(await bench.job(queue="mail"))
    assert await bench.look(89) == []
    assert await bench.look(1) == [("firing", "oldest_ready", "queue:mail")]
    await (await bench.runtime.worker()).work()
    assert await bench.look() == [("resolved", "oldest_ready", "queue:mail")]


async def test_scheduler(bench: Bench) -> None:
    await bench.rule("scheduler")
    assert await bench.look() == []
    epochs = dict(bench.runtime.ownership.epochs)
    await bench.store.release_shards("node-1", {5: epochs[5]}, now=bench.runtime.clock.now())
    assert await bench.look() == [("firing", "scheduler", "shards")]
    await bench.store.take_shards("node-1", {5: epochs[5]}, now=bench.runtime.clock.now())
    assert await bench.look() == [("resolved", "scheduler", "shards")]


async def test_a_tenants_own_rule_holds_in_place_of_the_clusters(bench: Bench) -> None:
    await bench.rule("oldest_ready", period="30s")
    await bench.client.alert_rules.put("default", "oldest_ready", {"kind": "oldest_ready", "period": "1h"})
    await bench.submit(await bench.job(queue="mail"))
    assert await bench.look(60) == []


async def test_defaults_are_there_and_what_was_set_stays(bench: Bench) -> None:
    await bench.rule("dead_letters", threshold=7)
    await bench.runtime.tick("watchdog")
    rules = {rule.name: rule for rule in await bench.store.list_alert_rules()}
    assert rules["dead_letters"].threshold == 7
    assert rules["stuck_run"].period == timedelta(minutes=5)
    assert all(rule.is_default for rule in rules.values())


async def test_a_message_is_tried_again_under_its_id_and_given_up_after_a_day(bench: Bench) -> None:
    await bench.rule("no_workers", threshold=1)
    bench.post.trouble = ChannelUnavailable("503 from hooks.example.com")
    assert await bench.look() == []
    [channel] = await bench.store.list_channels()
    assert channel.last_error == "503 from hooks.example.com"
    await bench.runtime.tick("notifier")
    assert len(bench.post.tried) == 1  # not before five seconds have passed
    assert await bench.look(5) == []
    assert len(bench.post.tried) == 2
    assert len(set(bench.post.tried)) == 1
    bench.post.trouble = None
    assert await bench.look(10) == [("firing", "no_workers", "slots")]
    assert (await bench.store.list_channels())[0].last_error is None
    bench.post.trouble = ChannelUnavailable("gone")
    await bench.runtime.worker()
    await bench.look()
    await bench.look(86_400)
    assert (await bench.store.list_channels())[0].last_error == "given up after a day: gone"
    tried = len(bench.post.tried)
    await bench.look(1000)
    assert len(bench.post.tried) == tried


async def test_a_message_that_is_refused_is_not_tried_again(bench: Bench) -> None:
    await bench.rule("no_workers", threshold=1)
    bench.post.trouble = MessageRefused("404 from hooks.example.com")
    await bench.look()
    await bench.look(1000)
    assert len(bench.post.tried) == 1


async def test_who_has_lost_the_shard_saves_and_delivers_nothing(bench: Bench) -> None:
    await bench.rule("no_workers", threshold=1)
    await bench.runtime.tick("watchdog")
    ownership = bench.runtime.ownership
    epochs = dict(ownership.epochs)
    await bench.store.take_shards("node-2", {0: epochs[0]}, now=bench.runtime.clock.now())
    assert await bench.look() == []
    assert 0 not in ownership.epochs
    [alert] = await bench.store.list_open_alerts()
    assert (alert.state, alert.telling.told) == (AlertState.FIRING, {})


async def notifying(bench: Bench, **notify: Any) -> Any:
    """Add a job that tells the channel of itself."""
    return await bench.job(notify={"to": ["ops"], **notify})


async def test_a_job_tells_that_it_failed_and_has_recovered(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    worker = await bench.runtime.worker()
    await worker.work()
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    [alert] = bench.post.messages[0].alerts
    assert alert.summary.startswith("job report failed: ValueError: no customer")
    assert alert.run_id is not None
    await bench.submit(job_id)
    await worker.work()
    assert await bench.look(100) == []  # one alert tells of both
    await succeed(bench, job_id)
    assert await bench.look() == [("resolved", "job_failed", "job:report")]
    assert await bench.store.list_unnoticed(limit=10) == []


async def succeed(bench: Bench, job_id: Any) -> None:
    """Have a run of a job succeed."""
    await bench.submit(job_id)
    worker = await bench.runtime.worker()
    for lease in await worker.claim():
        await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Success()))


async def test_a_failure_is_told_though_the_next_run_has_succeeded(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    await succeed(bench, job_id)
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    assert await bench.look() == [("resolved", "job_failed", "job:report")]
    assert await bench.look(100) == []


async def test_so_many_failures_in_a_row_are_told_and_not_their_end(bench: Bench) -> None:
    job_id = await notifying(bench, failures=2, on=["failed"])
    worker = await bench.runtime.worker()
    await bench.submit(job_id)
    await worker.work()
    assert await bench.look() == []
    await bench.submit(job_id)
    await worker.work()
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    await succeed(bench, job_id)
    assert await bench.look(100) == []
    assert await bench.store.list_open_alerts() == []


async def test_a_job_tells_that_it_is_late(bench: Bench) -> None:
    await notifying(bench, late_after="15m")
    job_id = (await bench.store.list_notifying_jobs())[0].id
    await bench.submit(job_id)
    assert await bench.look(900) == []
    assert await bench.look(1) == [("firing", "job_late", "job:report")]
    [alert] = bench.post.messages[0].alerts
    assert alert.summary == "job report is late: what was due 15m1s ago has not ended"
    worker = await bench.runtime.worker()
    for lease in await worker.claim():
        await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Success()))
    assert await bench.look() == [("resolved", "job_late", "job:report")]


async def test_the_alert_of_a_job_that_is_deleted_ends(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    await bench.client.jobs.delete("default", job_id)
    assert await bench.look() == [("resolved", "job_failed", "job:report")]


async def test_a_channel_that_does_not_exist_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidInput) as caught:
        await bench.job(notify={"to": ["opps"]})
    assert (caught.value.field, caught.value.message) == (
        "notify.to[0]",
        "there is no channel 'opps': set it first, by `mainspring channel set`; there are ops",
    )


async def test_the_overview_names_the_worst_alert_without_the_error(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.rule("dead_letters", threshold=0)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    await bench.look()
    overview = await bench.client.overviews.read("default")
    assert [one.sentence for one in overview.attention if one.kind == "alerts"] == [
        "2 alerts fire: job report failed and 1 more; see mainspring alert list"
    ]
    elsewhere = await bench.client.overviews.read("shop")
    assert [one for one in elsewhere.attention if one.kind == "alerts"] == []
