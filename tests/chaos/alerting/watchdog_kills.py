"""F40: the server that judges alerts is killed, again and again, while jobs fail (make chaos FAULT=F40).

Two servers on PostgreSQL; the one that owns shard 0 has watchdog and notifier. It is killed at a random moment. Or the
one that is to follow it ends itself at a commit of theirs: when alerts are saved, when messages are taken, when they
are settled. Meanwhile runs of jobs that notify fail and succeed, and the webhook refuses messages that it has taken, or
hangs up on them.

What has to hold: each failed run lies in an alert of its job; each alert is told by one message, which may come twice
with one id; so is its end, after it; and nothing is told of what did not happen.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from mainspring import App, MainspringError
from tests.chaos.alerting.receivers import KEY_VARIABLE
from tests.chaos.alerting.scene import await_jobs, make_key, receiving, write_settings
from tests.chaos.alerting.told import Told, read_told
from tests.chaos.cluster.server import ClusterServer, free_ports
from tests.chaos.failpoints import ALERT_VERBS, MOMENTS, Failpoint
from tests.chaos.processes import Ended
from tests.processes.processes import await_that, run_here, running
from tests.support.postgres import call, missing_reason, server_dsn, temporary_database

JOBS = 8
FLAKY = 0.3
MOST_AWAY = timedelta(seconds=90)
"""How long after a failure its alert may begin: both servers may be dead meanwhile."""
_LONGEST_CALM = 12.0
"""Seconds between kills at most: more than the watchdog's period."""
_PAUSE = 2.0
_FAILING = 0.6
_PATIENCE = 30.0
"""Seconds for which a server is waited for to come to its failpoint."""
_LATEST = 600.0
"""Seconds in which everything is told in the end. What a killed server had taken is taken again after two minutes."""
_OWNER = "SELECT n.pid FROM shard_lease AS s JOIN node AS n ON n.id = s.node_id WHERE s.shard = 0"
_OPEN = """
    SELECT (SELECT count(*) FROM alert WHERE state <> 'RESOLVED' AND rule = 'job_failed')
         + (SELECT count(*) FROM notification WHERE sent_at IS NULL AND given_up_at IS NULL)
         + (SELECT count(*) FROM dead_run WHERE is_unnoticed)
"""
_GIVEN_UP = "SELECT count(*) FROM notification WHERE given_up_at IS NOT NULL"
_ALERTS = "SELECT id, subject, since, resolved_at FROM alert WHERE rule = 'job_failed' ORDER BY id"
_FAILED = (
    "SELECT dead_run.id, name, finished_at FROM dead_run JOIN job ON job.id = job_id ORDER BY dead_run.id"
)
SHOP = f"""from mainspring import App, Notify

app = App()


async def work(fails: bool) -> None:
    if fails:
        raise RuntimeError("as it was told to")


for number in range({JOBS}):
    app.job(name=f"job-{{number}}", retry={{"max_retries": 0}}, notify=Notify(to=["ops"]))(work)
"""


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert as the store has it in the end."""

    id: int
    subject: str
    since: datetime
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that failed for good."""

    id: int
    job: str
    finished_at: datetime


@dataclass(slots=True)
class Verdict:
    """What came of it.

    Attributes:
        wrong: what does not hold.
        twice: messages that came again, with one id.
    """

    wrong: list[str] = field(default_factory=list)
    twice: int = 0


def judge(failed: Sequence[FailedRun], alerts: Sequence[AlertRow], told: Sequence[Told]) -> Verdict:
    """Compare what failed, what the store made of it, and what the receiver took."""
    verdict = Verdict()
    messages = {kind: _first_of_each(told, kind) for kind in ("firing", "resolved")}
    verdict.twice = len(told) - len({one.id for one in told})
    for alert in alerts:
        begun, ended = (messages[kind].get(alert.id, []) for kind in ("firing", "resolved"))
        what = f"alert {alert.id} of {alert.subject}"
        if len(begun) != 1:
            verdict.wrong.append(f"{what} was told by {len(begun)} messages")
        if alert.resolved_at is None:
            verdict.wrong.append(f"{what} has not ended")
        elif len(ended) != 1:
            verdict.wrong.append(f"the end of {what} was told by {len(ended)} messages")
        if begun and ended and ended[0].at < begun[0].at:
            verdict.wrong.append(f"the end of {what} was told before it")
        if not any(_tells(alert, run) for run in failed):
            verdict.wrong.append(f"{what} tells of a failure that did not happen")
    for run in failed:
        if not any(_tells(alert, run) for alert in alerts):
            verdict.wrong.append(f"run {run.id} of {run.job} failed at {run.finished_at}, untold")
    known = {alert.id for alert in alerts}
    for kind, of_alert in messages.items():
        verdict.wrong += [
            f"alert {one} was told ({kind}), and is not there" for one in sorted(set(of_alert) - known)
        ]
    verdict.wrong += [f"a message was {one.kind}" for one in told if one.kind.startswith("refused")]
    verdict.wrong += [f"message {one.id} names not all that it tells" for one in told if one.more]
    return verdict


