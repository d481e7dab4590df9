"""The faults that are made by hand. Each is a function: it makes the fault, yields what is owed, and mends it.

A further one is a further function in `FAULTS`. They are under way together, so that each has things of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import asyncpg
import httpx

from mainspring.core.rights import ALL_TENANTS
from mainspring.errors import RunFailed
from tests.chaos.alerting.scene import LOST_AFTER, Scene
from tests.chaos.alerting.small_disk import filled
from tests.chaos.alerting.told import Owed
from tests.processes.processes import await_that

RULES: dict[str, tuple[object, ...]] = {
    "worker_lost": (),
    "no_workers": (),
    "oldest_ready": (),
    "dead_letters": ("--threshold", 0),
    "missed_run": (),
    "monitor": (),
    "disk": (),
}
"""The rules that tell here, with what they are set to."""


@contextmanager
def workers_are_gone(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """All workers of a queue are killed."""
    killed_at = scene.kill_worker("mailer")
    begun = scene.submit("send_mail")
    unserved = max(begun + scene.true_after("no_workers"), killed_at + LOST_AFTER) - begun
    yield (
        Owed(
            tenant=ALL_TENANTS, rule="worker_lost", subject="worker:mailer", since=killed_at, after=LOST_AFTER
        ),
        Owed(tenant=ALL_TENANTS, rule="no_workers", subject="queue:mail", since=begun, after=unserved),
        Owed(rule="oldest_ready", subject="queue:mail", since=begun, after=scene.true_after("oldest_ready")),
    )
    scene.start_worker("mailer", "mail")


@contextmanager
def job_fails(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """A job fails for good."""
    run = scene.app.submit_sync("charge", [None])[0]
    with contextlib.suppress(RunFailed):
        run.wait_sync(60)
    failed_at = time.time()
    yield (
        Owed(rule="job_failed", subject="job:charge", since=failed_at),
        Owed(
            rule="dead_letters",
            subject="queue:billing",
            since=failed_at,
            after=scene.true_after("dead_letters"),
        ),
    )
    (scene.folder / "bank-is-back").touch()
    redriven = scene.app.submit_sync("charge", [None])[0]
    scene.ask("dead", "discard", "--until", "0s", "--because", "the bank is back", "--yes")
    redriven.wait_sync(60)


@contextmanager
def job_never_fires(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """A session of the database forgot its transaction, and locks the clock of a job."""
    scene.ask("job", "add", "tick", "--every", "1s", "--queue", "office", "--function", "send_mail")
    with _holding(
        scene.dsn, "SELECT 1 FROM job_clock JOIN job ON job.id = job_id WHERE name = 'tick' FOR UPDATE"
    ):
        since = time.time() + 1  # its next fire is due by then
        after = scene.true_after("missed_run")
        yield (Owed(tenant=ALL_TENANTS, rule="missed_run", subject="clocks", since=since, after=after),)


@contextmanager
def queue_is_stuck(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """A run holds the only slot of its queue, and another one waits behind it."""
    first = scene.submit("report")
    second = scene.submit("report")
    yield (
        Owed(rule="job_late", subject="job:report", since=first, after=10.0),
        Owed(
            rule="oldest_ready", subject="queue:reports", since=second, after=scene.true_after("oldest_ready")
        ),
    )
    (scene.folder / "report-ends").touch()

    def are_over() -> bool:
        return not any(run.job == "report" for run in scene.app.sync.list_runs(state="running").items)

    await_that("the reports end", are_over)


@contextmanager
def job_elsewhere_fails(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """A job of another system tells its monitor that it failed."""
    made = scene.ask("monitor", "set", "dump", "--every", "1h")
    address = f"{scene.url.partition(',')[0]}{made['ping_path']}"
    since = time.time()
    httpx.post(f"{address}?exit_code=3").raise_for_status()
    yield (Owed(rule="monitor", subject="monitor:dump", since=since),)
    httpx.get(address).raise_for_status()


@contextmanager
def disk_is_nearly_full(scene: Scene) -> Iterator[tuple[Owed, ...]]:
    """A large file takes nearly all of the disk that the database is on."""
    assert scene.disk is not None, "the database has a disk of its own"
    with filled(scene.disk):
        since = time.time()
        yield (
            Owed(
                tenant=ALL_TENANTS, rule="disk", subject="disk", since=since, after=scene.true_after("disk")
            ),
        )


DISK = "disk nearly full"
FaultMaker = Callable[[Scene], AbstractContextManager[tuple[Owed, ...]]]
FAULTS: dict[str, FaultMaker] = {
    "workers killed": workers_are_gone,
    "job fails": job_fails,
    "job never fires": job_never_fires,
    "queue is stuck": queue_is_stuck,
    "job elsewhere fails": job_elsewhere_fails,
    DISK: disk_is_nearly_full,
}


@contextmanager
def _holding(dsn: str, statement: str) -> Iterator[None]:
    """Leave a transaction open."""
    is_held, is_over = threading.Event(), threading.Event()

    async def hold() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await connection.fetch(statement)
                is_held.set()
                await asyncio.to_thread(is_over.wait)
        finally:
            await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert is_held.wait(60), "the transaction is not open"
        yield
    finally:
        is_over.set()
        thread.join()
