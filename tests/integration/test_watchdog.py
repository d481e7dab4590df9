"""Each kind of rule on the three stores: what is wrong fires, what is mended ends, and both are told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.access import Account, LoginWay
from mainspring.core.alerting import Verdict
from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.monitors import PingKind
from mainspring.core.notifications import AlertState, Message
from mainspring.core.pauses import PauseScope
from mainspring.core.rights import ALL_TENANTS, AccessRole
from mainspring.engine.scheduling.notifier import AT_ONCE, LEASE, LONGEST_SEND, Notifier
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable, TookTooLong
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Report
from mainspring.ports.store import Store
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.alerts import AlertsSaved
from mainspring.registry import FunctionRegistry
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.alert_facts import make_token
from mainspring.testing.conformance.alerts import make_outgoing, save_verdict
from mainspring.testing.factories import at
from mainspring.testing.manual import ManualRuntime

KEPT = Retention().history.total_seconds()
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
        await self.runtime.services["notifier"].tick(self.runtime.clock.now())
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


async def test_token_expiry_of_an_account_that_does_not_sign_in(bench: Bench) -> None:
    await bench.rule("token_expiry", period="2d")
    root = Account(name="root", grants={"*": AccessRole.ADMIN}, created_at=at(0))
    ann = Account(name="ann", grants={}, created_at=at(0), issuer="https://login.example.com", subject="1")
    for account in (root, ann):
        await bench.store.write_account(account)
    assert await bench.store.add_token(NewToken(make_token("aaaaaaaa", None), b"a" * 32))
    day = 86_400.0
    assert await bench.look(28 * day) == []
    assert await bench.look(100) == [("firing", "token_expiry", "token:aaaaaaaa")]
    [told] = bench.post.messages[0].alerts
    assert told.summary.endswith("expires in 1d23h58m, unless that signs in again"), told.summary
    login = replace(
        make_token("ssssssss", 40 * day), login=LoginWay.OIDC, created_at=bench.runtime.clock.now()
    )
    await bench.store.add_session(NewToken(login, b"s" * 32), password=None, forgets=at(0))
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


async def test_a_verdict_that_is_carried_out_late_tells_nothing_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller gave it up and judged again; meanwhile, the store works on what it was asked for."""
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    await bench.runtime.tick("watchdog")
    late: list[tuple[Verdict, dict[str, Any]]] = []

    async def wait_in_vain(verdict: Verdict, **given: Any) -> AlertsSaved:
        late.append((verdict, given))
        raise StoreUnavailable("no answer came in time")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "save_alerts", wait_in_vain)
        with pytest.raises(StoreUnavailable):
            await bench.runtime.tick("watchdog")
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    [(verdict, given)] = late
    assert len(verdict.outgoing) == 1
    assert await bench.store.save_alerts(verdict, **given) is AlertsSaved.OUTDATED
    assert await bench.look() == []


async def test_a_watchdog_whose_verdict_is_outdated_judges_again_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    await bench.runtime.tick("watchdog")
    read, epochs = bench.store.list_open_alerts, {0: bench.runtime.ownership.epochs[0]}

    async def save_another(*given: Any) -> Any:
        outgoing = make_outgoing("other", f"{ALL_TENANTS}/ops")
        now = bench.runtime.clock.now()
        saved = await save_verdict(bench.store, Verdict(outgoing=(outgoing,)), epochs=epochs, now=now)
        assert saved is AlertsSaved.DONE
        return await read(*given)

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "list_open_alerts", save_another)
        now = bench.runtime.clock.now()
        assert await bench.runtime.services["watchdog"].tick(now) < 1
    assert 0 in bench.runtime.ownership.epochs
    assert ("firing", "job_failed", "job:report") in await bench.look()


async def test_other_work_goes_on_between_rules(bench: Bench) -> None:
    for number in range(50):
        await bench.rule(f"dead-{number}", kind="dead_letters")
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(take_turns())
    await bench.runtime.tick("watchdog")
    task.cancel()
    assert turns >= 50


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


