"""docs/howto/back-up-and-restore.md: its commands make a copy that is whole, and a restore means what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mainspring import App, NotFound
from tests.processes.processes import server
from tests.support.postgres import temporary_database

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "back-up-and-restore.md").read_text()
SHOP = """from mainspring import App

app = App()


@app.job()
def add(x: int) -> int:
    return x + 1
"""


def submit(app: App, x: int) -> str:
    (run,) = app.sync.submit_runs([{"job": "add", "payload": {"x": x}}])
    assert run.run_id is not None
    return run.run_id


def test_a_restored_sqlite_store_carries_out_what_waited(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    data = tmp_path / "mainspring-data"
    (line,) = re.findall(r"^python3 -c .*backup.*$", PAGE, re.MULTILINE)
    with server("shop:app", "--slots", 0, cwd=tmp_path) as (process, url):
        app = App(server=url)
        kept = submit(app, 1)
        subprocess.run([sys.executable, *shlex.split(line)[1:]], cwd=tmp_path, timeout=60, check=True)
        lost = submit(app, 2)
        app.close()
        process.process.kill()
        process.process.wait()
    for name in ("mainspring.db-wal", "mainspring.db-shm"):
        (data / name).unlink(missing_ok=True)
    (tmp_path / "backup.db").replace(data / "mainspring.db")
    with server("shop:app", cwd=tmp_path) as (_, url):
        app = App(server=url)
        assert app.wait_for_sync(kept, 60).result == 2
        with pytest.raises(NotFound):
            app.sync.get_run(lost)
        app.close()


@pytest.mark.postgres
def test_a_restored_postgresql_store_carries_out_what_waited(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    dump, restore = (re.findall(rf"`({name} [^`]+)`", PAGE)[0] for name in ("pg_dump", "pg_restore"))
    with server("shop:app", "--slots", 0, "--store", postgres_database, cwd=tmp_path) as (_, url):
        app = App(server=url)
        kept = submit(app, 1)
        subprocess.run(as_written(dump, postgres_database), cwd=tmp_path, timeout=60, check=True)
        app.close()
    with temporary_database(postgres_server) as other:
        subprocess.run(as_written(restore, other), cwd=tmp_path, timeout=60, check=True)
        with server("shop:app", "--store", other, cwd=tmp_path) as (_, url):
            app = App(server=url)
            assert app.wait_for_sync(kept, 60).result == 2
            app.close()


def as_written(line: str, dsn: str) -> list[str]:
    """Return the page's command for a test's database."""
    assert urlsplit(dsn).path
    words = shlex.split(line)
    return [
        dsn if word == "mainspring" else word.replace("--dbname=mainspring", f"--dbname={dsn}")
        for word in words
    ]
