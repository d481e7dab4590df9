"""A cluster that tells: two servers on PostgreSQL, workers, receivers, and the channels and rules that lead to them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainspring import App, MainspringError
from mainspring.core.alert_rules import DEFAULT_RULES
from tests.chaos.alerting.receivers import ALERTMANAGER, KEY_VARIABLE, MAIL, WEBHOOK
from tests.chaos.alerting.told import Told, read_told
from tests.chaos.processes import ROOT, free_port
from tests.deployment.alertmanagers import running_alertmanager
from tests.processes.processes import Running, await_that, run_here, running

CHANNELS = {WEBHOOK: "hook", MAIL: "mail", ALERTMANAGER: "alertmanager"}
QUICK = timedelta(seconds=10)
"""The period of rules that are not to be waited for long."""
BEAT = 2.0
LOST_AFTER = 3 * BEAT
"""Seconds after its last heartbeat, a worker is lost."""
SHOP = """import time
from pathlib import Path

from mainspring import App, Notify

app = App()
HERE = Path(__file__).parent
OPS = ["hook", "mail", "alertmanager"]


@app.job(queue="mail")
def send_mail() -> None: ...


@app.job(queue="billing", retry={"max_retries": 0}, notify=Notify(to=OPS))
def charge() -> None:
    if not (HERE / "bank-is-back").exists():
        raise ConnectionError("the bank does not answer")


@app.job(queue="reports", timeout="10m", notify=Notify(to=OPS, on=["late", "recovered"], late_after="10s"))
def report() -> None:
    while not (HERE / "report-ends").exists():
        time.sleep(0.1)
"""


@dataclass(slots=True)
class Scene:
    """What faults are made in.

    Attributes:
        url: the addresses of both servers.
        as_shipped: rules keep the periods and holds that every store has.
        disk: the folder of the disk that the database is on, if that is a disk of its own.
        workers: by name.
    """

    folder: Path
    dsn: str
    url: str
    app: App
    as_shipped: bool = False
    disk: Path | None = None
    workers: dict[str, Running] = field(default_factory=dict)
    _ends: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def ask(self, *arguments: object) -> Any:
        """Carry out a command and return its answer."""
        answer = run_here(*arguments, "--json", "--server", self.url)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def told(self) -> list[Told]:
        """Return what receivers were told so far."""
        return read_told(self.folder / "told.jsonl")

    def start_worker(self, name: str, *queues: str, slots: int = 4) -> None:
        """Start a worker and return once it works; one of that name may have been there before."""
        options = [part for queue in queues for part in ("--queue", queue)]
        place = ("worker", "shop:app", "--server", self.url, "--name", name, "--slots", slots)
        self.workers[name] = self._ends.enter_context(running(*place, *options, cwd=self.folder))
        self.workers[name].wait_for("ready")

    def kill_worker(self, name: str) -> float:
        """Kill a worker as `kill -9` does; say when."""
        at = time.time()
        self.workers[name].process.kill()
        self.workers[name].process.wait()
        return at

    def submit(self, job: str) -> float:
        """Submit a run; say when."""
        at = time.time()
        self.app.submit_sync(job, [None])
        return at

    def true_after(self, rule: str) -> float:
        """Return how many seconds after it began something is so by a rule: its period and its hold."""
        of = DEFAULT_RULES[rule]
        period, hold = of.period or timedelta(0), of.hold
        if not self.as_shipped:
            period, hold = min(period, QUICK), timedelta(0)
        return (period + hold).total_seconds()

    def set_rule(self, rule: str, *options: object) -> None:
        """Have a rule tell all channels, and judge by a short time unless it is as shipped."""
        told = [part for channel in CHANNELS.values() for part in ("--channel", channel)]
        has_period = DEFAULT_RULES[rule].period is not None and rule != "worker_lost"
        short: list[object] = [] if self.as_shipped else ["--hold", "0s"]
        if has_period and not self.as_shipped:
            short += ["--period", f"{QUICK.total_seconds():.0f}s"]
        self.ask("alert", "set", rule, "--cluster", *told, *short, *options)

    def await_that(self, check: Callable[[list[Told]], bool], seconds: float) -> bool:
        """Wait until receivers were told what is awaited; say whether they were in time."""
        deadline = time.monotonic() + seconds
        while not check(self.told()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def close(self) -> None:
        """End the workers."""
        self._ends.close()
        self.app.close()


@contextmanager
def receiving(folder: Path, key: str, *options: object) -> Iterator[dict[str, int]]:
    """Run the receivers; provide their ports."""
    command = [sys.executable, "-m", "tests.chaos.alerting.receivers", str(folder / "told.jsonl")]
    with (folder / "receivers.log").open("a") as errors:
        process = subprocess.Popen(
            [*command, *map(str, options)],
            cwd=ROOT,
            env={**os.environ, KEY_VARIABLE: key},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (folder / "receivers.log").read_text()
        yield json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def make_key() -> str:
    """Return a signing key."""
    return f"whsec_{base64.b64encode(os.urandom(32)).decode()}"


def write_settings(folder: Path, *, mail: int | None = None) -> None:
    """Write what the servers are told in a file: where the signing key is, and the mail server."""
    lines = ["[secrets.ops-hook]", 'from = "env:OPS_HOOK"', 'tenants = ["*"]']
    lines += ["[channels]", 'allow = ["*=127.0.0.0/8"]']
    if mail is not None:
        lines += ["[mail]", f'url = "smtp://127.0.0.1:{mail}?tls=never"', 'from = "mainspring@example.org"']
    (folder / "mainspring.toml").write_text("\n".join(lines) + "\n")


@contextmanager
def opened(folder: Path, dsn: str, *, as_shipped: bool = False, disk: Path | None = None) -> Iterator[Scene]:
    """Run receivers, two servers and no worker yet; channels lead to the receivers."""
    key = make_key()
    (folder / "shop.py").write_text(SHOP)
    (folder / "alertmanager").mkdir()
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(receiving(folder, key))
        hook = f"http://127.0.0.1:{ports['http']}"
        labels = ("tenant", "alertname", "subject")
        manager = stack.enter_context(
            running_alertmanager(folder / "alertmanager", f"{hook}/alertmanager", group_by=labels)
        )
        write_settings(folder, mail=ports["mail"])
        urls: list[str] = []
        for _ in range(2):
            options = (
                "--store",
                dsn,
                "--port",
                free_port(above=_last_port(urls)),
                "--beat-period",
                f"{BEAT}s",
            )
            server = stack.enter_context(running("server", *options, cwd=folder, OPS_HOOK=key))
            urls.append(server.wait_for("listening on "))
        url = ",".join(urls)
        scene = Scene(folder, dsn, url, App(server=url), as_shipped, disk)
        stack.callback(scene.close)
        places: dict[str, tuple[str, ...]] = {
            WEBHOOK: ("--webhook", f"{hook}/hook", "--signing", "secret:ops-hook")
        }
        places |= {MAIL: ("--email", "ops@example.org"), ALERTMANAGER: ("--alertmanager", manager)}
        for receiver, place in places.items():
            scene.ask("channel", "set", CHANNELS[receiver], "--cluster", "--group-wait", "1s", *place)
        yield scene


def _last_port(urls: Sequence[str]) -> int | None:
    return int(urls[-1].rpartition(":")[2]) if urls else None


def await_jobs(app: App, count: int) -> None:
    """Wait until a worker has stored the jobs of its code."""

    def are_there() -> bool:
        with contextlib.suppress(MainspringError):
            return len(app.sync.list_jobs().items) >= count
        return False

    await_that("the worker's jobs are stored", are_there)
