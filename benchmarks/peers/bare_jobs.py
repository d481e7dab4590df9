"""Our statements without a worker: a thousand runs are claimed while those before are applied, and nothing else.

Called as the other contestants are. It shows what a worker adds: executors, time-outs, heartbeats and reports.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from datetime import datetime

import uvloop

from benchmarks.engine import settings_for
from benchmarks.peers import mainspring_jobs, notes
from mainspring.core.ids import LaneId, SessionId
from mainspring.core.outcomes import succeeded
from mainspring.engine.assembly import Engine
from mainspring.host.process import settle_memory
from mainspring.ports.gateway import Registration
from mainspring.ports.store.claims import ClaimedRun, ClaimRequest
from mainspring.runtime import open_engine

BATCH = 1000


async def work(dsn: str) -> None:
    """Carry out what is ready, and end when there is no more to claim."""
    async with open_engine(settings_for(dsn, slots=0), with_scheduler=False) as engine:
        offer = Registration(
            name="bare", host=socket.gethostname(), pid=os.getpid(), slots=BATCH, functions=("noop",)
        )
        session = await engine.gateway.register(offer)
        lanes = tuple(lane.id for lane in await engine.store.read_lanes([]))
        lows: dict[LaneId, datetime] = {}
        number = 0
        async with asyncio.TaskGroup() as applying:
            while True:
                number += 1
                request = ClaimRequest(
                    session_id=session.id, number=number, lanes=lanes, limit=BATCH, lows=lows
                )
                (result,) = await engine.store.claim_runs([request], now=engine.clock.now())
                if not result.runs:
                    return
                lows = dict.fromkeys(lanes, result.runs[0].due_at)
                applying.create_task(_apply(engine, session.id, result.runs))


async def _apply(engine: Engine, session_id: SessionId, runs: Sequence[ClaimedRun]) -> None:
    for _ in runs:
        notes.note_job()
    ends = [succeeded(run.run_id, run.token, session_id) for run in runs]
    await engine.store.apply(ends, now=engine.clock.now())


def main() -> None:
    if sys.argv[1] != "work":
        mainspring_jobs.main()
        return
    settle_memory()
    uvloop.run(work(os.environ["DATABASE_URL"]))


if __name__ == "__main__":
    main()
