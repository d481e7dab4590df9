"""How many rows of the history a second go into an archive, how much memory that takes, and how fast a run is found.

A day that is over is filled with ended runs. Then it is written into a folder, read back, and dropped, by the service
and the janitor that servers run, and one run is looked up by its id. The counts have to be equal all the way.

Run it on a private server: `scripts/services run --durable -- python -m benchmarks.archived --rows 200000`.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import asyncpg
import uvloop

from benchmarks.drops import DAY, FILL
from benchmarks.engine import fresh_database
from benchmarks.report import Row, print_rows
from mainspring.archive.reading import ArchiveReader, QueryLimits
from mainspring.archive.writing import ChildArchive
from mainspring.clock import LoopWaiter
from mainspring.core.archive import ArchiveState
from mainspring.core.ids import RunId
from mainspring.engine.scheduling.archiver import Archiver
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.settling.janitor import Janitor, Retention
from mainspring.objects import open_place, read_place
from mainspring.stores.postgres import PostgresStore
from mainspring.testing.factories import own_shards

KEEP = timedelta(days=1)
LOOKS = 20
MEMORY = 256_000_000


async def measure(server: str, rows: int, folder: Path) -> list[Row]:
    """Archive and drop a day of so many ended runs, and find one of them."""
    async with fresh_database(server) as dsn:
        store = PostgresStore(dsn, random=random.Random(1))
        await store.open()
        await store.prepare_history(now=DAY)
        connection = await asyncpg.connect(dsn)
        await connection.execute(FILL, rows, DAY)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        ownership = Ownership()
        ownership.update(await own_shards(store))
        archive = ChildArchive(str(folder), read_place(str(folder), "folder"), memory=MEMORY)
        archiver = Archiver(store, archive, ownership=ownership, waiter=LoopWaiter(), keep=KEEP)
        janitor = Janitor(store, waiter=LoopWaiter(), retention=Retention(history=KEEP), archives=True)
        later = DAY + timedelta(days=3)
        begun, used = time.perf_counter(), _used()
        while not await archiver.tick(later):
            pass
        took, processor = time.perf_counter() - begun, _used() - used
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        begun = time.perf_counter()
        while await janitor.tick(later) < 1:
            pass
        dropping = time.perf_counter() - begun
        await archiver.tick(later)
        [day] = await store.list_archive_days(limit=2)
        assert (day.state, day.runs) == (ArchiveState.DROPPED, rows), "what was dropped was verified"
        await store.close()
    return [
        {"name": f"rows archived a second, of {rows:,}", "value": round(rows / took), "unit": "1/s"},
        {"name": "processor time a row", "value": round(processor / rows * 1e6, 2), "unit": "µs"},
        {"name": "most memory of the process that writes", "value": round(peak), "unit": "MB"},
        {"name": "bytes a row in the archive", "value": round(day.bytes / rows, 1), "unit": "bytes"},
        {"name": "time in which the day is dropped", "value": round(dropping * 1000), "unit": "ms"},
        *_look(folder, rows),
    ]


def _look(folder: Path, rows: int) -> list[Row]:
    limits = QueryLimits(memory=MEMORY, seconds=60, fetched=0, rows=10)
    with tempfile.TemporaryDirectory() as scratch:
        objects = open_place(read_place(str(folder), "folder"), feature="archive.url", extra="archive")
        reader = ArchiveReader(objects, scratch=Path(scratch))
        [day] = reader.list_days()
        counted = reader.query("SELECT count(*), sum(id) FROM runs", [day], tenant=None, limits=limits)
        assert counted.rows[0] == (rows, rows * (rows + 1) // 2 * 256), "equal counts"
        took, used = [], []
        for number in range(1, rows + 1, max(1, rows // LOOKS)):
            begun = time.perf_counter(), time.process_time()
            found = reader.find(RunId(number * 256), [day], limits=limits)
            took.append(time.perf_counter() - begun[0])
            used.append(time.process_time() - begun[1])
            assert found is not None
    middle = len(took) // 2
    return [
        {"name": "a run found by its id, p50", "value": round(sorted(took)[middle] * 1000, 1), "unit": "ms"},
        {"name": "processor time of that, p50", "value": round(sorted(used)[middle] * 1000, 1), "unit": "ms"},
    ]


def _used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_rows(uvloop.run(measure(os.environ["MAINSPRING_TEST_POSTGRES"], options.rows, Path(folder))))


if __name__ == "__main__":
    main()
