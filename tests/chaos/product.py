"""The product with a fuse: `python -m tests.chaos.product up …` is `mainspring up …`, but for what the environment
asks.

- `MAINSPRING_CHAOS_FAILPOINT=before:apply:3` ends the process at that commit (failpoints.py).
- `MAINSPRING_CHAOS_HALT=FILE`: a worker stops itself (SIGSTOP) at the point that is written in the file: `claim`, after
  it was given leases; `report`, before it says how attempts ended. The file is taken away.
- `MAINSPRING_CHAOS_NOTES=FOLDER`: where both are noted, and every write that the store refused as stale.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import mainspring.sdk.http_gateway
import mainspring.stores.sqlite
from mainspring.cli.main import main
from mainspring.core.ids import SessionId
from mainspring.ports.gateway import ClaimCall, ClaimReply, Report, ReportResult
from mainspring.ports.store_types import ApplyResult
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.connection import Call, Lane, LaneThread, Transactions
from tests.chaos.failpoints import FAILPOINT_VARIABLE, WRITING_VERBS, Failpoint, Fuse, end_at, note

HALT_VARIABLE = "MAINSPRING_CHAOS_HALT"
STALE = "stale"
_verb: ContextVar[str] = ContextVar("verb", default="")


def make_fuse(text: str | None) -> Fuse:
    """Return the fuse that the environment asks for."""
    if not text:
        return Fuse(None, lambda: None)
    failpoint = Failpoint.parse(text)
    return Fuse(failpoint, lambda: end_at(failpoint))


class FusedTransactions(Transactions):
    """Transactions that pass by the fuse on both sides of their commit."""

    fuse = make_fuse(os.environ.get(FAILPOINT_VARIABLE))

    def commit(self, group: list[Call]) -> None:
        self.fuse.pass_by("before")
        super().commit(group)
        self.fuse.pass_by("after")


class FusedStore(SqliteStore):
    """The real store; every write knows by which verb it was asked for."""

    def _make_lane(self, name: str, *, is_writer: bool) -> Lane:
        if not is_writer:
            return super()._make_lane(name, is_writer=is_writer)
        transactions = FusedTransactions(self._path, is_writer=True, on_rollback=self._lane_ids.clear)
        return LaneThread(transactions, name=name)

    async def _write(self, work: Callable[..., Any]) -> Any:
        return await super()._write(FusedTransactions.fuse.guard(_verb.get(), work))


def _named(verb: str) -> Callable[..., Awaitable[Any]]:
    """Return the store's method under a name that `_write` can see."""
    method = getattr(SqliteStore, verb)

    async def call(self: FusedStore, *args: Any, **given: Any) -> Any:
        token = _verb.set(verb)
        try:
            results = await method(self, *args, **given)
        finally:
            _verb.reset(token)
        if verb == "apply":
            for _ in range(results.count(ApplyResult.STALE)):
                note(STALE)
        return results

    return call


for _writing in WRITING_VERBS:
    setattr(FusedStore, _writing, _named(_writing))


class HaltingGateway(HttpGateway):
    """The real gateway of a remote worker, whose process stops itself where it is told to."""

    async def claim(self, call: ClaimCall) -> ClaimReply:
        reply = await super().claim(call)
        if reply.leases:
            halt_if_told("claim")
        return reply

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        halt_if_told("report")
        return await super().report(session_id, reports)


def halt_if_told(point: str) -> None:
    """Stop this process, until somebody lets it go on, if the halt file names this point."""
    name = os.environ.get(HALT_VARIABLE)
    if name is None or not Path(name).exists() or Path(name).read_text() != point:
        return
    Path(name).unlink()
    note(f"halted {point}")
    os.kill(os.getpid(), signal.SIGSTOP)


def install() -> None:
    """Put the watched store and gateway where the product looks for the real ones."""
    mainspring.stores.sqlite.SqliteStore = FusedStore  # type: ignore[misc]
    mainspring.sdk.http_gateway.HttpGateway = HaltingGateway  # type: ignore[misc]


if __name__ == "__main__":
    install()
    main()
