"""Monitors on a real server: docs/howto/watch-jobs-elsewhere.md, done, and an alert that is told and ends."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.processes.processes import await_that, environment, run_here, server
from tests.processes.test_alerts import ask, receiving

APP = "from mainspring import App\n\napp = App()\n"
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "watch-jobs-elsewhere.md").read_text()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_what_fails_elsewhere_is_told_and_so_is_its_end(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with receiving() as receiver:
        allow = ("--channel-allow", f"*=127.0.0.1:{receiver.port}")
        with server("app:app", "--data", "data", *allow, cwd=tmp_path) as (_, url):
            hook = ("--webhook", f"http://127.0.0.1:{receiver.port}/x", "--group-wait", "0s")
            ask(url, "channel", "set", "ops", *hook)
            ask(url, "alert", "set", "monitor", "--channel", "ops")
            made = ask(url, "monitor", "set", "dump", "--every", "1h")
            address = f"{url}{made['ping_path']}"
            assert httpx.post(f"{address}?exit_code=3").json() == {"state": "FAILED"}
            await_that("the alert is told", lambda: receiver.told("firing"))
            [told] = receiver.told("firing")
            assert (told["rule"], told["severity"], told["tenant"]) == ("monitor", "critical", "default")
            [alert] = told["alerts"]
            assert (alert["subject"], alert["summary"]) == ("monitor:dump", "dump failed with exit code 3")
            assert httpx.get(address).json() == {"state": "UP"}
            await_that("the end is told", lambda: receiver.told("resolved"))
            assert len(receiver.told("firing")) == 1
    assert made["ping_path"].rpartition("/")[2] not in (tmp_path / "stderr.log").read_text()


def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    settings = '[mail]\nurl = "smtp://127.0.0.1:25?tls=never"\nfrom = "alerts@example.com"\n'
    (tmp_path / "mainspring.toml").write_text(settings)
    commands = [shlex.split(line) for line in re.findall(r"^\$ mainspring (.*)$", PAGE, re.MULTILINE)]
    assert len(commands) == 6
    with server("app:app", "--data", "data", cwd=tmp_path) as (_, url):
        made = run_here(*commands[0], "--server", url)
        assert made.returncode == 0, made.stderr
        shown, told = (re.sub(r"\d{4}-.*", "", text) for text in (made.stdout, PAGE))
        for line in shown.partition("\n\n")[0].splitlines():
            assert line in told
        [address] = re.findall(rf"^{url}/ping/[a-z2-7]{{32}}$", made.stdout, re.MULTILINE)
        [script] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        script = re.sub(r"^PING=.*$", f"PING={address}", script, flags=re.MULTILINE)
        for work, state in (("true", "UP"), ("false", "FAILED")):
            text = script.replace("pg_dump shop > /backup/shop.sql", work)
            subprocess.run(["sh", "-c", text], check=True, env=environment(), capture_output=True, timeout=60)
            assert ask(url, "monitor", "show", "nightly-dump")["state"] == state
        for end, state in (("/start", "RUNNING"), ("/extend", "RUNNING"), ("/fail", "FAILED"), ("", "UP")):
            assert httpx.post(f"{address}{end}").json() == {"state": state}
        for command in commands[1:]:
            done = run_here(*command, "--server", url)
            assert done.returncode == 0, done.stderr
        assert ask(url, "monitor", "list") == {"items": []}
