"""Jobs on huey's SQLite storage, in its own environment, in the file that DATABASE_URL names.

It has no bulk call. As it comes, commits are not synchronous: what it has taken in may be lost with the power.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from huey import SqliteHuey

from benchmarks.peers import notes

huey = SqliteHuey("bench", filename=os.environ["DATABASE_URL"], results=False)


@huey.task()
def noop() -> None:
    notes.note_job()


@huey.task()
def stamp(at: float) -> None:
    notes.note_stamp(at)


async def _stamp(at: float) -> None:
    stamp(at)


def main() -> None:
    match sys.argv[1:]:
        case ["load", count]:
            for _ in range(int(count)):
                noop()
        case ["submit", seconds]:
            notes.hammer_alone(noop, seconds=float(seconds))
        case ["ping", count, gap]:
            asyncio.run(notes.ping(_stamp, count=int(count), gap=float(gap)))
        case ["work", *options]:
            consumer = str(Path(sys.executable).with_name("huey_consumer"))
            os.execv(consumer, [consumer, "benchmarks.peers.huey_jobs.huey", "-q", *options])


if __name__ == "__main__":
    # The consumer knows the tasks by the name of this module.
    from benchmarks.peers import huey_jobs

    huey_jobs.main()
