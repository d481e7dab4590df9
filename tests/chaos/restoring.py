"""Shows what a backup is worth: taken under load, restored into an empty store, and judged (make show-restore).

A server fires jobs and takes submissions while the backup is made, and goes on after it. One run is under way at that
instant. Then the server is killed, and its worker lives on. The backup is restored elsewhere and a server started on
it, at the same address: the worker comes back with a session and a lease of before.

What has to hold: the restore proves its store; every run that was acknowledged before the backup is there and ends
well; none of those that were submitted after it is; the run that was under way is lost and executed anew; no run id is
given twice; and the ledger owes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mainspring import App, MainspringError, NotFound
from tests.processes.processes import SECONDS, await_that, run, running
from tests.support.postgres import missing_reason, server_dsn, temporary_database

SHOP = """import time
from pathlib import Path

from mainspring import App

app = App()


@app.job()
def add(x: int) -> int:
    return x + 1


@app.job(every="1s")
def tick() -> None: ...


@app.job(timeout="10m")
def hold(folder: str) -> int:
    with open(f"{folder}/held", "a") as file:
        file.write("begun\\n")
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return 7
"""


class Submitter:
    """Submits runs until it is told to stop, and keeps the ids that were acknowledged."""

    def __init__(self, app: App, *, batch: int) -> None:
        self._app, self._batch = app, batch
        self._is_over = threading.Event()
        self.acknowledged: list[str] = []
        self._thread = threading.Thread(target=self._submit)

    def _submit(self) -> None:
        while not self._is_over.is_set():
            items = [{"job": "add", "payload": {"x": place}} for place in range(self._batch)]
            with contextlib.suppress(MainspringError):
                self.acknowledged += [one.run_id for one in self._app.sync.submit_runs(items) if one.run_id]

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def wait_for(self, count: int) -> None:
        await_that(f"{count} acknowledged runs", lambda: len(self.acknowledged) >= count)


@dataclass
class Verdict:
    """What was found, and what of it is wrong."""

    facts: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, *, holds: bool) -> None:
        if not holds:
            self.wrong.append(what)


def show(folder: Path, first: str, second: str, *, runs: int, batch: int = 20) -> Verdict:
    """Carry it out.

    Args:
        first: the store that is backed up, as options of the command line.
        second: the empty store that is restored.
        runs: how many runs are acknowledged before the backup, and how many after it.
    """
    (folder / "shop.py").write_text(SHOP)
    port, verdict = _free_port(), Verdict()
    url = f"http://127.0.0.1:{port}"
    app = App(server=url)
    options = ("--port", port)
    with contextlib.ExitStack() as worker:
        with running("server", *first.split(), *options, cwd=folder) as server:
            server.wait_for("listening on ")
            worker.enter_context(running("worker", "shop:app", "--server", url, cwd=folder))
            submitter = Submitter(app, batch=batch)
            _await_jobs(app)
            held = app.sync.submit_runs([{"job": "hold", "payload": {"folder": str(folder)}}])[0].run_id
            assert held is not None
            await_that("the run that is held begins", (folder / "held").exists)
            with submitter.at_work():
                submitter.wait_for(runs)
                before = list(submitter.acknowledged)
                begun = time.monotonic()
                backup = json.loads(_succeed(run("backup", "copy", *first.split(), "--json", cwd=folder)))
                verdict.facts["seconds of the backup"] = round(time.monotonic() - begun, 1)
                count = len(submitter.acknowledged)
                verdict.facts["runs acknowledged meanwhile"] = count - len(before)
                submitter.wait_for(count + runs)
            after = submitter.acknowledged[count:]
            server.process.kill()
            server.process.wait()
        begun = time.monotonic()
        restored = json.loads(_succeed(run("restore", "copy", *second.split(), "--json", cwd=folder)))
        verdict.facts["seconds of the restore"] = round(time.monotonic() - begun, 1)
        verdict.facts["rows"] = sum(backup["store"]["rows"].values())
        verdict.check("the restore proves its store", holds=restored["holds"])
        verdict.check("one run was under way, at least", holds=restored["runs"] >= 1)
        with running("server", *second.split(), *options, cwd=folder) as server:
            server.wait_for("listening on ")
            _judge(verdict, app, folder, held, before, after)
        app.close()
    return verdict


def _judge(verdict: Verdict, app: App, folder: Path, held: str, before: list[str], after: list[str]) -> None:
    (folder / "go").touch()
    ended = app.wait_for_sync(held, SECONDS)
    again = (folder / "held").read_text().count("begun")
    outcomes = [attempt.outcome for attempt in app.sync.get_run(held).attempts]
    verdict.facts["attempts of the run under way"] = outcomes
    verdict.check("the run under way is executed anew", holds=ended.result == 7 and again == 2)
    verdict.check("its lease of before was lost", holds=outcomes[:1] == ["lost"])
    unlike = [run_id for run_id in before if app.wait_for_sync(run_id, SECONDS).status != "SUCCEEDED"]
    verdict.check("all runs acknowledged before the backup end well", holds=not unlike)
    there = [run_id for run_id in after if _is_there(app, run_id)]
    verdict.check("no run submitted after the backup is there", holds=not there)
    [new] = app.sync.submit_runs([{"job": "add", "payload": {"x": 1}}])
    verdict.check("no id is given twice", holds=new.run_id not in {*before, *after})
    ledgers = app.sync.list_ledgers(from_time="1h").items
    verdict.facts["fires owed"] = sum(one.expected for one in ledgers)
    missing = sum(len(one.missing) for one in ledgers)
    surplus = sum(len(one.surplus) for one in ledgers)
    verdict.facts["ledger"] = f"{missing} missing, {surplus} doubled"
    verdict.check("the ledger is even", holds=not (missing or surplus))
    verdict.facts["runs acknowledged before the backup, after it"] = (len(before), len(after))


def _await_jobs(app: App) -> None:
    def are_there() -> bool:
        with contextlib.suppress(MainspringError):
            return len(app.sync.list_jobs().items) >= 3
        return False

    await_that("the worker's jobs are stored", are_there)


def _is_there(app: App, run_id: str) -> bool:
    try:
        app.sync.get_run(run_id)
    except NotFound:
        return False
    return True


def _succeed(done: object) -> str:
    assert done.returncode == 0, (done.stdout, done.stderr)  # type: ignore[attr-defined]
    return str(done.stdout)  # type: ignore[attr-defined]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> int:
    """Show it on SQLite, and on PostgreSQL where there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000)
    given = parser.parse_args()
    verdicts = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        verdicts["SQLite"] = show(folder, f"--data {folder}/old", f"--data {folder}/new", runs=given.runs)
    if (server := server_dsn()) is None:
        print(f"PostgreSQL: left out: {missing_reason()}")
    else:
        with (
            tempfile.TemporaryDirectory() as name,
            temporary_database(server) as old,
            temporary_database(server) as new,
        ):
            verdicts["PostgreSQL"] = show(Path(name), f"--store {old}", f"--store {new}", runs=given.runs)
    for store, verdict in verdicts.items():
        print(f"{store}:")
        for fact, value in verdict.facts.items():
            print(f"  {fact}: {value}")
        print(f"  verdict: {'; '.join(f'NOT SO: {what}' for what in verdict.wrong) or 'all of it holds'}")
    return 1 if any(verdict.wrong for verdict in verdicts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
