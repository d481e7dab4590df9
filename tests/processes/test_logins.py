"""Passwords and sessions by commands, against a real server: docs/howto/sign-people-in.md, done."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.processes.processes import run, server
from tests.processes.test_access import MEMORY, close, say

PASSWORD = "correct horse battery staple"


@pytest.mark.timeout(300)
def test_the_page_from_the_first_password_to_the_last_session(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    kept = tmp_path / "config" / "mainspring" / "logins.json"
    with server(*MEMORY, cwd=tmp_path) as (_, url):
        at = ("--server", url)
        admin = close(url, tmp_path)
        say("account", "set", "bea", "--grant", "default=editor", *at, cwd=tmp_path, token=admin)
        set_it = ("account", "password", "bea", *at)
        short = run(*set_it, cwd=tmp_path, text="too short\n", MAINSPRING_TOKEN=admin)
        assert short.returncode == 2
        assert "has 9 characters; use 12 at least" in short.stderr
        done = run(*set_it, cwd=tmp_path, text=f"{PASSWORD}\n", MAINSPRING_TOKEN=admin)
        assert done.returncode == 0, done.stderr
        assert "the password of bea is set" in done.stdout

        wrong = run("login", "bea", *at, cwd=tmp_path, text="wrong password\n", **home)
        assert wrong.returncode == 1
        assert "there is no such account with this password" in wrong.stderr
        assert not kept.exists()
        signed = run("login", "bea", *at, cwd=tmp_path, text=f"{PASSWORD}\n", **home)
        assert signed.returncode == 0, signed.stderr
        assert signed.stdout.startswith("signed in as bea until ")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        token = json.loads(kept.read_text())["servers"][url]
        assert token not in signed.stdout + signed.stderr
        assert run("job", "list", *at, cwd=tmp_path, **home).returncode == 0
        sessions = say("token", "list", "--account", "bea", *at, cwd=tmp_path, token=admin)["items"]
        assert [(one["login"], one["state"]) for one in sessions] == [("password", "active")]

        old = run(*set_it, cwd=tmp_path, text=f"{PASSWORD} 2\nwrong password\n", **home)
        assert old.returncode == 2
        assert "old_password is wrong" in old.stderr.replace(":", "")
        new = run(*set_it, cwd=tmp_path, text=f"{PASSWORD} 2\n{PASSWORD}\n", **home)
        assert new.returncode == 0, new.stderr
        assert run("job", "list", *at, cwd=tmp_path, **home).returncode == 0  # the session that asked goes on

        kept.chmod(0o644)
        open_to_all = run("job", "list", *at, cwd=tmp_path, **home)
        assert "can be read by others" in open_to_all.stderr
        kept.chmod(0o600)
        assert run("logout", *at, cwd=tmp_path, **home).stdout == "signed out\n"
        assert json.loads(kept.read_text())["servers"] == {}
        assert run("job", "list", *at, cwd=tmp_path, MAINSPRING_TOKEN=token).returncode == 1
        assert "there is no session" in run("logout", *at, cwd=tmp_path, **home).stdout
