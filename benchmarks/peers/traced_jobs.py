"""Our producer and worker with a note of when each step of a pick-up is reached, for `benchmarks.account`.

Called as `mainspring_jobs` is. The steps are wrapped from outside, so the product carries no trace of this.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.peers import mainspring_jobs, notes
from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.common.hints import HintExchange
from mainspring.engine.gateway import LocalGateway
from mainspring.stores.postgres.claims import PostgresClaimStore
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.hints import PostgresHints
from mainspring.worker.execution import Execution

MARKS = ".marks"
"""Ends the name of the file in which a process leaves when it reached what."""
_marks: list[tuple[str, float]] = []


def mark(step: str) -> None:
    """Note that a step is reached now, by the host's clock."""
    _marks.append((step, time.time()))


def _wrap(owner: Any, name: str, before: str | None, after: str | None = None) -> None:
    """Have a method note when it begins, and when it returns."""
    original = getattr(owner, name)

    def note(step: str | None) -> None:
        if step is not None:
            mark(step)

    wrapped: Callable[..., Any]
    if name in {"send_soon", "_on_notification", "begin"}:

        @wraps(original)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            note(before)
            result = original(*arguments, **named)
            note(after)
            return result
    else:

        @wraps(original)
        async def wrapped(*arguments: Any, **named: Any) -> Any:
            note(before)
            result = await original(*arguments, **named)
            note(after)
            return result

    setattr(owner, name, wrapped)


def trace() -> None:
    """Wrap the steps of a pick-up, on the way from the submission to the first line."""
    fetch = Transaction.fetch

    async def fetch_noted(self: Transaction, name: str, /, **values: Any) -> Any:
        if name not in {"submit_one", "try_claim", "read_lanes", "claim_runs"}:
            return await fetch(self, name, **values)
        mark(f"{name} sent")
        rows = await fetch(self, name, **values)
        mark(f"{name} answered")
        return rows

    Transaction.fetch = fetch_noted  # type: ignore[method-assign]
    _wrap(HintExchange, "send_soon", "hint wanted")
    _wrap(PostgresHints, "send", "hint sent", "hint carried")
    _wrap(PostgresHints, "_on_notification", "hint heard")
    _wrap(Matcher, "tick", "matcher wakes")
    _wrap(PostgresClaimStore, "claim_runs", "claim begins", "claim ends")
    _wrap(LocalGateway, "claim", None, "claim answered")
    _wrap(Execution, "begin", "attempt begins")
    note_stamp, ping = notes.note_stamp, notes.ping

    def stamp_noted(submitted_at: float) -> None:
        mark("first line")
        note_stamp(submitted_at)

    async def ping_noted(call: Any, *, count: int, gap: float) -> None:
        async def call_noted(at: float) -> None:
            _marks.append(("call", at))
            await call(at)
            mark("call returns")

        await ping(call_noted, count=count, gap=gap)

    notes.note_stamp, notes.ping = stamp_noted, ping_noted
    atexit.register(_keep)


def _keep() -> None:
    path = Path(os.environ[notes.NOTES]) / f"{os.getpid()}{MARKS}"
    path.write_text(json.dumps(_marks))


def main() -> None:
    trace()
    if sys.argv[1] == "work":
        # The worker of the command line, in this process: it would not be traced in another one.
        sys.argv = ["mainspring", "worker", "--store", os.environ["DATABASE_URL"], *sys.argv[3:]]
        sys.argv.append("benchmarks.peers.mainspring_jobs:app")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        runpy.run_module("mainspring", run_name="__main__")
        return
    mainspring_jobs.main()


if __name__ == "__main__":
    main()
