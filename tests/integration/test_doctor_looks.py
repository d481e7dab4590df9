"""What the doctor sees in a store: the same in both dialects."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from mainspring.clock import host_time, monotonic, system_random
from mainspring.core.access import AccessToken, Account, LoginWay
from mainspring.core.doctor import ChannelLook, NodeLook, StoreLook, TokenLook, WaitingQueue
from mainspring.core.rights import AccessRole
from mainspring.core.shards import Refusal
from mainspring.ports.doctor import StoreExaminer
from mainspring.ports.store import Store
from mainspring.ports.store.access import NewToken
from mainspring.ports.store.nodes import NodeFacts
from mainspring.ports.store.sessions import NewSession
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres.doctor import PostgresExaminer
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.doctor import SqliteExaminer

Execute = Callable[[str], Awaitable[object]]
BOTH = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


class Subject:
    """A store, what looks at it, and a way around its verbs."""

    def __init__(
        self, store: Store, examiner: StoreExaminer, execute: Execute, *, instant: Callable[[float], str]
    ) -> None:
        self.store = store
        self._examiner = examiner
        self.execute = execute
        self.instant = instant
        self.now = datetime.now(UTC)

    async def look(self) -> StoreLook:
        return await self._examiner.look(monotonic=monotonic, now=host_time)


@pytest.fixture(params=BOTH)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    now = datetime.now(UTC)
    if request.param == "sqlite":
        path = tmp_path / "mainspring.db"
        sqlite = SqliteStore(path)
        await sqlite.open()

        async def execute(text: str) -> None:
            with apsw.Connection(str(path)) as db:
                db.set_busy_timeout(10_000)
                db.execute(text)
            db.close()

        yield Subject(
            sqlite,
            SqliteExaminer(path),
            execute,
            instant=lambda ago: str(round((now.timestamp() - ago) * 1e6)),
        )
        await sqlite.close()
        return
    dsn = request.getfixturevalue("postgres_database")
    postgres = PostgresStore(dsn, random=system_random())
    await postgres.open()
    connection: Any = await asyncpg.connect(dsn)
    yield Subject(
        postgres,
        PostgresExaminer(ConnectionOptions(dsn), label="here"),
        connection.execute,
        instant=lambda ago: f"'{(now - timedelta(seconds=ago)).isoformat()}'::timestamptz",
    )
    await connection.close()
    await postgres.close()


async def test_a_new_store_has_nothing_that_is_wrong(subject: Subject) -> None:
    found = await subject.look()
    assert (found.error, found.schema is not None, abs(found.clock_ahead) < 5) == (None, True, True)
    cluster = found.cluster
    assert cluster is not None
    assert (cluster.free_shards, cluster.jobs, cluster.accounts, cluster.dead) == (256, 0, 0, 0)
    assert (cluster.overdue, cluster.overdue_by, cluster.unsealed_for) == (0, 0, None)
    assert (cluster.nodes, cluster.queues, cluster.tokens, cluster.channels) == ([], [], [], [])
    assert (cluster.workers, cluster.slots, cluster.ledger) == (0, 0, None)


async def test_servers_and_shards_are_seen(subject: Subject) -> None:
    facts = NodeFacts(id="n", host="a", pid=1, version="1.0", tzdata="2026a")
    await subject.store.beat_node(
        facts, period=timedelta(seconds=2), refusal=Refusal.CLOCK, now=subject.now - timedelta(seconds=30)
    )
    await subject.store.take_shards("n", {0: 0, 1: 0}, now=subject.now)
    await subject.store.take_shards("gone", {2: 0}, now=subject.now)
    cluster = (await subject.look()).cluster
    assert cluster is not None
    [node] = cluster.nodes
    assert 30 <= node.silent < 300
    expected = NodeLook(host="a", version="1.0", tzdata="2026a", refusal="clock", silent=0, period=2)
    assert replace(node, silent=0) == expected
    assert cluster.free_shards == 254, "the third one's owner is no node any more"


async def test_queues_without_a_worker_are_seen(subject: Subject) -> None:
    run = (
        "INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms)"
        " SELECT {id}, {job}, 1, lane.id, 'manual', '{state}', {at}, {at}, {at}, 1 FROM lane WHERE queue = '{queue}'"
    )
    job = "'00000000-0000-0000-0000-000000000000'" if "::" in subject.instant(0) else "zeroblob(16)"
    for queue in ("mail", "soon", "paused", "served"):
        await subject.execute(
            f"INSERT INTO lane (queue, route, tenant, priority) VALUES ('{queue}', 'r', 't', 1)"
        )
    for number, queue, ago in (
        (1, "mail", 60),
        (2, "mail", 90),
        (3, "soon", -600),
        (4, "paused", 60),
        (5, "served", 60),
    ):
        values = {
            "id": number * 256,
            "job": job,
            "state": "PENDING",
            "queue": queue,
            "at": subject.instant(ago),
        }
        await subject.execute(run.format(**values))
    await subject.execute(
        "INSERT INTO pause (scope, name, mode, note, made_by, since)"
        f" VALUES ('queue', 'paused', 'hold', '', 'me', {subject.instant(0)})"
    )
    one = NewSession(worker="w", host="h", pid=1, slots=4, queues=("served",))
    of_a_server = replace(
        one, queues=(), types=("workflow",)
    )  # it begins workflows, and carries out nothing else
    await subject.store.add_sessions([one, of_a_server], now=subject.now)
    cluster = (await subject.look()).cluster
    assert cluster is not None
    [found] = cluster.queues
    assert 90 <= found.oldest < 300
    assert replace(found, oldest=0) == WaitingQueue(queue="mail", runs=2, oldest=0)
    assert (cluster.workers, cluster.slots) == (1, 4)
    await subject.store.add_sessions([replace(one, queues=())], now=subject.now)
    cluster = (await subject.look()).cluster
    assert cluster is not None
    assert cluster.queues == [], "who names no queue serves all"


async def test_tokens_that_end_soon_are_seen(subject: Subject) -> None:
    account = Account(name="bot", grants={"*": AccessRole.ADMIN}, created_at=subject.now)

    def token(prefix: str, days: float | None, **more: Any) -> NewToken:
        ends = None if days is None else subject.now + timedelta(days=days)
        made = AccessToken(
            prefix=prefix,
            account="bot",
            name=prefix,
            role=AccessRole.ADMIN,
            tenant="*",
            created_at=subject.now,
            expires_at=ends,
            **more,
        )
        return NewToken(made, prefix.encode())

    await subject.store.add_first_token(account, token("forever0", None))
    for new in (token("soon0000", 5), token("later000", 15), token("over0000", -1), token("old00000", 3)):
        assert await subject.store.add_token(new)
    assert await subject.store.add_token(token("new00000", 90, replaces="old00000"))
    assert await subject.store.add_token(token("revoked0", 5))
    await subject.execute(f"UPDATE token SET revoked_at = {subject.instant(1)} WHERE prefix = 'revoked0'")
    assert await subject.store.add_token(token("session0", 0.5, login=LoginWay.PASSWORD))
    cluster = (await subject.look()).cluster
    assert cluster is not None
    [found] = cluster.tokens
    assert abs(found.ends_in - 5 * 86_400) < 300
    assert replace(found, ends_in=0) == TokenLook(name="soon0000", account="bot", ends_in=0)
    assert cluster.accounts == 1
    await subject.execute("DELETE FROM token WHERE prefix = 'session0'")
    await subject.execute("DELETE FROM migration WHERE number >= 40")
    await subject.execute("ALTER TABLE token DROP COLUMN login")
    cluster = (await subject.look()).cluster
    assert cluster is not None
    assert [one.name for one in cluster.tokens] == ["soon0000"], "a store from before there were sessions"


async def test_tokens_of_an_account_that_does_not_sign_in_are_seen(subject: Subject) -> None:
    joined = subject.now - timedelta(days=20)
    root = Account(name="root", grants={"*": AccessRole.ADMIN}, created_at=joined)
    bea = Account(name="bea", grants={}, created_at=joined, issuer="https://login.example.com", subject="1")
    for account in (root, bea):
        await subject.store.write_account(account)
        made = AccessToken(
            prefix=f"{account.name:_<8}",
            account=account.name,
            name="ci",
            role=AccessRole.VIEWER,
            tenant="*",
            created_at=joined,
        )
        assert await subject.store.add_token(NewToken(made, account.name.encode()))
    cluster = (await subject.look()).cluster
    assert cluster is not None
    [found] = cluster.tokens
    assert abs(found.ends_in - 10 * 86_400) < 300
    assert replace(found, ends_in=0) == TokenLook(
        name="ci", account="bea", ends_in=0, is_renewed_by_login=True
    )


async def test_clocks_channels_and_entries_that_wait_are_seen(subject: Subject) -> None:
    job = "'0{0}000000000000000000000000000000'"  # a uuid to PostgreSQL
    if "::" not in subject.instant(0):
        job = f"x{job}"
    for number, ago in ((1, -600), (2, 90), (3, 200)):
        await subject.execute(
            "INSERT INTO job_clock (job_id, shard, revision, priority, next_fire_at, due_at)"
            f" VALUES ({job.format(number)}, 0, 0, 1, {subject.instant(ago)}, {subject.instant(ago)})"
        )
    await subject.execute(
        "INSERT INTO channel (tenant, name, settings, last_error) VALUES ('t', 'ops', '{}', 'no host')"
    )
    await subject.execute("INSERT INTO channel (tenant, name, settings) VALUES ('t', 'well', '{}')")
    for sent in ("NULL", subject.instant(0)):
        await subject.execute(
            "INSERT INTO notification (channel_tenant, channel, message_group, message, made_at, next_at, sent_at)"
            f" VALUES ('t', 'ops', 'g', '{{}}', {subject.instant(9)}, {subject.instant(9)}, {sent})"
        )
    await subject.execute(
        "INSERT INTO audit (at, tenant, actor, actor_kind, action, subject_kind, subject_id, outcome)"
        f" VALUES ({subject.instant(400)}, 't', 'me', 'local', 'edit_job', 'job', 'j', 'done')"
    )
    cluster = (await subject.look()).cluster
    assert cluster is not None
    assert cluster.overdue == 2
    assert 200 <= cluster.overdue_by < 500
    assert cluster.channels == [ChannelLook(tenant="t", name="ops", error="no host", waiting=1)]
    assert cluster.unsealed_for is not None
    assert 400 <= cluster.unsealed_for < 700
