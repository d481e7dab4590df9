"""Accounts and tokens by commands, workers and apps, against real servers: docs/howto/access.md, done."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from mainspring import App, chain
from mainspring.core.access import write_token
from mainspring.errors import InvalidInput, NeedsRight, NotAuthenticated
from tests.processes.processes import await_that, run, running, server

APP = """
from mainspring import App

app = App(name="shop")


@app.job()
async def order(number: int) -> int:
    [handle] = await app.submit("ship", [{"number": number}])
    return number


@app.job()
def ship(number: int) -> int:
    return number
"""
MEMORY = ("--store", "memory://")


def say(*arguments: object, cwd: Path, token: str | None = None, **more: str) -> Any:
    """Run a command that must succeed, and return its JSON."""
    given = {} if token is None else {"MAINSPRING_TOKEN": token}
    done = run(*arguments, "--json", cwd=cwd, **given, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(url: str, folder: Path) -> str:
    """Make the first token."""
    made = say("token", "create", "--role", "admin", "--account", "ann", "--server", url, cwd=folder)
    text: str = made["token"]
    return text


def test_the_page_from_the_first_token_to_the_last(tmp_path: Path) -> None:
    with server(*MEMORY, cwd=tmp_path) as (_, url):
        at = ("--server", url)
        made = run(
            "token", "create", "--role", "admin", "--account", "ann", "--name", "laptop", *at, cwd=tmp_path
        )
        assert made.returncode == 0, made.stderr
        admin = made.stdout.strip()
        assert admin.startswith("ms_")
        assert "only callers that present one" in made.stderr
        assert admin not in made.stderr

        refused = run("job", "list", *at, cwd=tmp_path)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: this server answers only callers with an access token")
        assert "Try: export MAINSPRING_TOKEN" in refused.stderr
        assert run("job", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin).returncode == 0

        say("account", "set", "ci", "--grant", "shop=operator", *at, cwd=tmp_path, token=admin)
        ci = say(
            *("token", "create", "--account", "ci", "--role", "operator", "--expires-in", "90d"),
            *at,
            cwd=tmp_path,
            token=admin,
        )["token"]
        refused = run("job", "add", "x", "--every", "1h", *at, cwd=tmp_path, MAINSPRING_TOKEN=ci)
        assert refused.returncode == 2
        assert "ci may not do this: it needs the right 'edit'" in refused.stderr
        listed = run("token", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin)
        assert ci[:11] in listed.stdout
        assert ci not in listed.stdout
        shown = run("account", "show", "ci", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin)
        assert "shop=operator" in shown.stdout
        assert "shop=operator" in run("account", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin).stdout


def test_a_token_is_replaced_and_revoked(tmp_path: Path) -> None:
    with server(*MEMORY, cwd=tmp_path) as (_, url):
        at = ("--server", url)
        admin = close(url, tmp_path)
        say("account", "set", "ci", "--grant", "shop=operator", *at, cwd=tmp_path, token=admin)
        make = ("token", "create", "--account", "ci", "--role", "operator")
        ci = say(*make, *at, cwd=tmp_path, token=admin)["token"]
        rotated = say("token", "rotate", ci, *at, cwd=tmp_path, token=ci)["token"]
        for text in (ci, rotated):
            assert run("job", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=text).returncode == 0
        revoked = say("token", "revoke", rotated[:11], *at, cwd=tmp_path, token=admin)
        assert revoked["state"] == "revoked"
        assert run("job", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=rotated).returncode == 1
        account = say("account", "set", "ci", "--disabled", *at, cwd=tmp_path, token=admin)
        assert (account["disabled"], account["grants"]) == (True, {"shop": "operator"})
        assert run("job", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=ci).returncode == 1
        account = say("account", "set", "ci", "--enabled", "--no-grants", *at, cwd=tmp_path, token=admin)
        assert (account["disabled"], account["grants"]) == (False, {})
        slip = run("account", "set", "sci", "--disabled", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin)
        assert slip.returncode == 2
        assert "grants: 'sci' is no account yet; a new one is given its roles" in slip.stderr
        assert "--grant TENANT=ROLE, or --no-grants" in slip.stderr
        account = say("account", "set", "sci", "--no-grants", *at, cwd=tmp_path, token=admin)
        assert account["grants"] == {}


def test_an_app_calls_the_server_of_its_own_process_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with server("shop:app", *MEMORY, cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)
        app = App(url, token=admin)
        try:
            [handle] = app.submit_sync("order", [{"number": 7}])
            assert handle.result_sync(timeout=20) == 7
            await_that(
                "the run that the function submitted has ended",
                lambda: app.sync.list_runs(state="SUCCEEDED").items[1:],
            )
        finally:
            app.close()


def test_a_worker_presents_its_token_and_reads_a_new_one_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with server(*MEMORY, "--slots", 0, "--allow-shell", cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)
        at = ("--server", url)
        say("account", "set", "workers", "--grant", "*=worker", *at, cwd=tmp_path, token=admin)
        make = ("token", "create", "--account", "workers", "--role", "worker", *at)
        first, second = (say(*make, cwd=tmp_path, token=admin)["token"] for _ in range(2))
        say("job", "add", "hello", "--command", "echo hello", *at, cwd=tmp_path, token=admin)
        file.write_text(f"{first}\n")
        environment = {"MAINSPRING_TOKEN_FILE": str(file)}
        command = ("worker", "--name", "w", *at, "--allow-shell")
        with running(*command, cwd=tmp_path, **environment) as worker:
            worker.wait_for("ready")
            file.write_text(f"{second}\n")
            say("token", "revoke", first, *at, cwd=tmp_path, token=admin)
            asked = httpx.get(f"{url}/api/v1/workers", headers={"Authorization": f"Bearer {second}"})
            assert asked.status_code == 403, "a worker may do a worker's work, and nothing else"

            done = run(*("job", "run", "hello", "--wait", "30"), *at, cwd=tmp_path, MAINSPRING_TOKEN=admin)
            assert done.returncode == 0, done.stderr
            assert worker.stop() == 0


def test_a_worker_stores_the_jobs_of_its_app_if_it_may(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with server(*MEMORY, "--slots", 0, cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)
        at = ("--server", url)
        tokens = {}
        for account, role in (("workers", "worker"), ("team", "editor")):
            say("account", "set", account, "--grant", f"*={role}", *at, cwd=tmp_path, token=admin)
            make = ("token", "create", "--account", account, "--role", role, *at)
            tokens[role] = say(*make, cwd=tmp_path, token=admin)["token"]

        def names() -> list[str]:
            return [job["name"] for job in say("job", "list", *at, cwd=tmp_path, token=admin)["items"]]

        with running("worker", "shop:app", *at, cwd=tmp_path, MAINSPRING_TOKEN=tokens["worker"]) as worker:
            worker.wait_for("ready")
            assert names() == []
            assert worker.stop() == 0
        told = (tmp_path / "stderr.log").read_text()
        assert "jobs_not_stored" in told or "jobs not stored" in told
        assert "needs the right 'edit'" in told
        with running("worker", "shop:app", *at, cwd=tmp_path, MAINSPRING_TOKEN=tokens["editor"]) as worker:
            worker.wait_for("ready")
            assert sorted(names()) == ["order", "ship"]
            done = run(
                *("job", "run", "order", "--payload", '{"number": 3}', "--wait", "30"),
                *at,
                cwd=tmp_path,
                MAINSPRING_TOKEN=tokens["editor"],
            )
            assert done.returncode == 0, done.stderr
            assert worker.stop() == 0


def test_who_may_submit_and_make_no_jobs_submits_chains_of_known_shapes_only(tmp_path: Path) -> None:
    with server(*MEMORY, cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)
        at = ("--server", url)
        say("account", "set", "ci", "--grant", "*=operator", *at, cwd=tmp_path, token=admin)
        ci = say("token", "create", "--account", "ci", "--role", "operator", *at, cwd=tmp_path, token=admin)[
            "token"
        ]
        apps = {token: App(url, token=token) for token in (ci, admin)}
        ships = {token: app.job("ship")(lambda number: number) for token, app in apps.items()}
        try:
            with pytest.raises(NeedsRight, match="edit"):
                chain(ships[ci].s(1), ships[ci].s()).enqueue_sync()
            chain(ships[admin].s(1), ships[admin].s()).enqueue_sync()
            assert chain(ships[ci].s(2), ships[ci].s()).enqueue_sync().get_sync().payload == {"ship": [2]}
        finally:
            for app in apps.values():
                app.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no access token"),
        ("two words", "holds no access token"),
        ("ümlaut", "holds no access token"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_file_without_a_token_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    done = run("job", "list", "--server", "http://127.0.0.1:9", cwd=tmp_path, MAINSPRING_TOKEN_FILE=str(file))
    assert done.returncode == 2
    assert done.stderr.startswith("error: MAINSPRING_TOKEN_FILE: ")
    assert why in done.stderr


def test_a_client_says_who_it_is_not(tmp_path: Path) -> None:
    with server(*MEMORY, "--slots", 0, cwd=tmp_path) as (_, url):
        close(url, tmp_path)
        for token in (None, write_token(b"\1" * 37)):
            app = App(url, token=token)
            try:
                with pytest.raises(NotAuthenticated):
                    app.sync.list_jobs()
            finally:
                app.close()
    with pytest.raises(InvalidInput, match="token: holds no access token"):
        App(url, token="no token")


def test_the_first_token_can_be_made_in_the_store_and_the_last_one_replaced(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'data'}")
    create = ("token", "create", "--role", "admin", *store)
    first = say(*create, cwd=tmp_path)
    assert (first["account"], first["tenant"]) == ("admin", "*")
    again = run(*create, cwd=tmp_path)
    assert again.returncode == 2
    assert "account: name the account" in again.stderr
    second = say(*create, "--account", "admin", cwd=tmp_path)["token"]
    with server(*store, "--slots", 0, cwd=tmp_path) as (_, url):
        assert httpx.get(f"{url}/api/v1/jobs").status_code == 401
        for text in (first["token"], second):
            assert run("job", "list", "--server", url, cwd=tmp_path, MAINSPRING_TOKEN=text).returncode == 0
        locked = run(*create, "--account", "admin", cwd=tmp_path)
        assert locked.returncode == 1
        assert "is in use by process" in locked.stderr


def test_a_server_with_the_operators_token_answers_nobody_else(tmp_path: Path) -> None:
    text, file = write_token(os.urandom(37)), tmp_path / "admin-token"
    file.write_text(text)
    with server(*MEMORY, "--slots", 0, cwd=tmp_path, MAINSPRING_AUTH_ADMIN_TOKEN_FILE=str(file)) as (_, url):
        assert httpx.get(f"{url}/api/v1/jobs").status_code == 401
        admin = say(
            "token",
            "create",
            "--role",
            "admin",
            "--account",
            "ann",
            "--server",
            url,
            cwd=tmp_path,
            token=text,
        )
        statuses = [
            httpx.get(f"{url}/api/v1/jobs", headers={"Authorization": f"Bearer {each}"}).status_code
            for each in (text, admin["token"])
        ]
        assert statuses == [401, 200]


def have_ended(app: App, count: int) -> bool:
    """Return whether so many runs of a tenant have succeeded."""
    return len(app.sync.list_runs(state="SUCCEEDED").items) == count


def test_workers_of_two_tenants_each_get_their_own_runs_alone(tmp_path: Path) -> None:
    """Both are on one server and offer the same. What only the other one's runs have ever waits for it."""
    with server(*MEMORY, "--slots", 0, "--allow-shell", cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)
        at = ("--server", url)
        apps = {tenant: App(url, token=admin, tenant=tenant) for tenant in ("shop", "bank", "mine")}
        for tenant in ("shop", "bank"):
            apps["mine"].sync.put_account(tenant, {tenant: "worker"})
        make = ("token", "create", "--account", "shop", "--role", "worker", "--queue", "mail")
        made = say(*make, *at, cwd=tmp_path, token=admin)
        assert (made["tenant"], made["queues"]) == ("shop", ["mail"])
        tokens = {"shop": made["token"]}
        tokens["bank"] = apps["mine"].sync.make_token("t", "worker", account="bank", queues=["mail"]).token
        listed = run("token", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin)
        assert "QUEUES" in listed.stdout
        assert "mail" in listed.stdout
        wanted = {}
        for tenant, app in apps.items():
            for queue in ("mail", "cpu"):
                app.sync.create_job({"name": queue, "queue": queue, "command": ["true"]})
                handles = app.submit_sync(queue, [None] * 10)
                wanted[tenant, queue] = {handle.id for handle in handles}
        shop = (*("worker", "--name", "shops", "--allow-shell"), *at)
        bank = (*("worker", "--name", "banks", "--allow-shell", "--queue", "mail"), *at)
        with running(*shop, cwd=tmp_path, MAINSPRING_TOKEN=tokens["shop"]) as one:
            one.wait_for("ready")
            with running(*bank, cwd=tmp_path, MAINSPRING_TOKEN=tokens["bank"]) as other:
                other.wait_for("ready")
                for tenant in ("shop", "bank"):
                    await_that(f"the runs of {tenant} have ended", partial(have_ended, apps[tenant], 10))
                shown = run("workers", *at, cwd=tmp_path, MAINSPRING_TOKEN=admin).stdout
                assert [line.split()[4:6] for line in shown.splitlines()[1:]] == [
                    ["shop", "mail"],
                    ["bank", "mail"],
                ]
                for (tenant, queue), ids in wanted.items():
                    runs = [apps[tenant].sync.get_run(run_id) for run_id in ids]
                    workers = {each.worker for each in runs}
                    mine = {"shop": "shops", "bank": "banks"}.get(tenant)
                    assert workers == {mine if queue == "mail" else None}, (tenant, queue)
        for app in apps.values():
            app.close()

        none = ("worker", "--queue", "cpu", *at)
        refused = run(*none, cwd=tmp_path, MAINSPRING_TOKEN=tokens["bank"])
        assert refused.returncode != 0
        assert "its token is only for the queue 'mail'" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_missing_file_with_the_operators_token_stops_the_start(tmp_path: Path) -> None:
    done = run(
        "server", *MEMORY, "--port", 0, cwd=tmp_path, MAINSPRING_AUTH_ADMIN_TOKEN_FILE="/nowhere/token"
    )
    assert done.returncode == 2
    assert "auth.admin_token_file: /nowhere/token cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_user_of_the_machine_gets_in_with_a_token_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    with server(*MEMORY, "--slots", 0, cwd=tmp_path) as (_, url):
        admin = close(url, tmp_path)

        def status(*headers: str) -> str:
            done = subprocess.run(
                ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *headers, f"{url}/api/v1/jobs"],
                cwd="/",
                user="nobody",
                capture_output=True,
                text=True,
                check=True,
            )
            return done.stdout

        assert status() == "401"
        assert status("-H", f"Authorization: Bearer {admin}") == "200"
