"""Passwords and sessions by commands, against a real server: docs/howto/sign-people-in.md, done."""

from __future__ import annotations

import json
import shlex
import stat
import sys
from pathlib import Path

import pytest
from oidc_provider_mock import User, run_server_in_thread

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


BROWSER = """
import sys, urllib.parse, urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
form = browser.open(sys.argv[2])
page = browser.open(form.url, urllib.parse.urlencode({"sub": sys.argv[1]}).encode())
Path("page.html").write_bytes(page.read())
"""
"""Signs in at the provider as its first argument says."""


SETTINGS = """
[auth.oidc]
issuer = "http://localhost:{port}"
client_id = "mainspring"
client_secret = "secret:login"

[auth.oidc.groups]
ops = ["operator@default"]

[secrets]
login = {{ from = "env:PROVIDER_SECRET", tenants = [] }}
"""


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_from_a_browser_to_a_command_line(tmp_path: Path) -> None:
    script = tmp_path / "browser.py"
    script.write_text(BROWSER)
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    users = (User(sub="ann", claims={"groups": ["ops"]}), User(sub="eve", claims={"groups": []}))
    with run_server_in_thread(user_claims=users) as provider:
        settings = tmp_path / "settings.toml"
        settings.write_text(SETTINGS.format(port=provider.server_port))
        secret = {"MAINSPRING_CONFIG": str(settings), "PROVIDER_SECRET": "s3cret"}
        with server(*MEMORY, cwd=tmp_path, **secret) as (_, url):
            at = ("--server", url)
            close(url, tmp_path)

            def browse(sub: str) -> dict[str, str]:
                return {"BROWSER": shlex.join([sys.executable, str(script), sub, "%s"])}

            refused = run("login", *at, cwd=tmp_path, **home, **browse("eve"))
            assert refused.returncode == 1
            assert "none of your groups" in refused.stderr
            signed = run("login", *at, cwd=tmp_path, **home, **browse("ann"))
            assert signed.returncode == 0, signed.stderr
            assert signed.stdout.startswith("signed in as user.")
            assert "Go back to your terminal" in (tmp_path / "page.html").read_text()
            kept = json.loads((tmp_path / "config" / "mainspring" / "logins.json").read_text())["servers"]
            logged = (tmp_path / "stderr.log").read_text()
            assert kept[url] not in signed.stdout + signed.stderr + logged
            assert run("job", "list", *at, cwd=tmp_path, **home).returncode == 0
            assert run("logout", *at, cwd=tmp_path, **home).stdout == "signed out\n"

            wrong = run("login", "--no-browser", *at, cwd=tmp_path, text="a-code\n", **home)
            assert wrong.returncode == 1
            assert f"{url}/login/oidc?challenge=" in wrong.stderr
            assert "this code is unknown" in wrong.stderr
            both = run("login", "ann", "--no-browser", *at, cwd=tmp_path, **home)
            assert both.returncode == 2
    with server(*MEMORY, cwd=tmp_path) as (_, url):
        close(url, tmp_path)
        none = run("login", "--server", url, cwd=tmp_path, **home, **browse("ann"))
        assert none.returncode == 2
        assert "knows no identity provider" in none.stderr
