"""F41: tokens are revoked, replaced and expire under load, while long runs are under way (make chaos FAULT=F41).

Two servers on PostgreSQL with accounts. In each round, three workers hold long runs, each with a token of its own:

- one token is **revoked**: after 2 s nothing may begin or end under it, and others run anew what its worker held; a
  client loses its token with it, on both servers;
- one is **replaced** (`token rotate`), and the old one revoked as soon as the file has the new one: its worker goes on,
  and loses no run;
- one **expires**: its worker gets nothing more, and what it holds ends well.

In the end, each run that was acknowledged has succeeded. A round in which a worker held no long run at that instant
proves nothing, and counts as wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from mainspring import App, MainspringError
from mainspring.core.ids import RunId, format_run_id
from mainspring.errors import NotAuthenticated
from mainspring.wire.access import MadeTokenView
from tests.chaos.processes import free_port
from tests.processes.processes import Running, await_that, run, running
from tests.support.postgres import call, missing_reason, server_dsn, temporary_database

WITHIN = timedelta(seconds=2)
"""How soon a revoked token is refused by all servers (O9)."""
LONG, SHORT = "long", "short"
SLEEP = 8
"""Seconds that a long run takes."""
LIFE = 30
"""Seconds that the token lasts that is to expire: its worker has to hold long runs by then."""
_SLOTS = 3
_STEADY_SLOTS = 12
_BURST = 20
"""Long runs that are submitted together: more than all slots, so that each worker gets some."""
_LATEST = 180.0
_HELD = """
    SELECT count(*) FROM run JOIN session ON session.id = run.session_id JOIN job ON job.id = run.job_id
    WHERE session.worker = $1 AND run.created_at >= $2 AND job.name = 'long'
"""
_ATTEMPTS = "SELECT run_id, worker, outcome, started_at, finished_at FROM attempt ORDER BY started_at"
_AT_ONCE = """
    SELECT id, session_id, lower(state), started_at, finished_at FROM ended_run
    WHERE NOT EXISTS (SELECT 1 FROM attempt WHERE run_id = ended_run.id AND token = ended_run.token)
