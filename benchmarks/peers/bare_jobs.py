"""Our statements without a worker: claims and applications of a thousand runs, one after the other, and nothing else.

Called as the other contestants are. It shows what a worker adds: leases, executors, time-outs, heartbeats and reports.
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
from mainspring.cli.process import settle_memory
from mainspring.core.ids import LaneId
from mainspring.core.transitions import succeeded
from mainspring.engine.assembly import Engine
from mainspring.ports.gateway import Registration
from mainspring.ports.store_types import ClaimedRun, ClaimRequest
from mainspring.runtime import open_engine

BATCH = 1000
PAUSE = 0.01


async def work(dsn: str) -> None:
    async with open_engine(settings_for(dsn, slots=0), with_scheduler=False) as engine:
        claimed: asyncio.Queue[Sequence[ClaimedRun]] = asyncio.Queue(maxsize=1)
        await asyncio.gather(_claim(engine, claimed), _apply(engine, claimed))


async def _claim(engine: Engine, claimed: asyncio.Queue[Sequence[ClaimedRun]]) -> None:
    offer = Registration(
        name="bare", host=socket.gethostname(), pid=os.getpid(), slots=BATCH, functions=("noop",)
    )
    session = await engine.gateway.register(offer)
    number = 0
    ids = tuple(lane.id for lane in await engine.store.read_lanes([]))
    lows: dict[LaneId, datetime] = {}
    while True:
        number += 1
        request = ClaimRequest(session_id=session.id, number=number, lanes=ids, limit=BATCH, lows=lows)
        (result,) = await engine.store.claim_runs([request], now=engine.clock.now())
        if result.runs:
            lows = dict.fromkeys(ids, result.runs[0].due_at)
            await claimed.put(result.runs)
        else:
            await asyncio.sleep(PAUSE)


async def _apply(engine: Engine, claimed: asyncio.Queue[Sequence[ClaimedRun]]) -> None:
    while True:
        runs = await claimed.get()
        for _ in runs:
            notes.note_job()
        await engine.store.apply([succeeded(run.run_id, run.token) for run in runs], now=engine.clock.now())


def main() -> None:
    if sys.argv[1] != "work":
        mainspring_jobs.main()
        return
    settle_memory()
    uvloop.run(work(os.environ["DATABASE_URL"]))


if __name__ == "__main__":
    main()