async def test_failures_beyond_the_kept_history_are_not_in_a_row(bench: Bench) -> None:
    """Runs that have succeeded between them may not be kept any more."""
    job_id = await notifying(bench, failures=2)
    worker = await bench.runtime.worker()
    await bench.submit(job_id)
    await worker.work()
    assert await bench.look(KEPT + 1) == []
    for told in ([], [("firing", "job_failed", "job:report")]):
        await bench.submit(job_id)
        await (await bench.runtime.worker()).work()
        assert await bench.look() == told


async def test_a_failure_that_was_told_goes_on_beyond_the_kept_history(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    told = ("job_failed", "job:report")
    assert await bench.look() == [("firing", *told)]
    assert await bench.look(KEPT + 1) == [("repeat", *told)]
    await succeed(bench, job_id)
    assert await bench.look() == [("resolved", *told)]


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
    assert await bench.look() == []  # it has not recovered
    assert await bench.store.list_open_alerts() == []


async def test_the_alert_of_a_job_that_tells_nothing_any_more_ends_without_a_word(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    await bench.client.jobs.edit("default", job_id, {"notify": None})
    assert await bench.look() == []
    assert await bench.store.list_open_alerts() == []


async def test_a_failure_that_is_dealt_with_ends(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    await bench.client.dead_letters.discard("default", DeadFilter(until=at(10_000_000)), reason="test")
    assert await bench.look() == [("resolved", "job_failed", "job:report")]


async def test_failures_from_before_a_job_told_nothing_are_not_told_later(bench: Bench) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    assert len(await bench.store.list_unnoticed(limit=10)) == 1
    await bench.client.jobs.edit("default", job_id, {"notify": None})
    assert await bench.store.list_unnoticed(limit=10) == []
    await succeed(bench, job_id)
    await bench.client.jobs.edit("default", job_id, {"notify": {"to": ["ops"]}})
    assert await bench.look() == []


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


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("dead_letters", "read_census"),
        ("no_workers", "read_lanes"),
        ("no_workers", "list_sessions"),
        ("oldest_ready", "read_lanes"),
    ],
)
async def test_what_could_not_be_read_neither_fires_nor_ends(
    bench: Bench, name: str, reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.rule(name, **({"threshold": 0} if name == "dead_letters" else {"period": "1m"}))
    job_id = await bench.job(queue="mail")
    await bench.submit(job_id)
    if name == "dead_letters":
        await (await bench.runtime.worker()).work()
    [told] = await bench.look(60)
    await bench.rule("missed_run", period="1s")
    await bench.job(name="each_minute", cron="* * * * *")
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, reads, take_too_long)
        # What else is judged goes on.
        assert await bench.look(120) == [("firing", "missed_run", "clocks")]
    assert len(await bench.store.list_open_alerts()) == 2
    assert told[:2] == ("firing", name)


async def take_too_long(*_arguments: Any, **_settings: Any) -> Any:
    raise TookTooLong("stopped at its limit")


@pytest.mark.parametrize("reads", ["find_failing", "list_unnoticed", "list_notifying_jobs"])
async def test_failures_that_could_not_be_read_stay_unnoticed(
    bench: Bench, reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await notifying(bench)
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, reads, take_too_long)
        assert await bench.look() == []
    assert await bench.look() == [("firing", "job_failed", "job:report")]
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, reads, take_too_long)
        patch.setattr(bench.store, "find_late", take_too_long)
        assert await bench.look() == []
    [alert] = await bench.store.list_open_alerts()
    assert alert.state is AlertState.FIRING


async def test_lanes_are_read_in_slices_and_only_for_rules_that_tell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, Any]] = []
    read = bench.store.read_lanes

    async def note(queues: Any, **settings: Any) -> Any:
        asked.append((tuple(queues), settings["limit"]))
        return await read(queues, **settings)

    monkeypatch.setattr(bench.store, "read_lanes", note)
    monkeypatch.setattr("mainspring.engine.scheduling.alert_reading._SLICE", 2)
    await bench.rule("no_workers", channels=[])
    for number in range(5):
        await bench.submit(await bench.job(name=f"job_{number}", queue=f"q{number}"))
    assert await bench.look(1000) == []
    assert asked == []
    await bench.rule("oldest_ready", period="90s")
    told = await bench.look(1)
    assert sorted(told) == [("firing", "oldest_ready", f"queue:q{number}") for number in range(5)]
    assert asked[:3] == [(("q0", "q1", "q2", "q3", "q4"), 2)] * 3