def _first_of_each(told: Iterable[Told], kind: str) -> dict[int, list[Told]]:
    """Return the messages of a kind by alert, each message once."""
    seen: set[str] = set()
    found: dict[int, list[Told]] = {}
    for one in told:
        if one.kind == kind and one.id not in seen:
            seen.add(one.id)
            for alert in one.alerts:
                found.setdefault(int(alert[3]), []).append(one)
    return found


def _tells(alert: AlertRow, run: FailedRun) -> bool:
    """Say whether a failure lies in an alert, or is what began it."""
    is_of_job = alert.subject == f"job:{run.job}"
    has_begun = alert.since <= run.finished_at + MOST_AWAY
    return is_of_job and has_begun and (alert.resolved_at is None or alert.resolved_at > run.finished_at)


@dataclass(slots=True)
class Trial:
    """Two servers, of which one is killed after the other, and what was asked of them."""

    folder: Path
    dsn: str
    servers: list[ClusterServer]
    app: App
    random: Random
    secrets: dict[str, str]
    submitted: int = 0
    failing: int = 0
    kills: int = 0
    reached: Counter[str] = field(default_factory=Counter)

    def ask(self, query: str) -> list[Any]:
        """Return a query's rows."""

        async def fetch(connection: asyncpg.Connection[asyncpg.Record]) -> list[Any]:
            return list(await connection.fetch(query))

        found: list[Any] = call(self.dsn, fetch)
        return found

    def find_owner(self) -> ClusterServer:
        """Return the server that owns shard 0, once there is one."""
        found: list[ClusterServer] = []

        def is_found() -> bool:
            pids = {row["pid"] for row in self.ask(_OWNER)}
            found[:] = [one for one in self.servers if one.is_running and one.pid in pids]
            return bool(found)

        await_that("a living server owns shard 0", is_found)
        return found[0]

    def submit(self, job: int, *, fails: bool) -> None:
        """Submit a run until it is acknowledged."""
        self.submitted += 1
        self.failing += fails
        item = {"job": f"job-{job}", "payload": {"fails": fails}, "idempotency_key": f"run-{self.submitted}"}
        deadline = time.monotonic() + _LATEST
        while time.monotonic() < deadline:
            with contextlib.suppress(MainspringError):
                [answer] = self.app.sync.submit_runs([item])
                if answer.run_id is not None:
                    return
            time.sleep(0.2)
        raise AssertionError(f"{item} was never acknowledged")

    @contextmanager
    def stirring(self) -> Iterator[None]:
        """Have runs fail, and others succeed, as long as it is open: whoever is dead meanwhile."""
        is_over, random = threading.Event(), Random(self.random.random())

        def stir() -> None:
            while not is_over.wait(_PAUSE):
                for job in random.sample(range(JOBS), 3):
                    self.submit(job, fails=random.random() < _FAILING)

        thread = threading.Thread(target=stir)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def start(self, server: ClusterServer, failpoint: Failpoint | None = None) -> bool:
        """Start a server; say whether it came as far as listening."""
        with contextlib.suppress(Ended):
            server.start(failpoint, self.secrets)
            return True
        return False

    def kill_once(self) -> None:
        """Kill the watchdog's server at a random moment."""
        server = self.find_owner()
        time.sleep(self.random.uniform(0, _LONGEST_CALM))
        server.kill()
        self.kills += 1
        assert self.start(server), f"{server.name} did not start"

    def kill_at_commit(self) -> None:
        """Kill the watchdog's server, and have the one that follows end itself at a commit."""
        failpoint = Failpoint(
            self.random.choice(MOMENTS), self.random.choice(ALERT_VERBS), self.random.randint(1, 3)
        )
        owner = self.find_owner()
        [other] = [one for one in self.servers if one is not owner]
        other.stop()
        is_up = self.start(other, failpoint)  # it may be there before it listens
        owner.kill()
        self.kills += 1
        if not is_up or other.ends_within(_PATIENCE):
            if is_up:
                other.reap()
            self.kills += 1
            self.reached[f"{failpoint.moment}:{failpoint.verb}"] += 1
            assert self.start(other), f"{other.name} did not start"
        assert self.start(owner), f"{owner.name} did not start"

    def carry_out(self, kills: int) -> None:
        """Kill so often, heal, and wait until nothing is left to be told."""
        with self.stirring():
            while self.kills < kills:
                (self.kill_at_commit if self.random.random() < 0.5 else self.kill_once)()
                print(f"{time.strftime('%H:%M:%S')}  {self.kills} kills", flush=True)
        for job in range(JOBS):
            self.submit(job, fails=False)
        deadline = time.monotonic() + _LATEST
        while sum(row[0] for row in self.ask(_OPEN)) and time.monotonic() < deadline:
            time.sleep(1)

    def judge(self) -> Verdict:
        """Judge what is in the store by what was asked and what was told."""
        failed = [FailedRun(*row) for row in self.ask(_FAILED)]
        alerts = [AlertRow(*row) for row in self.ask(_ALERTS)]
        verdict = judge(failed, alerts, read_told(self.folder / "told.jsonl"))
        if len(failed) != self.failing:
            verdict.wrong.append(f"{self.failing} runs were to fail, and {len(failed)} did")
        for what, query in {"left to be told": _OPEN, "given up": _GIVEN_UP}.items():
            count = self.ask(query)[0][0]
            if count:
                verdict.wrong.append(f"{count} things were {what} in the end")
        print(
            f"{self.kills} kills of the watchdog's server, {sum(self.reached.values())} of them at a commit:"
        )
        for point, count in sorted(self.reached.items()):
            print(f"  {point}: {count}")
        print(
            f"{self.submitted} runs, {len(failed)} failed, {len(alerts)} alerts, {verdict.twice} messages came again"
        )
        return verdict


