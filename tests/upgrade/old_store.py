"""A store that the release before has worked on: jobs and runs in every state, and all that is in it.

Every change is made by that release's own processes. Only two things are done by hand in SQL: a clock is set back, as
if the servers had been down for days, and a row is made and deleted, as the janitor does after weeks.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import asyncpg

from mainspring.core.ids import parse_job_id
from tests.support.postgres import call, temporary_database
from tests.upgrade.before_jobs import BEGUN
from tests.upgrade.cluster import Member, free_ports
from tests.upgrade.versions import Version

APP = "tests.upgrade.before_jobs:app"
BEAT_PERIOD = "5"
DRAINING = "caught-up"
"""The job whose fire range is still being drained: of all jobs the only one that changes while nobody asks."""
MISSED = timedelta(hours=150)
MISSED_EVERY = timedelta(minutes=10)
YEARLY = "30 9 1 1 *"
FAR = "2100-01-01T00:00:00Z"
WAITING_BODY = {"payload": {"which": "waiting"}, "priority": "HIGH"}
_PATIENCE = 90.0
_OPEN = """
import asyncio, random, sys
from pathlib import Path
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore

async def main(place):
    is_postgres = place.startswith("postgresql")
    store = PostgresStore(place, random=random.Random(1)) if is_postgres else SqliteStore(Path(place) / "mainspring.db")
    await store.open()
    await store.close()

asyncio.run(main(sys.argv[1]))
"""

Row = dict[str, Any]
Tables = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is: a PostgreSQL database, or a folder for SQLite."""

    address: str

    @property
    def is_postgres(self) -> bool:
        """Whether it is a database."""
        return self.address.startswith("postgresql")

    @property
    def option(self) -> str:
        """What `--store` is given."""
        return self.address if self.is_postgres else f"sqlite:///{self.address}"

    @property
    def file(self) -> Path:
        """The database file of SQLite."""
        return Path(self.address) / "mainspring.db"

    def execute(self, statement: str) -> None:
        """Carry out statements of SQL."""
        if self.is_postgres:
            call(self.address, lambda connection: connection.execute(statement))
            return
        with closing(sqlite3.connect(self.file)) as db, db:
            db.executescript(statement)

    def read(self) -> Tables:
        """Return all rows of all tables, by a reader that knows nothing of the product."""
        if self.is_postgres:
            tables: Tables = call(self.address, _read_postgres)
            return tables
        with closing(sqlite3.connect(self.file)) as db:
            db.row_factory = sqlite3.Row
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            return {name: _sorted(dict(row) for row in db.execute(f"SELECT * FROM {name}")) for name in names}

    def instant(self, at: datetime) -> str:
        """Return an instant as a literal of SQL."""
        if self.is_postgres:
            return f"'{at.isoformat()}'"
        return str(round(at.timestamp()) * 1_000_000)

    def upgrade(self, version: Version) -> None:
        """Have a program of this version open the store, which brings its schema up to date."""
        path = {} if version.python_path is None else {"PYTHONPATH": str(version.python_path)}
        done = subprocess.run(
            [sys.executable, "-c", _OPEN, self.address],
            env=os.environ | path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def copied(self, server: str, folder: Path) -> Iterator[Place]:
        """Copy the store, of which nothing may be running."""
        if self.is_postgres:
            with temporary_database(server, template=self.address.rpartition("/")[2]) as dsn:
                yield Place(dsn)
            return
        shutil.copytree(self.address, folder)
        yield Place(str(folder))


async def _read_postgres(connection: asyncpg.Connection[asyncpg.Record]) -> Tables:
    names = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition"
    )
    tables = {
        row["relname"]: _sorted(
            dict(found) for found in await connection.fetch(f"SELECT * FROM {row['relname']}")
        )
        for row in names
    }
    sequences = await connection.fetch(
        "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"
    )
    return tables | {"sequences": _sorted(dict(row) for row in sequences)}


