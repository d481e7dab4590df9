"""docs/howto/find-what-is-wrong.md: the doctor finds what is wrong with real installations, and nothing else."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainspring import App
from tests.processes.processes import run, server
from tests.support.postgres import execute, fetch, temporary_database

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "find-what-is-wrong.md").read_text()
LINES = [shlex.split(line)[1:] for line in re.findall(r"^(mainspring doctor.*)$", PAGE, re.MULTILINE)]
SHOP = """from mainspring import App

app = App()


@app.job(queue="mail")
def send() -> None: ...
"""
OF_THE_HOST = {"write latency", "file system", "disk space"}
"""What depends on the machine of the tests."""


def findings(folder: Path, *options: object, **variables: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = run("doctor", "--problems", "--json", *options, cwd=folder, **variables)
    assert "Traceback" not in done.stderr, done.stderr
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {one["check"]: one for one in checks if one["check"] not in OF_THE_HOST}


def test_a_host_without_anything_is_told_what_to_start(tmp_path: Path) -> None:
    code, found = findings(tmp_path, "--server", "http://127.0.0.1:9")
    assert (code, set(found)) == (2, {"reachable", "server answers"})
    assert "there is no such file" in found["reachable"]["found"]


def test_a_store_on_sqlite_is_looked_at_while_its_server_runs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with server("shop:app", cwd=tmp_path) as (process, url):
        _, found = findings(tmp_path, "--server", url)
        assert found == {}
        for line in LINES:
            done = run(*line, "--server", url, cwd=tmp_path)
            assert done.returncode in {0, 1}, done.stdout
        told = run("doctor", cwd=tmp_path, MAINSPRING_SERVER=url).stdout
        assert re.search(r"ok  servers +1 server", told), told
        data = tmp_path / "mainspring-data"
        (data / "mainspring.db").chmod(0o644)
        secret = tmp_path / "token"
        secret.write_text("ms_x")
        secret.chmod(0o604)
        code, found = findings(tmp_path, "--server", url, MAINSPRING_TOKEN_FILE=str(secret))
        assert code == 1
        assert found.keys() >= {"permissions", "secrets"}
        assert "chmod 600" in found["secrets"]["remedy"]
        code, found = findings(tmp_path, "--server", url, MAINSPRING_PORT="many")
        assert (code, "1 problem: " in found["settings"]["found"]) == (2, True)
        assert process.stop() == 0
    code, found = findings(tmp_path, "--server", url)
    assert found["servers"]["found"] == "no server schedules"
    assert code == 2
    assert not list(data.glob(".doctor-*")), "what was written to measure the disk is gone"


def test_what_waits_for_nobody_and_what_failed_is_found(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with server("shop:app", cwd=tmp_path) as (_, url):
        app = App(server=url)
        app.sync.submit_runs([{"job": "send"}])
        app.close()
    with server("--slots", 0, cwd=tmp_path):
        pass
    with apsw.Connection(str(tmp_path / "mainspring-data" / "mainspring.db")) as db:
        db.execute("UPDATE session SET state = 'dead'")
        db.execute(
            "INSERT INTO lane (queue, route, tenant, priority) VALUES ('mail', 'function', 'default', 1)"
        )
        db.execute(
            "INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms)"
            " SELECT 256000, job.id, 1, max(lane.id), 'manual', 'PENDING', 0, 0, 0, 1 FROM job, lane"
        )
        db.execute("UPDATE job_clock SET due_at = 1, next_fire_at = 1")
    db.close()
    code, found = findings(tmp_path)
    assert code == 2
    assert found["queues"]["found"].startswith("1 run of the queue mail wait")
    assert found["clocks"]["found"].startswith("1 job should have fired, up to ")
    assert found["workers"]["found"] == "there is no worker"
    for tenant, is_served in (("bank", False), ("default", True)):
        with apsw.Connection(str(tmp_path / "mainspring-data" / "mainspring.db")) as db:
            db.execute("UPDATE session SET state = 'live', queues = '[]', tenant = ?", (tenant,))
        db.close()
        _, found = findings(tmp_path)
        assert ("queues" not in found) is is_served, tenant


@pytest.mark.postgres
def test_a_store_on_postgresql_is_looked_at_with_its_server(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    of_tests = {"durability"}  # the private server of tests does without fsync
    with server("shop:app", "--store", postgres_database, cwd=tmp_path) as (_, url):
        _, found = findings(tmp_path, "--server", url, "--store", postgres_database)
        assert found.keys() <= of_tests | {"long transactions"}
        assert found["durability"]["found"] == "fsync is off"
        told = run("doctor", "--server", url, cwd=tmp_path, MAINSPRING_STORE=postgres_database).stdout
        for check in (
            "server version",
            "primary",
            "connections",
            "autovacuum",
            "replication slots",
            "servers",
        ):
            assert re.search(rf"ok  {check} ", told), told
    with temporary_database(postgres_server) as empty:
        _, found = findings(tmp_path, "--store", empty)
        assert found["schema"]["found"] == "the store is empty"
        name = empty.rpartition("/")[2]
    code, found = findings(tmp_path, "--store", empty)
    assert (code, name in found["reachable"]["found"]) == (2, True)


@pytest.mark.postgres
@pytest.mark.parametrize("option", ["INHERIT", "NOINHERIT"])
def test_the_right_that_the_disk_alert_needs_is_named_and_suffices(
    tmp_path: Path, postgres_server: str, postgres_database: str, option: str
) -> None:
    role = f"Shop-{secrets.token_hex(4)}"  # a name that SQL takes only in quotes
    folder, port = (
        fetch(f"{postgres_server}/postgres", f"SHOW {name}") for name in ("unix_socket_directories", "port")
    )
    database = postgres_database.rpartition("/")[2]
    store = f"postgresql://{role}@/{database}?host={folder}&port={port}"

    def disk_space(dsn: str) -> dict[str, str]:
        done = run("doctor", "--json", "--store", dsn, cwd=tmp_path)
        found: dict[str, str]
        [found] = [one for one in json.loads(done.stdout)["checks"] if one["check"] == "disk space"]
        return found

    execute(postgres_server, f'CREATE ROLE "{role}" LOGIN {option}')
    try:
        statements = []
        found = disk_space(store)
        while "are free at" not in found["found"]:
            assert found["severity"] == "warning", found
            assert f'the role "{role}" may not read where PostgreSQL keeps its data' == found["found"]
            who, _, statement = found["remedy"].partition(": ")
            assert who == "as an administrator of PostgreSQL"
            assert statement not in statements, "what it says is of no help"
            statements.append(statement)
            execute(postgres_server, statement)
            found = disk_space(store)
        assert statements[0] == f'GRANT pg_read_all_settings TO "{role}"'
        assert len(statements) == (1 if option == "INHERIT" else 2)
    finally:
        execute(postgres_server, f'DROP ROLE "{role}"')
    assert "over the network" in disk_space(postgres_database)["found"]
