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
from pathlib import Path

import mainspring.sdk.http_gateway
import mainspring.stores.postgres
import mainspring.stores.sqlite
from mainspring.cli.main import main
from mainspring.core.ids import SessionId
from mainspring.ports.gateway import ClaimCall, ClaimReply, Report, ReportResult
from mainspring.sdk.http_gateway import HttpGateway
from tests.chaos.failpoints import note
from tests.chaos.fused_postgres import FusedPostgresStore
from tests.chaos.fused_sqlite import FusedStore

HALT_VARIABLE = "MAINSPRING_CHAOS_HALT"


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
    """Put the watched stores and gateway where the product looks for the real ones."""
    mainspring.stores.sqlite.SqliteStore = FusedStore  # type: ignore[misc]
    mainspring.stores.postgres.PostgresStore = FusedPostgresStore  # type: ignore[misc]
    mainspring.sdk.http_gateway.HttpGateway = HaltingGateway  # type: ignore[misc]


if __name__ == "__main__":
    install()
    main()