def _sorted(rows: Iterator[Row]) -> list[Row]:
    return sorted(rows, key=repr)


class Api:
    """A client that knows no more than HTTP and JSON."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, method: str, path: str, body: object = None, *, key: str | None = None) -> tuple[int, Any]:
        """Return an answer's status and body."""
        request = urllib.request.Request(f"{self._address}/api/v1{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        if key is not None:
            request.add_header("idempotency-key", key)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def get(self, path: str) -> Any:
        """Return the body of an answer that says yes."""
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def post(self, path: str, body: object = None, *, key: str | None = None) -> Any:
        """Post, and return the body of an answer that says yes."""
        status, answer = self.ask("POST", path, body, key=key)
        assert 200 <= status < 300, answer
        return answer

    def job(self, name: str, **fields: object) -> str:
        """Create a job that calls the function `work` unless told otherwise; return its id."""
        target = {} if fields.keys() & {"target", "function"} else {"function": "work"}
        return str(self.post("/jobs", {"name": name, **target, **fields})["job_id"])

    def submit(self, job: str, body: object = None, *, key: str | None = None) -> str:
        """Submit a run, and return its id."""
        return str(self.post(f"/jobs/{job}/runs", body or {}, key=key)["run_id"])

    def wait(self, run: str, *states: str, is_right: Callable[[Any], bool] = lambda view: True) -> Any:
        """Wait until a run is in one of these states."""
        return wait_for(
            lambda: self.get(f"/runs/{run}"),
            lambda view: view["status"] in states and is_right(view),
        )

    def wait_for_runs(self, job: str, *, state: str, count: int = 1) -> None:
        """Wait until a job has so many runs in a state."""
        wait_for(
            lambda: self.get(f"/jobs/{job}/runs?state={state}")["items"], lambda items: len(items) >= count
        )


def wait_for(read: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
    """Read again and again until it is right, and return it."""
    deadline = time.monotonic() + _PATIENCE
    while not is_right(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


class Crew:
    """One server, and workers that reach the store by it, of one version.

    Attributes:
        folder: where the functions write what they do, in `effects`.
        port: the server's.
    """

    def __init__(self, folder: Path, place: Place, version: Version, *, port: int) -> None:
        self.folder = folder
        self.port = port
        self._version = version
        self._address = f"http://127.0.0.1:{port}"
        self.api = Api(self._address)
        options = ("--port", str(port), "--beat-period", BEAT_PERIOD, "--drain", "1", "--allow-shell")
        self.server = self._member("server", "server", "--store", place.option, *options)
        self._workers: list[Member] = []

    def worker(self, name: str, *options: str) -> Member:
        """Start a worker."""
        worker = self._member(
            name, "worker", APP, "--server", self._address, "--name", name, "--drain", "5", *options
        )
        self._workers.append(worker)
        worker.start()
        return worker

    def _member(self, name: str, *arguments: str) -> Member:
        member = Member(self.folder, name=name, arguments=arguments)
        member.python_path = self._version.python_path
        return member

    def close(self) -> None:
        """Leave nothing running."""
        for member in [*self._workers, self.server]:
            member.close()

    def begun(self) -> Counter[str]:
        """Return how often the body of each run has begun."""
        path = self.folder / "effects" / BEGUN
        return Counter(path.read_text().split()) if path.exists() else Counter()


@contextmanager
def crew(folder: Path, place: Place, version: Version, *, port: int | None = None) -> Iterator[Crew]:
    """Start a server, and leave nothing running.

    Args:
        port: the server's; None takes a free one.
    """
    folder.mkdir()
    made = Crew(folder, place, version, port=port or free_ports(1)[0])
    try:
        made.server.start()
        yield made
    finally:
        made.close()


Answers = dict[str, Any]
"""By path: status and body."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the tests ask for again.

    Attributes:
        jobs: ids by name.
        runs: ids by what they are for.
        answers: of the HTTP API, while the sessions of the killed workers were live.
        tables: all rows, after everything had stopped.
    """

    jobs: Mapping[str, str]
    runs: Mapping[str, str]
    answers: Answers
    tables: Tables


def make_old_store(place: Place, folder: Path, version: Version) -> Known:
    """Have the release before work on a new store, and stop it."""
    jobs: dict[str, str] = {}
    runs: dict[str, str] = {}
    _miss_fires(place, folder / "down", version, jobs)
    with crew(folder / "up", place, version) as old:
        crasher = old.worker("crasher", "--queue=crash", "--queue=crash-kept")
        steady = old.worker("steady", "--queue=default", "--slots=4")
        _begin_crashes(old.api, jobs, runs)
        crasher.kill()
        _define(old.api, jobs)
        _fire(old.api, jobs)
        _submit(old.api, jobs, runs)
        wait_for(
            lambda: old.api.get(f"/jobs/{jobs[DRAINING]}/spans")["items"],
            lambda items: any(item["cursor"] for item in items),
        )
        for kept in ("crash", "crash-kept"):
            old.api.wait(runs[kept], "PENDING", is_right=lambda view: view["crashes"] == 1)
        assert steady.stop() == 0
        alone = old.worker("alone", "--queue=crash")
        doomed = old.worker("doomed", "--queue=doomed")
        _hold(old.api, jobs, runs)
        for member in (alone, doomed):
            member.kill()
        # Only now: a heartbeat of a live worker would hear of the cancel, and end the run. The sessions of killed
        # workers count as live for three heartbeats.
        assert old.api.post(f"/runs/{runs['asked to cancel']}/cancel")["result"] == "requested"
        answers = ask_all(old.api, jobs, ranges="spans")
        assert old.server.stop() == 0
    _make_and_delete_newest_range(place)
    return Known(jobs, runs, answers, place.read())


def _miss_fires(place: Place, folder: Path, version: Version, jobs: dict[str, str]) -> None:
    """Set a clock back by days. With overlap `skip`, one fire is caught up at a time: that takes many minutes."""
    with crew(folder, place, version) as old:
        anchor = datetime.now(UTC) - 2 * MISSED + MISSED_EVERY / 2
        trigger = {
            "type": "interval",
            "every_seconds": MISSED_EVERY.total_seconds(),
            "anchor": anchor.isoformat(),
        }
        misfire = {"policy": "fire_all", "grace": "1s"}
        worker = old.worker("first", "--queue=default")  # the function has to be known
        jobs[DRAINING] = old.api.job(
            DRAINING, trigger=trigger, misfire=misfire, overlap="skip", queue="later"
        )
        first = datetime.fromisoformat(old.api.get(f"/jobs/{jobs[DRAINING]}")["next_fire_time"])
        assert worker.stop() == 0
        assert old.server.stop() == 0
    job_id = parse_job_id(jobs[DRAINING])
    literal = f"'{job_id}'" if place.is_postgres else f"x'{job_id.hex}'"
    place.execute(
        f"UPDATE job_clock SET next_fire_at = {place.instant(first - MISSED)}, fired_through = NULL"
        f" WHERE job_id = {literal}"
    )


def _begin_crashes(api: Api, jobs: dict[str, str], runs: dict[str, str]) -> None:
    for queue in ("crash", "crash-kept"):
        jobs[queue] = api.job(queue, function="hang", queue=queue)
        runs[queue] = api.submit(jobs[queue])
        api.wait(runs[queue], "RUNNING")


def _define(api: Api, jobs: dict[str, str]) -> None:
    everything = {
        "trigger": {"type": "cron", "expression": YEARLY, "tz": "Europe/Berlin", "dst": "skip/both"},
        "target": {
            "type": "http",
            "url": "https://example.com/hook",
            "method": "PUT",
            "headers": {"X-A": "b"},
        },
        "payload": {"format": "pdf", "large": 2**70},
        "priority": "HIGH",
        "queue": "reports",
        "labels": ["gpu", "eu"],
        "retry": {"backoff": "list", "delays": [1, 2.5, 60], "max_retries": 7, "jitter": 0.5},
        "misfire": {"policy": "fire_all", "grace": "7s", "max_count": 17, "max_age": "3d"},
        "overlap": "skip",
        "delivery": "exactly_once",
        "timeout": "90s",
        "soft_timeout": "80s",
        "jitter": "30s",
        "expires_after": "2d",
        "poison_limit": 5,
    }
    jobs["everything"] = api.job("everything", **everything)
    jobs["shell"] = api.job(
        "shell", target={"type": "shell", "command": ["echo", "ü"], "env": {"A": "b"}}, every="3650d"
    )
    jobs["once"] = api.job("once", run_at=FAR)
    policies = product(
        ("skip", "fire_latest", "fire_all"),
        ("allow", "skip"),
        ("at_least_once", "at_most_once", "exactly_once"),
        ("fixed", "linear", "exponential"),
    )
    bodies = [
        {
            "name": f"policy-{number}",
            "function": "work",
            "cron": YEARLY,
            "misfire": misfire,
            "overlap": overlap,
            "delivery": delivery,
            "retry": {"backoff": backoff, "max_retries": number, "delay": f"{number + 1}s", "cap": "2h"},
            "queue": f"policies-{number % 3}",
            "priority": ("HIGH", "MEDIUM", "LOW")[number % 3],
        }
        for number, (misfire, overlap, delivery, backoff) in enumerate(policies)
    ]
    made = api.post("/jobs/bulk", bodies)
    jobs |= {item["job"]["name"]: item["job"]["job_id"] for item in made}


def _fire(api: Api, jobs: dict[str, str]) -> None:
    """Make runs of a clock: succeeded, skipped, an open gap, and ranges of an edited job."""
    jobs["fired"] = api.job("fired", every="1s")
    jobs["overlapping"] = api.job("overlapping", every="1s", overlap="skip", queue="later")
    jobs["edited"] = api.job("edited", every="1s")
    api.wait_for_runs(jobs["edited"], state="SUCCEEDED")
    api.post(f"/jobs/{jobs['edited']}/pause")
    api.wait_for_runs(jobs["fired"], state="SUCCEEDED", count=4)
    api.wait_for_runs(jobs["overlapping"], state="SKIPPED", count=2)
    api.post(f"/jobs/{jobs['edited']}/resume")  # some fires were left out by now
    for name in ("fired", "overlapping"):
        api.post(f"/jobs/{jobs[name]}/pause")
    changes: Sequence[Mapping[str, object]] = (
        {"cron": YEARLY, "tz": "Asia/Tokyo"},
        {"payload": {"edition": 3}},
        {"retry": {"max_retries": 0}, "queue": "later"},
    )
    for change in changes:
        status, answer = api.ask("PATCH", f"/jobs/{jobs['edited']}", change)
        assert status == 200, answer


def _submit(api: Api, jobs: dict[str, str], runs: dict[str, str]) -> None:
    jobs["plain"] = api.job("plain")
    runs["done"] = api.submit(jobs["plain"], {"payload": {"n": 1}}, key="done-key")
    runs["future"] = api.submit(jobs["plain"], {"run_at": FAR})
    jobs["failing"] = api.job(
        "failing", function="fail", retry={"max_retries": 1, "delay": "100ms", "backoff": "fixed"}
    )
    runs["failed"] = api.submit(jobs["failing"])
    jobs["retrying"] = api.job(
        "retrying", function="fail", retry={"max_retries": 1000, "delay": "2s", "backoff": "fixed"}
    )
    runs["retrying"] = api.submit(jobs["retrying"])
    for queue, labels in (("later", []), ("later-still", []), ("later", ["gpu"])):
        name = f"waiting-{queue}-{'-'.join(labels)}"
        jobs[name] = api.job(name, queue=queue, labels=labels, payload={"own": name})
        for priority in ("HIGH", "MEDIUM", "LOW"):
            for number in range(2):
                runs[f"{name}-{priority}-{number}"] = api.submit(jobs[name], {"priority": priority})
    jobs["keyed"] = api.job("keyed", queue="later")
    runs["keyed"] = api.submit(jobs["keyed"], WAITING_BODY, key="waiting-key")
    runs["cancelled"] = api.submit(jobs["keyed"])
    assert api.post(f"/runs/{runs['cancelled']}/cancel")["result"] == "cancelled"
    runs["edited"] = api.submit(jobs["edited"])
    jobs["deleted"] = api.job("deleted", queue="later", every="3650d")
    runs["deleted"] = api.submit(jobs["deleted"])
    assert api.ask("DELETE", f"/jobs/{jobs['deleted']}")[0] == 200
    jobs["expiring"] = api.job("expiring", queue="later", expires_after="50ms")
    runs["expired"] = api.submit(jobs["expiring"])
    api.wait(runs["done"], "SUCCEEDED")
    api.wait(runs["failed"], "FAILED")
    api.wait(runs["expired"], "SKIPPED")
    api.wait(runs["deleted"], "CANCELLED")
    api.wait(runs["retrying"], "RETRYING", is_right=lambda view: view["attempt"] >= 2)


def _hold(api: Api, jobs: dict[str, str], runs: dict[str, str]) -> None:
    """Have attempts under way whose workers are to be killed."""
    for delivery in ("at_least_once", "at_most_once", "exactly_once"):
        jobs[delivery] = api.job(delivery, function="hang", queue="doomed", delivery=delivery)
        runs[delivery] = api.submit(jobs[delivery])
    runs["asked to cancel"] = api.submit(jobs["at_least_once"])
    for name in ("crash", "at_least_once", "at_most_once", "exactly_once", "asked to cancel"):
        api.wait(runs[name], "RUNNING")


def _make_and_delete_newest_range(place: Place) -> None:
    """Leave an id that was given once and is not to be seen any more."""
    job_id, yes = ("gen_random_uuid()", "true") if place.is_postgres else ("x'00'", "1")
    at = place.instant(datetime(2026, 1, 1, tzinfo=UTC))
    columns = "job_id, version, shard, kind, from_at, to_at, reason, is_open, created_at"
    place.execute(
        f"INSERT INTO span ({columns}) VALUES ({job_id}, 1, 0, 'gap', {at}, {at}, 'gone', {yes}, {at});"
        "DELETE FROM span WHERE reason = 'gone';"
    )


def ask_all(api: Api, jobs: Mapping[str, str], *, ranges: str) -> Answers:
    """Return the answers to everything that can be asked, but for what the job that is being caught up changes.

    Args:
        ranges: what the route to a job's fire ranges is called.
    """
    draining = jobs[DRAINING]
    listed = [
        [item for item in api.get(f"{path}?limit=1000")["items"] if item["job_id"] != draining]
        for path in ("/jobs", "/runs")
    ]
    answers: Answers = {"/jobs": listed[0], "/runs": listed[1]}
    for state in ("PENDING", "RETRYING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"):
        items = api.get(f"/runs?state={state}&limit=1000")["items"]
        answers[f"/runs?{state}"] = [item for item in items if item["job_id"] != draining]
    for run in listed[1]:
        answers[f"/runs/{run['run_id']}"] = api.ask("GET", f"/runs/{run['run_id']}")
    for name, job in jobs.items():
        if name == DRAINING:
            continue
        for below in ("", "/status", "/runs", "/ledger"):
            answers[f"/jobs/{job}{below}"] = api.ask("GET", f"/jobs/{job}{below}")
        answers[f"/jobs/{job}/ranges"] = api.ask("GET", f"/jobs/{job}/{ranges}")
        _leave_out_period(answers[f"/jobs/{job}/ledger"][1])
    return answers


def _leave_out_period(ledger: Any) -> None:
    """What a ledger expects goes by its last day, which goes on."""
    for field in ("from_time", "to_time", "expected", "recorded", "reasons", "job"):
        ledger.pop(field, None)