async def test_jobs_that_are_not_looked_at_this_time_stay_as_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.job_alerts._PAGE", 2)
    jobs = [await bench.job(name=f"job_{number}", notify={"to": ["ops"]}) for number in range(5)]
    for job_id in jobs:
        await bench.submit(job_id)
    worker = await bench.runtime.worker()
    await worker.work()
    assert len(await bench.look()) == 5
    assert await bench.look(100) == []
    for job_id in jobs:
        await succeed(bench, job_id)
    ended = [told for _ in range(3) for told in await bench.look()]
    assert sorted(ended) == [("resolved", "job_failed", f"job:job_{number}") for number in range(5)]


async def test_a_tenant_has_only_so_many_rules_channels_and_silences(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, most in [
        ("alerts.MOST_RULES_OF_TENANT", 1),
        ("alerts.MOST_SILENCES_OF_TENANT", 1),
        ("channels.MOST_CHANNELS_OF_TENANT", 1),
    ]:
        monkeypatch.setattr(f"mainspring.engine.usecases.{place}", most)
    client, body = bench.client, {"kind": "dead_letters"}

    async def silence() -> None:
        await client.alerts.add_silence(
            "shop",
            rule=None,
            subject=None,
            from_at=None,
            period=timedelta(minutes=1),
            reason="r",
            made_by="ann",
        )

    await client.alert_rules.put("shop", "first", body)
    await client.channels.put("shop", "first", PLACE)
    await silence()
    await client.alert_rules.put("shop", "first", body)  # what is there can be changed
    await client.channels.put("shop", "first", PLACE)
    with pytest.raises(Conflict, match="of at most 1 alert rules"):
        await client.alert_rules.put("shop", "second", body)
    with pytest.raises(Conflict, match="of at most 1 channels"):
        await client.channels.put("shop", "second", PLACE)
    with pytest.raises(Conflict, match="of at most 1 silences"):
        await silence()
    bench.runtime.clock.advance(60)
    await silence()  # the other is over
    await client.alert_rules.put("bank", "first", body)


async def test_a_rule_of_a_tenant_finds_only_its_own(bench: Bench) -> None:
    await bench.client.alert_rules.put("shop", "mine", {"kind": "dead_letters", "threshold": 0})
    job_id = await bench.job(queue="mail")
    await bench.submit(job_id)
    await (await bench.runtime.worker()).work()
    await bench.look()
    assert await bench.store.list_open_alerts() == []


class SlowPost(Post):
    """One receiver takes its time, and one breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.waiting = 0
        self.told_all = asyncio.Event()

    async def send(self, config: ChannelConfig, message: Message) -> None:
        assert message.channel_tenant is not None
        if message.channel_tenant == "slow":
            self.waiting += 1
            await self.may_answer.wait()
        if message.channel_tenant == "broken":
            raise RuntimeError("a bug")
        await super().send(config, message)
        if message.channel_tenant == "fast":
            self.told_all.set()


async def test_a_slow_receiver_and_a_broken_one_hold_up_no_other(bench: Bench) -> None:
    post = SlowPost()
    notifier = bench.runtime.services["notifier"]
    assert isinstance(notifier, Notifier)
    notifier._sender = post
    now = bench.runtime.clock.now()
    for tenant in ("slow", "broken", "fast"):
        await bench.client.channels.put(tenant, "ops", PLACE)
    outgoing = [make_outgoing(f"g{number}", channel="slow/ops") for number in range(60)]
    outgoing += [make_outgoing(channel="broken/ops"), make_outgoing(channel="fast/ops")]
    outgoing = [
        replace(one, message=replace(one.message, channel_tenant=one.channel.partition("/")[0]))
        for one in outgoing
    ]
    await bench.runtime.tick("watchdog")
    epochs = {0: bench.runtime.ownership.epochs[0]}
    assert (
        await save_verdict(bench.store, Verdict(outgoing=tuple(outgoing)), epochs=epochs, now=now)
        is AlertsSaved.DONE
    )
    tick = asyncio.create_task(notifier.tick(now))
    await post.told_all.wait()
    assert AT_ONCE <= post.waiting < 2 * AT_ONCE
    post.may_answer.set()
    await tick
    assert len(post.messages) == 61
    errors = {one.tenant: one.last_error for one in await bench.store.list_channels()}
    assert errors["broken"] == "it broke: RuntimeError"
    assert errors["slow"] is None


async def test_a_delivery_has_a_limit_below_the_lease(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LEASE.total_seconds() > LONGEST_SEND
    monkeypatch.setattr("mainspring.engine.scheduling.notifier.LONGEST_SEND", 0.001)
    post = SlowPost()
    notifier = bench.runtime.services["notifier"]
    assert isinstance(notifier, Notifier)
    notifier._sender = post
    await bench.client.channels.put("slow", "ops", PLACE)
    outgoing = make_outgoing(channel="slow/ops")
    outgoing = replace(outgoing, message=replace(outgoing.message, channel_tenant="slow"))
    await bench.runtime.tick("watchdog")
    epochs, now = {0: bench.runtime.ownership.epochs[0]}, bench.runtime.clock.now()
    assert (
        await save_verdict(bench.store, Verdict(outgoing=(outgoing,)), epochs=epochs, now=now)
        is AlertsSaved.DONE
    )
    await notifier.tick(now)
    errors = {one.tenant: one.last_error for one in await bench.store.list_channels()}
    assert errors["slow"] == "no answer within 0.001 s"


@pytest.mark.parametrize("how", ["refused", "disabled"])
async def test_what_was_never_told_is_told_once_the_channel_is_mended(bench: Bench, how: str) -> None:
    await bench.rule("no_workers", threshold=1)
    bench.post.trouble = ChannelUnavailable("away")
    assert await bench.look() == []
    if how == "refused":
        bench.post.trouble = MessageRefused("404")
    else:
        await bench.client.channels.put(ALL_TENANTS, "ops", {**PLACE, "enabled": False})
    assert await bench.look() == []
    assert await bench.look(120) == []
    tried = len(bench.post.tried)
    bench.post.trouble = None
    assert await bench.look(120) == []
    assert len(bench.post.tried) == tried  # nothing says yet that it is mended
    await bench.client.channels.put(ALL_TENANTS, "ops", PLACE)
    assert await bench.look() == [("firing", "no_workers", "slots")]
    await bench.runtime.worker()
    assert await bench.look() == [("resolved", "no_workers", "slots")]


@pytest.mark.parametrize("how", ["refused", "deleted", "too_late"])
async def test_the_end_of_what_was_never_told_is_not_told(bench: Bench, how: str) -> None:
    await bench.rule("no_workers", threshold=1)
    bench.post.trouble = ChannelUnavailable("away")
    assert await bench.look() == []
    await bench.runtime.worker()
    assert await bench.look() == []  # its end waits behind it
    if how == "deleted":
        await bench.client.channels.delete(ALL_TENANTS, "ops")
        await bench.client.channels.put(ALL_TENANTS, "ops", PLACE)
    else:
        bench.post.trouble = MessageRefused("404")
        await bench.look(86_400 if how == "too_late" else 30)
    bench.post.trouble = None
    assert await bench.look(60) == []
    assert await bench.look(60) == []
    assert await bench.store.list_undelivered(limit=10) == []


def test_a_tick_whose_loop_is_gone_waits_for_nothing() -> None:
    async def begin() -> Coroutine[Any, Any, float]:
        clock, post = FakeClock(), SlowPost()
        store = MemoryStore(time=clock.now)
        async with ManualRuntime(FunctionRegistry(), store=store, clock=clock, sender=post) as runtime:
            await runtime.client.channels.put("slow", "ops", PLACE)
            outgoing = make_outgoing(channel="slow/ops")
            outgoing = replace(outgoing, message=replace(outgoing.message, channel_tenant="slow"))
            await runtime.tick("watchdog")
            epochs, now = {0: runtime.ownership.epochs[0]}, clock.now()
            assert (
                await save_verdict(store, Verdict(outgoing=(outgoing,)), epochs=epochs, now=now)
                is AlertsSaved.DONE
            )
            notifier = runtime.services["notifier"]
            assert isinstance(notifier, Notifier)
            ticking = notifier.tick(now)
            ticking.send(None)  # as far as to a receiver that does not answer
            return ticking

    ticking = asyncio.run(begin())
    ticking.close()
