"""docs/howto/back-up-and-restore.md: its commands make a copy that is whole, and a restore means what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from mainspring import App, NotFound
from tests.chaos.restoring import Verdict, show
from tests.processes.processes import await_that, run, running, server
from tests.support.postgres import fetch, temporary_database

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "back-up-and-restore.md").read_text()
BACKUP, RESTORE = (
    shlex.split(line)[1:]
    for line in re.findall(r"^ *(mainspring (?:backup|restore) .*)$", PAGE, re.MULTILINE)
)
SHOP = """from mainspring import App

app = App()


@app.job()
def add(x: int) -> int:
    return x + 1
"""


TICKS = """from mainspring import App

app = App()


@app.job(every="1s")
def tick() -> None: ...
"""


def submit(app: App, x: int) -> str:
    (run,) = app.sync.submit_runs([{"job": "add", "payload": {"x": x}}])
    assert run.run_id is not None
    return run.run_id


def test_a_restored_store_carries_out_what_waited(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with server("shop:app", "--slots", 0, cwd=tmp_path) as (process, url):
        app = App(server=url)
        kept = submit(app, 1)
        made = run(*BACKUP, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        again = run(*BACKUP, cwd=tmp_path)
        assert (again.returncode, again.stderr.count("is there")) == (2, 1)
        busy = run("restore", "nightly.backup", cwd=tmp_path)
        assert (busy.returncode, "is in use by process" in busy.stderr) == (1, True)
        lost = submit(app, 2)
        app.close()
        process.process.kill()
        process.process.wait()
    full = run("restore", "nightly.backup", cwd=tmp_path)
    assert (full.returncode, "needs a folder without a store" in full.stderr) == (2, True)
    restored = run(*RESTORE, cwd=tmp_path)
    assert restored.returncode == 0, restored.stderr
    assert "as counted at the backup" in restored.stdout
    assert "0 missing, 0 surplus" in restored.stdout
    with server("shop:app", "--data", "restored", cwd=tmp_path) as (_, url):
        app = App(server=url)
        assert app.wait_for_sync(kept, 60).result == 2
        with pytest.raises(NotFound):
            app.sync.get_run(lost)
        app.close()


def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    with server("--slots", 0, cwd=tmp_path):
        assert run("backup", "copy", cwd=tmp_path).returncode == 0
    copy = tmp_path / "copy"
    assert (
        stat.S_IMODE(copy.stat().st_mode)
        == stat.S_IMODE(Path(f"{copy}.manifest.json").stat().st_mode)
        == 0o600
    )
    content = copy.read_bytes()
    copy.write_bytes(content[:-1] + b"x")
    changed = run("restore", "copy", "--data", "new", cwd=tmp_path)
    assert (changed.returncode, "is not what the manifest says" in changed.stderr) == (2, True)
    copy.write_bytes(content)
    manifest = json.loads(Path(f"{copy}.manifest.json").read_text())
    manifest["store"]["rows"]["run"] += 1
    Path(f"{copy}.manifest.json").write_text(json.dumps(manifest))
    unlike = run("restore", "copy", "--data", "new", cwd=tmp_path)
    assert unlike.returncode == 3, unlike.stderr
    assert "the table run has 0 rows, not 1" in unlike.stdout
    assert "start nothing on it" in unlike.stdout
    Path(f"{copy}.manifest.json").unlink()
    alone = run("restore", "copy", "--data", "other", cwd=tmp_path)
    assert (alone.returncode, "a backup is a file and its manifest" in alone.stderr) == (2, True)


def test_a_copy_that_was_tampered_with_has_no_proof(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TICKS)
    store = tmp_path / "mainspring-data" / "mainspring.db"
    with server("shop:app", cwd=tmp_path) as (process, url):
        app = App(server=url)
        sealed, made = "SELECT count(*) FROM audit_seal", "SELECT count(*) FROM run_history"
        await_that(
            "fires are made, and the audit is sealed", lambda: value(store, sealed) and value(store, made) > 3
        )
        app.close()
        assert process.stop() == 0
    assert run("backup", "copy", cwd=tmp_path).returncode == 0
    whole = run("restore", "copy", "--data", "whole", cwd=tmp_path)
    assert (whole.returncode, "0 seals" in whole.stdout) == (0, False), whole.stdout
    with apsw.Connection(str(tmp_path / "copy")) as raw:
        raw.execute("DROP TRIGGER audit_guard_rows")
        raw.execute("UPDATE audit SET actor = 'bob' WHERE seal IS NOT NULL")
        last_but_one = "SELECT fire_at FROM run_history ORDER BY fire_at DESC LIMIT 1 OFFSET 1"
        raw.execute(f"DELETE FROM run_history WHERE fire_at = ({last_but_one})")
    raw.close()
    manifest = json.loads((tmp_path / "copy.manifest.json").read_text())
    content = (tmp_path / "copy").read_bytes()
    manifest["file"] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    (tmp_path / "copy.manifest.json").write_text(json.dumps(manifest))
    told = json.loads(run("restore", "copy", "--data", "changed", "--json", cwd=tmp_path).stdout)
    assert (told["holds"], told["proof"]["surplus"], told["proof"]["uneven"]) == (False, 0, ["tick"])
    assert told["proof"]["missing"] >= 1
    assert "an entry that it covers was changed" in told["proof"]["broken_seal"]
    assert "the digest of its clocks and fires is another one" in told["proof"]["differences"]


def value(store: Path, query: str) -> int:
    """Ask the store while its server runs."""
    connection = apsw.Connection(str(store))
    try:
        [(found,)] = connection.execute(query).fetchall()
    finally:
        connection.close()
    assert isinstance(found, int)
    return found


def judged(verdict: Verdict) -> None:
    assert verdict.wrong == [], verdict.facts


def test_a_backup_under_load_proves_itself(tmp_path: Path) -> None:
    judged(show(tmp_path, f"--data {tmp_path}/old", f"--data {tmp_path}/new", runs=100))


@pytest.mark.postgres
def test_a_backup_of_postgresql_under_load_proves_itself(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    with temporary_database(postgres_server) as other:
        judged(show(tmp_path, f"--store {postgres_database}", f"--store {other}", runs=100))
        full = run("restore", "copy", "--store", other, cwd=tmp_path)
        assert (full.returncode, "a restore needs an empty one" in full.stderr) == (2, True)


RESTORES_AND_WAITS = """#!/bin/sh
/usr/bin/pg_restore "$@" || exit
case "$*" in *--version*) exit;; esac
touch "$FILLED"
while kill -0 $PPID 2> /dev/null; do sleep 0.05; done
"""


@pytest.mark.postgres
def test_a_store_whose_restore_was_killed_is_used_by_nothing(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    with server("--slots", 0, "--store", postgres_database, cwd=tmp_path):
        pass
    assert run("backup", "copy", "--store", postgres_database, cwd=tmp_path).returncode == 0
    filled = tmp_path / "filled"
    program = tmp_path / "bin" / "pg_restore"
    program.parent.mkdir()
    program.write_text(RESTORES_AND_WAITS)
    program.chmod(0o755)
    more = {"PATH": f"{program.parent}:{os.environ['PATH']}", "FILLED": str(filled)}
    with temporary_database(postgres_server) as target:
        with running("restore", "copy", "--store", target, cwd=tmp_path, **more) as process:
            await_that("pg_restore has committed", filled.exists)
            process.process.kill()
        assert fetch(target, "SELECT count(*) FROM shard_lease") > 0
        said = "a restore into this database was broken off"
        for command in (("server", "--port", 0), ("restore", "copy"), ("backup", "other")):
            refused = run(*command, "--store", target, cwd=tmp_path)
            assert (refused.returncode in (1, 2), said in refused.stderr) == (True, True), refused
    with temporary_database(postgres_server) as target:
        again = run("restore", "copy", "--store", target, cwd=tmp_path)
        assert again.returncode == 0, again.stderr


@pytest.mark.postgres
def test_no_command_line_shows_the_password(tmp_path: Path, postgres_database: str) -> None:
    with server("--slots", 0, "--store", postgres_database, cwd=tmp_path):
        pass
    seen = tmp_path / "seen"
    program = tmp_path / "bin" / "pg_dump"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec /usr/bin/pg_dump "$@"\n')
    program.chmod(0o755)
    scheme, _, rest = postgres_database.partition("://")
    user, at, where = rest.rpartition("@")
    secret = f"{scheme}://{user.partition(':')[0] or 'postgres'}:s3cret@{where if at else rest}"
    done = run(
        "backup",
        "copy",
        "--json",
        cwd=tmp_path,
        MAINSPRING_STORE=secret,
        PATH=f"{program.parent}:{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in seen.read_text() + done.stdout + done.stderr
    assert "--dbname=service=mainspring" in seen.read_text()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_restore_says_which_keys_are_needed_and_a_server_that_they_are_missing(tmp_path: Path) -> None:
    """The backup has ciphertext only; without the right keys, in any state of a rotation, nothing starts on it."""
    (tmp_path / "shop.py").write_text(SHOP)
    old, new, wrong = (run("keys", "new", key_id).stdout for key_id in ("k1", "k2", "k2"))
    keys, settings = tmp_path / "keys", tmp_path / "mainspring.toml"
    keys.touch(0o600)
    settings.write_text(f'keys_file = "{keys}"\n')
    kept = ""
    for text in (old, new + old):
        keys.write_text(text)
        with server("shop:app", "--slots", 0, cwd=tmp_path) as (_, url):
            app = App(server=url)
            kept = submit(app, 1)
            app.close()
    made = run("backup", "copy", cwd=tmp_path)
    assert "not in it: the keys with which the store is encrypted; keep a copy of keys_file" in made.stdout
    assert old.strip()[-20:].encode() not in (tmp_path / "copy").read_bytes()
    lost = "before you start a server; without it, what it encrypted is lost"
    refused = "error: keys_file: "
    for place, text, said, why in (
        (
            "missing",
            old,
            f"keys_file of this host lacks k2: put it back {lost}",
            "lacks the key 'k2', with which",
        ),
        (
            "none",
            "",
            f"keys_file of this host lacks k1, k2: put it back {lost}",
            "is not set, but this store is",
        ),
        (
            "wrong",
            wrong + old,
            f"keys_file of this host has another key as k2: put the right one there {lost}",
            "is not the one that this store was encrypted with",
        ),
        ("right", new + old, "keys_file of this host has them", ""),
    ):
        keys.write_text(text)
        settings.write_text(f'keys_file = "{keys}"\n' if text else "")
        restored = run("restore", "copy", "--data", place, cwd=tmp_path)
        assert restored.returncode == 0, restored.stderr
        assert f"encryption: with k1, k2; {said}\n" in restored.stdout
        checks = json.loads(run("doctor", "--data", place, "--json", cwd=tmp_path).stdout)["checks"]
        [checked] = [one["found"] for one in checks if one["check"] == "encryption"]
        if not why:
            assert "encrypted with 2 keys: k1, k2; k2 writes" in checked
            continue
        assert "k2 is needed by 1 run that waits" in checked
        started = run("up", "--data", place, "--port", 0, cwd=tmp_path)
        assert (started.returncode, refused in started.stderr, why in started.stderr) == (2, True, True)
    with server("shop:app", "--data", "right", cwd=tmp_path) as (_, url):
        app = App(server=url)
        assert app.wait_for_sync(kept, 60).result == 2
        app.close()
