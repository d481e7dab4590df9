"""Refuses a migration that running programs cannot work with, as long as one of them is alive.

The caller holds the schema's lock, so no other program starts meanwhile. Rising counters show who is alive, never
time stamps (design 5). A killed program leaves its row behind, so the migration waits until that row has been silent
long enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog

from mainspring.core.liveness import PERIODS_OF_SILENCE
from mainspring.core.values import value
from mainspring.errors import SchemaMismatch
from mainspring.stores._sql.migrate import Migration
from mainspring.stores.postgres.connection import Transaction

_PAUSE = 0.5
_UNTOLD = timedelta(seconds=10)
"""The assumed period of a program that reports none. No program has a longer one by default."""
_NAMED = 5
_log = structlog.get_logger(__name__)


@value()
class _Member:
    """A server or worker as the store knows it."""

    kind: str
    id: str
    name: str
    host: str
    pid: int
    beats: int
    period: timedelta

    def __str__(self) -> str:
        what = f"server {self.name}" if self.kind == "server" else f"worker {self.name}"
        return f"{what} (host {self.host}, pid {self.pid})"


_Members = Mapping[tuple[str, str], _Member]


async def refuse_while_running(transaction: Transaction, breaking: Migration) -> None:
    """Return once no server or worker is alive: at once if all were stopped, otherwise after three silent periods.

    Args:
        transaction: the one that holds the schema's lock.
        breaking: the migration that older programs cannot work with.

    Raises:
        SchemaMismatch: one of them is alive; the message names it.
    """
    silent = await _read(transaction)
    waited = 0.0
    if silent:
        seconds = _seconds_of_silence(silent)
        _log.warning("migration_watches", of=_name(list(silent.values())), seconds=seconds)
    while silent and waited < _seconds_of_silence(silent):
        await transaction.fetch("let_others_pass", seconds=_PAUSE)
        waited += _PAUSE
        found = await _read(transaction)
        alive = [
            member for key, member in found.items() if key not in silent or silent[key].beats != member.beats
        ]
        if alive:
            raise SchemaMismatch(_refuse(breaking, alive, found))
        silent = {key: member for key, member in silent.items() if key in found}


async def _read(transaction: Transaction) -> _Members:
    rows = await transaction.fetch("read_running")
    return {
        (row["kind"], row["id"]): _Member(
            row["kind"],
            row["id"],
            row["name"],
            row["host"],
            row["pid"],
            row["beats"],
            row["period"] if row["period"] is not None else _UNTOLD,
        )
        for row in rows
    }


def _refuse(breaking: Migration, alive: Sequence[_Member], found: _Members) -> str:
    unheard = [member for member in found.values() if member not in alive]
    others = f" (not heard of so far: {_name(unheard)})" if unheard else ""
    return (
        f"migration {breaking.number:04} works with no older program, and some are still running: {_name(alive)}"
        f"{others}; stop all servers and workers, then start again"
    )


def _seconds_of_silence(members: _Members) -> float:
    return PERIODS_OF_SILENCE * max(member.period.total_seconds() for member in members.values())


def _name(members: Sequence[_Member]) -> str:
    named = ", ".join(map(str, members[:_NAMED]))
    more = len(members) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
