"""The PostgreSQL store with a fuse at its commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainspring.ports.clock import RandomSource
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres import store as store_module
from mainspring.stores.postgres.connection import Connections, Transaction
from tests.chaos.fuses import current_verb, fuse_of_process, name_verbs


class FusedConnections(Connections):
    """Connections on which a transaction passes by the fuse on both sides of its commit.

    What is one statement is committed with it: before that is before it is sent.
    """

    fuse = fuse_of_process()

    async def _try(self, connection: Any, begin: str, call: Any, progress: Any) -> Any:
        if not self.fuse.take(current_verb()):
            return await super()._try(connection, begin, call, progress)
        if call.is_atomic:
            self.fuse.burn_if("before")

        async def work(transaction: Transaction) -> Any:
            result = await call.work(transaction)
            if not call.is_atomic:
                self.fuse.burn_if("before")
            return result

        result = await super()._try(connection, begin, replace(call, work=work), progress)
        self.fuse.burn_if("after")
        return result


class FusedPostgresStore(PostgresStore):
    """The real store; every transaction knows by which verb it was asked for."""

    def __init__(self, options: ConnectionOptions | str, *, random: RandomSource) -> None:
        with patch.object(store_module, "Connections", FusedConnections):  # for all parts of the store
            super().__init__(options, random=random)


name_verbs(FusedPostgresStore)
