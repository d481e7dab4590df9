"""docs/howto/use-your-transaction.md: the rights that it grants are enough, and its schema is found."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from mainspring.core.ids import parse_run_id
from mainspring.core.states import RunState
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores.postgres.schema import migrate
from mainspring.testing import ManualRuntime
from mainspring.testing.clock import FakeClock
from mainspring.worker.attempt import make_context
from tests.integration.test_transactional_submission import add, add_all, app, bill, sync
from tests.support.postgres import execute, temporary_database
from tests.support.postgres_databases import open_store

PAGE = Path(__file__).parents[2] / "docs/howto/use-your-transaction.md"
FLOWS = 48
"""The migration from which on the end of a run may write mail."""
OWNER, SHOP = f"mainspring_{os.getpid()}", f"shop_{os.getpid()}"


def statements() -> list[str]:
    """Return the SQL of the page, for roles of this test's own: roles are shared by all databases of a server."""
    blocks = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    text = "\n".join(blocks)
    text = text.replace("AUTHORIZATION mainspring", f"AUTHORIZATION {OWNER}")
    text = text.replace("ROLE mainspring", f"ROLE {OWNER}").replace("TO shop", f"TO {SHOP}")
    return [one.strip() for one in re.sub(r"--.*", "", text).split(";") if one.strip()]


@pytest.fixture
def shared_database(postgres_server: str) -> Iterator[tuple[str, str, str]]:
    """A database of a shop with Mainspring in a schema; the addresses for the superuser, the servers and the shop."""
    host = postgres_server.rpartition("@")[2]
    for role in (OWNER, SHOP):
        execute(postgres_server, f"CREATE ROLE {role} LOGIN")
    try:
        with temporary_database(postgres_server) as dsn:
            name = dsn.rpartition("/")[2]
            execute(postgres_server, f'REVOKE ALL ON DATABASE "{name}" FROM PUBLIC')
            execute(postgres_server, f'GRANT CONNECT ON DATABASE "{name}" TO {OWNER}, {SHOP}')
            yield dsn, f"postgresql://{OWNER}@{host}/{name}", f"postgresql://{SHOP}@{host}/{name}"
    finally:
        for role in (OWNER, SHOP):
            execute(postgres_server, f"DROP ROLE {role}")


async def test_documented_rights_are_enough(shared_database: tuple[str, str, str]) -> None:
    root_dsn, owner_dsn, shop_dsn = shared_database
    root = await asyncpg.connect(root_dsn)
    schema, grants = statements()[:2], statements()[2:]
    for statement in schema:
        await root.execute(statement)
    clock = FakeClock(datetime.now(UTC))
    async with open_store(owner_dsn) as store:
        await add_all(store)
        for statement in grants:
            await root.execute(statement)
        shop = await asyncpg.connect(shop_dsn)
        async with shop.transaction():
            handles = [
                await add.options(connection=shop).enqueue(x=1),
                await add.options(connection=shop, idempotency_key="k", priority="LOW").enqueue(x=1),
                await sync.options(connection=shop).enqueue(order="o-1"),
                await bill.options(connection=shop).enqueue(customer="c-1"),
            ]
            assert await sync.options(connection=shop).enqueue(order="o-1") == handles[2]
        async with ManualRuntime(app.registry, store=store, clock=clock) as runtime:
            worker = await runtime.worker()
            clock.advance(5)
            await runtime.tick()
            leases = []
            while more := await worker.claim():  # those with keys come apart
                leases += more
            assert {lease.run_id for lease in leases} == {parse_run_id(handle.id) for handle in handles}
            for lease in leases:
                attempt = make_context(lease, worker.session_id)
                async with shop.transaction():
                    await app.complete(shop, attempt=attempt)
            states = [run.state for run in await store.get_runs([lease.run_id for lease in leases]) if run]
    assert states == [RunState.SUCCEEDED] * 4
    await shop.close()
    await root.close()


async def test_who_could_complete_before_there_was_mail_still_can(
    shared_database: tuple[str, str, str],
) -> None:
    root_dsn, owner_dsn, _ = shared_database
    root, owner = await asyncpg.connect(root_dsn), await asyncpg.connect(owner_dsn)
    await root.execute(statements()[0])
    await root.execute(f"ALTER ROLE {OWNER} SET search_path TO mainspring")
    available = read_migrations("mainspring.stores.postgres")
    before = tuple(one for one in available if one.number < FLOWS)
    await owner.execute("SET search_path TO mainspring")
    await migrate(owner, migrations=before)
    await root.execute(f"GRANT SELECT, UPDATE, DELETE ON mainspring.run TO {SHOP}")
    await migrate(owner)
    may = "SELECT has_table_privilege($1, 'mainspring.mail', $2)"
    assert [await root.fetchval(may, SHOP, right) for right in ("INSERT", "SELECT", "DELETE")] == [
        True,
        False,
        False,
    ]
    await owner.close()
    await root.close()
