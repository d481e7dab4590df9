"""A first start that cannot go well ends with one line that names the remedy, and never with a traceback."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mainspring.errors import StoreUnavailable
from tests.processes.processes import run, running
from tests.support.postgres import execute, fetch
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).parents[2] / "docs/howto/deploy.md"
SQL = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)


def refusal(*arguments: object, cwd: Path) -> tuple[int, str]:
    """Return the exit code and the error of a server that does not start; there must be no other line."""
    done = run("server", "--port", 0, *arguments, cwd=cwd)
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    return done.returncode, line


@pytest.fixture
def guest(postgres_server: str, postgres_database: str) -> Iterator[str]:
    """The way to an empty database of somebody else's, for a role that has been given nothing there."""
    name = f"guest_{secrets.token_hex(4)}"
    execute(postgres_server, f"CREATE ROLE {name} LOGIN")
    try:
        parts = urlsplit(postgres_database)
        yield parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}").geturl()
    finally:
        fetch(postgres_database, f"DROP OWNED BY {name}")
        execute(postgres_server, f"DROP ROLE {name}")


def test_role_without_create_is_told_which_right_it_lacks(guest: str, tmp_path: Path) -> None:
    code, line = refusal("--store", guest, cwd=tmp_path)
    assert code == 1
    assert "permission denied for schema public" in line
    assert "CREATE DATABASE … OWNER …" in line
    assert "GRANT CREATE ON SCHEMA public TO …" in line


def test_role_with_the_right_that_is_named_starts(guest: str, postgres_database: str, tmp_path: Path) -> None:
    fetch(postgres_database, f"GRANT CREATE ON SCHEMA public TO {urlsplit(guest).username}")
    with running("server", "--port", 0, "--store", guest, cwd=tmp_path) as process:
        process.wait_for("listening on ")
        assert process.stop() == 0


@pytest.fixture
def page_names(postgres_server: str) -> Iterator[str]:
    """A name for the role and the database that a page creates."""
    name = f"page_{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        execute(postgres_server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        execute(postgres_server, f"DROP ROLE IF EXISTS {name}")


async def test_database_as_the_page_on_deploying_creates_it_will_do(
    postgres_server: str, page_names: str
) -> None:
    create, _, _ = (block.replace("mainspring", page_names) for block in SQL)
    for statement in filter(str.strip, create.split(";")):
        execute(postgres_server, statement)
    parts = urlsplit(f"{postgres_server}/{page_names}")
    own = parts._replace(netloc=f"{page_names}:PASSWORD@{parts.netloc.rpartition('@')[2]}").geturl()
    async with open_store(own) as store:
        await store.read_time()


async def test_right_that_the_page_on_deploying_gives_will_do(guest: str, postgres_database: str) -> None:
    _, grant, _ = SQL
    fetch(postgres_database, grant.replace("mainspring", str(urlsplit(guest).username)))
    async with open_store(guest) as store:
        await store.read_time()


async def test_a_server_knows_the_disk_if_it_is_set_up_as_the_page_on_deploying_says(
    postgres_server: str, page_names: str
) -> None:
    create, _, grant = (block.replace("mainspring", page_names) for block in SQL)
    for statement in filter(str.strip, create.split(";")):
        execute(postgres_server, statement)
    folder, port = (
        fetch(f"{postgres_server}/postgres", f"SHOW {name}") for name in ("unix_socket_directories", "port")
    )
    async with open_store(
        f"postgresql://{page_names}:PASSWORD@/{page_names}?host={folder}&port={port}"
    ) as store:
        assert (await store.read_storage()).disk is None
        execute(postgres_server, grant)
        assert (await store.read_storage()).disk is not None