"""
"""Runs that ended at their first try: of these, the store keeps no attempt apart."""
_SESSIONS = "SELECT id, worker FROM session"
_STATES = "SELECT id, state FROM ended_run"


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt as the store has it in the end."""

    run_id: int
    worker: str
    outcome: str
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Holder:
    """A worker with a token of its own.

    Attributes:
        file: what it reads its token from.
    """

    file: Path
    process: Running


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a worker's token.

    Attributes:
        how: revoked, replaced or expired.
        at: when it was so, by this host's clock.
    """

    how: str
    worker: str
    at: datetime


def judge(ending: Ending, attempts: Sequence[AttemptRow]) -> list[str]:
    """Return what a worker did that its token did not allow, and what was lost that it did."""
    own = [one for one in attempts if one.worker == ending.worker]
    lost = [one for one in own if one.outcome == "lost"]
    begun = [one for one in own if one.started_at > ending.at + WITHIN]
    ended = [one for one in own if one.outcome != "lost" and one.finished_at > ending.at + WITHIN]
    across = [one for one in own if one.outcome != "lost" and one.started_at < ending.at < one.finished_at]
    what = f"{ending.worker}, {ending.how} at {ending.at:%H:%M:%S.%f}"
    wrong = []
    if ending.how == "revoked":
        wrong += [f"{what}: run {one.run_id} began at {one.started_at}" for one in begun]
        wrong += [f"{what}: run {one.run_id} ended at {one.finished_at}" for one in ended]
        if not lost:
            wrong.append(f"{what}: it held no long run, so nothing is proved")
        return wrong
    wrong += [f"{what}: run {one.run_id} was lost at {one.finished_at}" for one in lost]
    if not across:
        wrong.append(f"{what}: it held no long run, so nothing is proved")
    if ending.how == "expired":
        wrong += [f"{what}: run {one.run_id} began at {one.started_at}" for one in begun]
    elif not begun:
        wrong.append(f"{what}: it did not go on")
    return wrong


def last_after(revoked_at: datetime, instants: Iterable[datetime]) -> timedelta:
    """Return how long after its end a token still did something."""
    return max((at - revoked_at for at in instants if at > revoked_at), default=timedelta(0))


def judge_others(endings: Iterable[Ending], attempts: Iterable[AttemptRow]) -> list[str]:
    """Return what was lost by workers whose token nothing happened to."""
    known = {ending.worker for ending in endings}
    return [
        f"{one.worker}, whose token nothing happened to: run {one.run_id} was lost at {one.finished_at}"
        for one in attempts
        if one.outcome == "lost" and one.worker not in known
    ]


def judge_client(server: str, revoked_at: datetime, acknowledged: Sequence[datetime]) -> list[str]:
    """Return what a server acknowledged under a token that was revoked."""
    if not any(at < revoked_at for at in acknowledged):
        return [f"{server} acknowledged nothing before the token was revoked, so nothing is proved"]
    return [f"{server} acknowledged a run at {at}" for at in acknowledged if at > revoked_at + WITHIN]


class Client:
    """Submits runs to one server until it is told to stop, whatever the server says."""

    def __init__(self, url: str, token: str, job: str, pause: float) -> None:
        self.url = url
        self._app = App(url, token=token)
        self._job, self._pause = job, pause
        self._is_over = threading.Event()
        self.acknowledged: list[tuple[str, datetime]] = []
        self.refused = 0
        self._thread = threading.Thread(target=self._submit)
        self._thread.start()

    def _submit(self) -> None:
        while not self._is_over.wait(self._pause):
            asked = datetime.now(UTC)  # what is asked before the token ends may be answered after it
            try:
                [answer] = self._app.sync.submit_runs([{"job": self._job}])
            except NotAuthenticated:
                self.refused += 1
            except MainspringError:
                continue
            else:
                if answer.run_id is not None:
                    self.acknowledged.append((answer.run_id, asked))

    def stop(self) -> None:
        """Stop, and wait until it has."""
        self._is_over.set()
        self._thread.join()
        self._app.close()


@dataclass(slots=True)
class Trial:
    """Two servers, and what was done to tokens on them.

    Attributes:
        admin: an app that may do everything, on both servers.
        slow: how many times longer everything may take than on an idle host; not the end of a revoked token.
        latest: how long after its revocation a token still did something, at most.
        sessions: whose they are. Those that are over do not stay in the store.
    """

    folder: Path
    dsn: str
    urls: list[str]
    admin: App
    slow: int = 1
    endings: list[Ending] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    latest: timedelta = timedelta(0)
    sessions: dict[int, str] = field(default_factory=dict)

    def fetch(self, query: str, *arguments: object) -> list[Any]:
        """Return a query's rows."""

        async def fetch(connection: asyncpg.Connection[asyncpg.Record]) -> list[Any]:
            return list(await connection.fetch(query, *arguments))

        found: list[Any] = call(self.dsn, fetch)
        return found

    def make_token(self, name: str, role: str = "worker", **options: Any) -> MadeTokenView:
        """Make a token of the account of workers or of clients."""
        return self.admin.sync.make_token(name, role, account=f"{role}s", **options)

    @contextmanager
    def worker(self, name: str, token: str, slots: int = _SLOTS) -> Iterator[Holder]:
        """Run a worker with a token in a file."""
        file = self.folder / f"{name}.token"
        file.write_text(token)
        options = ("--name", name, "--slots", slots, "--allow-shell", "--server", ",".join(self.urls))
        with running("worker", *options, cwd=self.folder, MAINSPRING_TOKEN_FILE=str(file)) as process:
            process.wait_for("ready")
            yield Holder(file, process)

    def have_run(self, workers: Iterable[str]) -> None:
        """Submit long runs, and wait until each of the workers has begun one of them."""
        begun = datetime.now(UTC)
        self._submit_long()
        for worker in workers:
            await_that(f"{worker} holds long runs", partial(self._holds, worker, begun))
        self._note_sessions()

    def _note_sessions(self) -> None:
        self.sessions |= {row["id"]: row["worker"] for row in self.fetch(_SESSIONS)}

    def _submit_long(self) -> None:
        answers = self.admin.sync.submit_runs([{"job": LONG}] * _BURST)
        self.acknowledged += [one.run_id for one in answers if one.run_id is not None]

    def _holds(self, worker: str, begun: datetime) -> bool:
        return bool(self.fetch(_HELD, worker, begun)[0][0])

    def carry_out_round(self, number: int) -> None:
        """Have three tokens end, each in its way, while their workers hold long runs."""
        names = {how: f"{how}-{number}" for how in ("revoked", "replaced", "expired")}
        with contextlib.ExitStack() as stack:
            tokens: dict[str, str] = {}
            holders: dict[str, Holder] = {}
            for how in ("revoked", "replaced"):
                tokens[how] = self.make_token(names[how]).token
                holders[how] = stack.enter_context(self.worker(names[how], tokens[how]))
            leaver = self.make_token(f"leaver-{number}", "operator").token
            leavers = [Client(url, leaver, SHORT, 0.05) for url in self.urls]
            for client in leavers:
                stack.callback(client.stop)
            self.have_run([names[how] for how in tokens])
            self._revoke(names["revoked"], tokens["revoked"])
            self._replace(names["replaced"], tokens["replaced"], holders["replaced"].file)
            self.admin.sync.revoke_token(leaver[:11])
            left_at = datetime.now(UTC)
            holders["expired"] = stack.enter_context(self._expiring(names["expired"]))
            for client in leavers:
                client.stop()
                times = [at for _, at in client.acknowledged]
                self.wrong += judge_client(client.url, left_at, times)
                self.latest = max(self.latest, last_after(left_at, times))
                self.acknowledged += [run_id for run_id, _ in client.acknowledged]
                if not client.refused:
                    self.wrong.append(f"{client.url} never refused the client")
            _end(holders.values())

    @contextmanager
    def _expiring(self, name: str) -> Iterator[Holder]:
        """Run a worker whose token expires; provide it when what it held then has ended."""
        first = self.make_token(f"{name}, at first").token
        with self.worker(name, first) as holder:
            # Only now, so that a slow start takes none of its life.
            made = self.make_token(name, expires_in=f"{LIFE * self.slow}s")
            expires_at = made.expires_at
            assert expires_at is not None, "it expires"
            _put(holder.file, made.token)
            self.admin.sync.revoke_token(first[:11])
            while (left := (expires_at - datetime.now(UTC)).total_seconds()) > 0:
                self._submit_long()  # as much as all workers can do until the next: it always holds some
                time.sleep(min(SLEEP * self.slow, left))
            self.endings.append(Ending("expired", name, expires_at))
            time.sleep(SLEEP * self.slow + WITHIN.total_seconds())
            self._note_sessions()
            yield holder

    def _revoke(self, worker: str, token: str) -> None:
        self.admin.sync.revoke_token(token[:11])
        self.endings.append(Ending("revoked", worker, datetime.now(UTC)))

    def _replace(self, worker: str, token: str, file: Path) -> None:
        _put(file, self.admin.sync.rotate_token(token[:11]).token)
        self.admin.sync.revoke_token(token[:11])
        self.endings.append(Ending("replaced", worker, datetime.now(UTC)))

    def conclude(self) -> None:
        """Wait until all runs have ended, and judge."""
        deadline = time.monotonic() + _LATEST * self.slow
        while self.fetch("SELECT 1 FROM run LIMIT 1") and time.monotonic() < deadline:
            time.sleep(0.5)
        attempts = [AttemptRow(*row) for row in self.fetch(_ATTEMPTS)]
        attempts += [AttemptRow(run, self.sessions[by], *rest) for run, by, *rest in self.fetch(_AT_ONCE)]
        for ending in self.endings:
            self.wrong += judge(ending, attempts)
            if ending.how == "revoked":
                own = [one for one in attempts if one.worker == ending.worker and one.outcome != "lost"]
                instants = [at for one in own for at in (one.started_at, one.finished_at)]
                self.latest = max(self.latest, last_after(ending.at, instants))
        self.wrong += judge_others(self.endings, attempts)
        states = {format_run_id(RunId(row["id"])): row["state"] for row in self.fetch(_STATES)}
        succeeded = sum(state == "SUCCEEDED" for state in states.values())
        unlike = [one for one in self.acknowledged if states.get(one) != "SUCCEEDED"]
        self.wrong += [f"run {one} was acknowledged, and has not succeeded" for one in unlike]
        if self.fetch("SELECT 1 FROM run LIMIT 1"):
            self.wrong.append("not all runs have ended")
        lost = sum(one.outcome == "lost" for one in attempts)
        print(
            f"{len(self.endings)} tokens of workers ended; {len(self.acknowledged)} runs acknowledged, "
            f"{succeeded} of {len(states)} succeeded, {len(attempts)} attempts, {lost} lost with a revoked token\n"
            f"the last that a revoked token still did came {self.latest.total_seconds():.2f} s after its revocation"
        )