@contextmanager
def opened(folder: Path, dsn: str, seed: int) -> Iterator[Trial]:
    """Run a receiver, two servers and a worker; a channel of all tenants leads to the receiver."""
    key = make_key()
    (folder / "shop.py").write_text(SHOP)
    write_settings(folder)
    config = ("--config", str(folder / "mainspring.toml"))
    secrets = {"OPS_HOOK": key, KEY_VARIABLE: key}
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(receiving(folder, key, "--flaky", FLAKY, "--seed", seed))
        receiver = f"127.0.0.1:{ports['http']}"
        servers = []
        for number, port in enumerate(free_ports(2)):
            server = ClusterServer(
                folder,
                name=f"server-{number}",
                store=lambda: dsn,
                port=port,
                receiver=receiver,
                beat_period=1.0,
                node_period=0.5,
                options=config,
            )
            stack.callback(server.close)
            server.start(None, secrets)
            servers.append(server)
        url = ",".join(server.address for server in servers)
        app = App(server=url)
        stack.callback(app.close)
        worker = stack.enter_context(running("worker", "shop:app", "--server", url, cwd=folder))
        worker.wait_for("ready")
        await_jobs(app, JOBS)
        hook = ("--webhook", f"http://{receiver}/hook", "--signing", "secret:ops-hook")
        made = run_here("channel", "set", "ops", "--cluster", "--group-wait", "1s", *hook, "--server", url)
        assert made.returncode == 0, made.stderr
        yield Trial(folder, dsn, servers, app, Random(f"F40:{seed}"), secrets)


def main() -> int:
    """Carry it out; the exit status is 1 if anything does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    given = parser.parse_args()
    server = server_dsn()
    if server is None:
        print(missing_reason())
        return 1
    with tempfile.TemporaryDirectory() as name, temporary_database(server) as dsn:
        folder = given.keep or Path(name)
        folder.mkdir(exist_ok=True)
        with opened(folder, dsn, given.seed) as trial:
            trial.carry_out(given.kills)
            verdict = trial.judge()
    for what in verdict.wrong:
        print(f"NOT SO: {what}")
    print(
        f"verdict: {len(verdict.wrong)} wrong" if verdict.wrong else "verdict: 0 untold, 0 doubled, 0 surplus"
    )
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
