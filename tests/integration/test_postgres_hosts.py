"""A DSN that names several hosts: dead ones, silent ones, and those that may only be read."""

import asyncio
import random
from collections.abc import Iterator

import asyncpg
import pytest

from mainspring.config import StoreLocation
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import Hint
from mainspring.stores.postgres import ConnectionOptions, PostgresHints, PostgresStore
from mainspring.stores.postgres.connecting import Role, split_hosts
from mainspring.testing.factories import add_job, submit
from tests.support.postgres import execute, temporary_database
from tests.support.postgres_databases import open_store
from tests.support.proxy import Flow, open_proxy

pytestmark = pytest.mark.postgres

DEAD = "127.0.0.1:1"


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    with temporary_database(postgres_server) as dsn:
        yield dsn


def with_hosts(dsn: str, *hosts: str, suffix: str = "") -> str:
    """Name other hosts, and leave the rest of the DSN."""
    base, _, database = dsn.rpartition("/")
    user = base.rpartition("@")[0]
    return f"{user}@{','.join(hosts)}/{database}{suffix}"


def host_of(dsn: str) -> str:
    return dsn.rpartition("/")[0].rpartition("@")[2]


def test_every_host_is_a_dsn_of_its_own() -> None:
    assert split_hosts("postgresql://u:p@a:1,b:2/db?x=y") == [
        "postgresql://u:p@a:1/db?x=y",
        "postgresql://u:p@b:2/db?x=y",
    ]
    assert split_hosts("postgresql:///db?host=/run") == ["postgresql:///db?host=/run"]
    assert split_hosts("postgresql://[::1]:5,[::2]/db") == [
        "postgresql://[::1]:5/db",
        "postgresql://[::2]/db",
    ]


async def test_store_and_hints_pass_over_a_dead_host(dsn: str) -> None:
    several = with_hosts(dsn, DEAD, host_of(dsn), suffix="?target_session_attrs=read-write")
    assert StoreLocation.parse(several).target == several
    async with open_store(several) as store:
        assert len(await submit(store, await add_job(store))) == 1
    channel = PostgresHints(several)
    await channel.connect(lambda hint, ready: None, lambda: None)
    await channel.send([Hint.RUNS])
    await channel.close()


async def test_silent_host_does_not_keep_from_the_other(dsn: str) -> None:
    async with open_proxy(dsn) as silent:
        silent.flow = Flow.DROP
        options = ConnectionOptions(
            with_hosts(dsn, f"127.0.0.1:{silent.port}", host_of(dsn), suffix="?sslmode=disable"),
            connect_timeout=3.0,
        )
        async with open_store(options) as store:
            assert len(await submit(store, await add_job(store))) == 1
        assert silent.hellos, "every host is asked, every time"


async def test_look_at_a_silent_host_holds_up_no_call(dsn: str) -> None:
    """As after a failover, when the old primary's host is off the net: every look waits for it."""
    async with open_proxy(dsn) as silent:
        options = ConnectionOptions(
            with_hosts(dsn, host_of(dsn), f"127.0.0.1:{silent.port}", suffix="?sslmode=disable"),
            connect_timeout=30.0,
        )
        async with open_store(options) as store:
            connections = store._connections
            for role in Role:
                await connections.fetch(role, "read_time", is_repeatable=True)
            silent.flow = Flow.DROP
            before = len(silent.hellos)
            looking = asyncio.create_task(connections.look())
            while len(silent.hellos) == before:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
            for role in Role:
                await asyncio.wait_for(connections.fetch(role, "read_time", is_repeatable=True), 20)
            assert not looking.done()
            looking.cancel()
            await asyncio.wait([looking])


async def test_host_that_may_only_be_read_is_passed_over_also_after_a_failover(
    dsn: str, postgres_server: str
) -> None:
    """The standby is another database of the same server, to which a proxy leads under the first one's name."""
    async with open_store(dsn):
        pass
    name = dsn.rpartition("/")[2]
    other = name.replace("test_", "rest_")
    await asyncio.to_thread(execute, postgres_server, f'CREATE DATABASE "{other}" TEMPLATE "{name}"')
    try:
        await set_read_only(postgres_server, other)
        async with open_proxy(dsn) as first, open_proxy(dsn, rewrite=(b"test_", b"rest_")) as second:
            several = with_hosts(dsn, f"127.0.0.1:{second.port}", f"127.0.0.1:{first.port}")
            async with open_store(ConnectionOptions(several, connect_timeout=20.0)) as store:
                assert len(await submit(store, await add_job(store))) == 1
                assert await count_runs(postgres_server, name) == 1
                await set_read_only(postgres_server, name)
                await set_read_only(postgres_server, other, value=False)
                first.reset()
                while first.connections:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.01)
                assert len(await submit(store, await add_job(store))) == 1
                assert await count_runs(postgres_server, other) == 1
    finally:
        await asyncio.to_thread(execute, postgres_server, f'DROP DATABASE "{other}" WITH (FORCE)')


async def test_hosts_that_may_all_only_be_read_are_unavailable(dsn: str, postgres_server: str) -> None:
    await set_read_only(postgres_server, dsn.rpartition("/")[2])
    store = PostgresStore(with_hosts(dsn, DEAD, host_of(dsn)), random=random.Random(1))
    with pytest.raises(StoreUnavailable, match="target attribute"):
        await store.open()
    standing_alone = PostgresStore(dsn, random=random.Random(1))
    with pytest.raises(StoreUnavailable, match="read-only"):
        await standing_alone.open()


async def test_write_that_was_refused_as_read_only_is_tried_on_a_new_connection(dsn: str) -> None:
    """As on a primary that became a standby while connections to it lasted: a trigger refuses the first insert."""
    async with open_store(dsn) as store:
        job = await add_job(store)
        await submit(store, job)
        raw = await asyncpg.connect(dsn)
        await raw.execute(
            "CREATE SEQUENCE refusals; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('refusals') = 1 THEN RAISE 'standby' USING ERRCODE = '25006'; END IF; RETURN new; END $$;"
            " CREATE TRIGGER refuse BEFORE INSERT ON run FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        assert len(await submit(store, job)) == 1
        assert await raw.fetchval("SELECT count(*) FROM run") == 2
        await raw.close()


async def set_read_only(server: str, name: str, *, value: bool = True) -> None:
    """Make a database as a standby is, for those who connect from now on."""
    word = "on" if value else "off"
    statement = f'ALTER DATABASE "{name}" SET default_transaction_read_only = {word}'
    await asyncio.to_thread(execute, server, statement)


async def count_runs(server: str, name: str) -> int:
    connection = await asyncpg.connect(f"{server}/{name}")
    try:
        return int(await connection.fetchval("SELECT count(*) FROM run"))
    finally:
        await connection.close()