def test_role_without_connect_is_told_so(guest: str, postgres_database: str, tmp_path: Path) -> None:
    fetch(postgres_database, f'REVOKE CONNECT ON DATABASE "{urlsplit(guest).path[1:]}" FROM PUBLIC')
    code, line = refusal("--store", guest, cwd=tmp_path)
    assert code == 1
    assert "PostgreSQL refused the connection: permission denied for database" in line


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("no_such_setting=1", 'unrecognized configuration parameter "no_such_setting"'),
        ("default_transaction_isolation=bogus", '"default_transaction_isolation": "bogus"'),
        ("options=-c%20no_such_setting%3D1", 'unrecognized configuration parameter "no_such_setting"'),
        ("shared_buffers=1MB", '"shared_buffers" cannot be changed'),
    ],
)
def test_parameter_that_the_server_refuses_is_named(
    query: str, message: str, postgres_database: str, tmp_path: Path
) -> None:
    code, line = refusal("--store", f"{postgres_database}?{query}", cwd=tmp_path)
    assert code == 2
    assert line.startswith("error: store: PostgreSQL refuses a parameter: ")
    assert message in line


def test_parameters_of_managed_providers_are_taken(postgres_database: str, tmp_path: Path) -> None:
    query = "sslmode=prefer&channel_binding=prefer&connect_timeout=10&keepalives_idle=30&application_name=x"
    query += "&options=-c%20work_mem%3D8MB&work_mem=8MB"  # what the reference has as examples
    with running("server", "--port", 0, "--store", f"{postgres_database}?{query}", cwd=tmp_path) as process:
        process.wait_for("listening on ")
        assert process.stop() == 0
    [line] = [
        line
        for line in (tmp_path / "stderr.log").read_text().splitlines()
        if "store_parameters_ignored" in line
    ]
    for name in ("application_name", "channel_binding", "keepalives_idle"):
        assert name in line
    assert "connect_timeout" not in line


def test_database_with_tables_of_somebody_else_is_refused(postgres_database: str, tmp_path: Path) -> None:
    fetch(postgres_database, "CREATE TABLE session (id text)")
    code, line = refusal("--store", postgres_database, cwd=tmp_path)
    assert code == 1
    assert 'relation "session" already exists' in line
    assert "database of its own" in line


def test_table_of_migrations_of_somebody_else_is_refused(postgres_database: str, tmp_path: Path) -> None:
    fetch(postgres_database, "CREATE TABLE migration (version text)")
    code, line = refusal("--store", postgres_database, cwd=tmp_path)
    assert code == 1
    assert "database of its own" in line


def test_read_only_database_is_called_by_its_name(
    postgres_server: str, postgres_database: str, tmp_path: Path
) -> None:
    name = urlsplit(postgres_database).path[1:]
    execute(postgres_server, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    code, line = refusal("--store", postgres_database, cwd=tmp_path)
    assert code == 1
    assert "did not answer" not in line
    assert "read-only" in line


async def test_role_that_is_shut_out_later_is_told_so(
    guest: str, postgres_server: str, postgres_database: str
) -> None:
    role = urlsplit(guest).username
    fetch(postgres_database, f"GRANT CREATE ON SCHEMA public TO {role}")
    async with open_store(guest) as store:
        execute(postgres_server, f"ALTER ROLE {role} NOLOGIN")
        with pytest.raises(StoreUnavailable, match=r"refused the connection: role .* is not permitted"):
            await store.read_time()


def test_worker_on_the_store_and_its_parent_refuse_alike(guest: str, tmp_path: Path) -> None:
    for more in ((), ("--processes", 2)):
        done = run("worker", "--store", guest, *more, cwd=tmp_path)
        assert done.returncode == 1
        assert "GRANT CREATE ON SCHEMA public" in done.stderr
        assert "Traceback" not in done.stderr


def test_pooler_in_transaction_mode_is_recognised_at_the_start(
    pooled_server: str, postgres_database: str, tmp_path: Path
) -> None:
    address = f"{pooled_server}/{postgres_database.rpartition('/')[2]}"
    code, line = refusal("--store", address, cwd=tmp_path)
    assert code == 2
    assert line.startswith("error: store: ")
    assert "add pooler=transaction" in line
