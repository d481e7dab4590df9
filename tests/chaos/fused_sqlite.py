"""The SQLite store with a fuse at its commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.connection import Database, DatabaseCall, DatabaseThread, Transactions
from tests.chaos.fuses import current_verb, fuse_of_process, name_verbs

R = TypeVar("R")


class FusedTransactions(Transactions):
    """Transactions that pass by the fuse on both sides of their commit."""

    fuse = fuse_of_process()

    def commit(self, group: list[DatabaseCall]) -> None:
        self.fuse.pass_by("before")
        super().commit(group)
        self.fuse.pass_by("after")


class FusedThread(DatabaseThread):
    """The writer's thread; every write knows the verb that asked for it."""

    async def call(self, work: Callable[..., R]) -> R:
        guarded: Callable[..., R] = FusedTransactions.fuse.guard(current_verb(), work)
        return await super().call(guarded)


class FusedStore(SqliteStore):
    """The real store on that thread."""

    def _make_database(self, name: str, *, is_writer: bool, patience: float | None = None) -> Database:
        if not is_writer:
            return super()._make_database(name, is_writer=is_writer, patience=patience)
        transactions = FusedTransactions(self._path, is_writer=True, on_rollback=self._lane_ids.clear)
        return FusedThread(transactions, name=name)


name_verbs(FusedStore)