def _put(file: Path, token: str) -> None:
    """Put a token into a file at once: none reads a half of it."""
    new = file.with_suffix(".new")
    new.write_text(token)
    new.rename(file)


def _end(holders: Iterable[Holder]) -> None:
    """End workers in order. One that is killed loses what it holds, whatever its token is worth."""
    workers = [holder.process for holder in holders]
    for worker in workers:
        worker.process.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.process.wait(_LATEST)


@contextmanager
def opened(folder: Path, dsn: str, slow: int) -> Iterator[Trial]:
    """Run two servers with accounts, and a worker whose token nothing happens to."""
    made = run("token", "create", "--role", "admin", "--account", "ann", "--store", dsn, cwd=folder)
    assert made.returncode == 0, made.stderr
    admin = made.stdout.strip().splitlines()[-1]
    with contextlib.ExitStack() as stack:
        urls: list[str] = []
        for _ in range(2):
            port = free_port(above=int(urls[-1].rpartition(":")[2]) if urls else None)
            options = ("--store", dsn, "--port", port, "--beat-period", f"{slow}s", "--allow-shell")
            server = stack.enter_context(running("server", *options, cwd=folder))
            urls.append(server.wait_for("listening on "))
        app = App(",".join(urls), token=admin)
        stack.callback(app.close)
        for role in ("worker", "operator"):
            app.sync.put_account(f"{role}s", {"*": role})
        app.sync.create_job({"name": LONG, "command": ["sleep", str(SLEEP * slow)]})
        app.sync.create_job({"name": SHORT, "command": ["true"]})
        trial = Trial(folder, dsn, urls, app, slow)
        stack.enter_context(trial.worker("steady", trial.make_token("steady").token, _STEADY_SLOTS))
        yield trial


def main() -> int:
    """Carry it out; the exit status is 1 if anything does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--slow", type=int, default=1, help="how many times slower a busy host may be")
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    given = parser.parse_args()
    server = server_dsn()
    if server is None:
        print(missing_reason())
        return 1
    with tempfile.TemporaryDirectory() as name, temporary_database(server) as dsn:
        folder = given.keep or Path(name)
        folder.mkdir(exist_ok=True)
        with opened(folder, dsn, given.slow) as trial:
            client = trial.make_token("client", "operator").token
            load = [Client(url, client, SHORT, 0.2) for url in trial.urls]
            try:
                for number in range(given.rounds):
                    trial.carry_out_round(number)
                    print(f"{time.strftime('%H:%M:%S')}  round {number + 1}", flush=True)
            finally:
                for one in load:
                    one.stop()
                    trial.acknowledged += [run_id for run_id, _ in one.acknowledged]
            trial.conclude()
    for what in trial.wrong:
        print(f"NOT SO: {what}")
    print(f"verdict: {len(trial.wrong)} wrong" if trial.wrong else "verdict: all of it holds")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
