"""What a herd does to others: 100,000 one-off jobs at one instant, beside 100 jobs that fire each second.

The herd is of MEDIUM priority. Without a jitter, the jobs beside it are HIGH; with a jitter of 30 s, they are MEDIUM.
Measured is how late each start was, of the herd and of the others, from five seconds before the instant until all have
begun; and with a jitter how evenly the starts of the herd fill its seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter

import asyncpg

from benchmarks.report import Row, publish
from benchmarks.schedule_jobs import Mix
from benchmarks.schedules import PATIENCE, WORKERS, cluster, lag_rows, load

BESIDE = 100
SECONDS = 30
"""Over which a herd with jitter is spread."""
BEFORE = 5.0


async def measure(dsn: str, count: int, jitter: int, *, workers: int = WORKERS) -> list[Row]:
    """Let the herd come; return how late its starts were, and those of the jobs beside it."""
    priority = "MEDIUM" if jitter else "HIGH"
    async with cluster(dsn, workers=workers) as running:
        connection = await asyncpg.connect(running.database)
        due = float(int(time.time() + 25 + count / 3000))
        await load(running.database, Mix(jobs=count, due=due, jitter=jitter))
        await load(running.database, Mix(jobs=BESIDE, beside=priority), loaders=1)
        await connection.execute("VACUUM ANALYZE", timeout=600)
        if time.time() > due - BEFORE:
            raise RuntimeError("the jobs were not loaded in time")
        await asyncio.sleep(due + jitter - time.time())
        waiting = "SELECT EXISTS (SELECT FROM job_clock WHERE job_id IN (SELECT id FROM job WHERE name LIKE 'once-%')"
        waiting += (
            " AND next_fire_at IS NOT NULL) OR EXISTS (SELECT FROM run WHERE due_at < now() - interval '2 s')"
        )
        while await connection.fetchval(waiting):
            if time.time() > due + jitter + PATIENCE:
                raise RuntimeError("the jobs did not come to an end")
            await asyncio.sleep(0.25)
        await connection.close()
        herd, beside = running.notes(), running.notes_beside()
    assert len(herd) == count, f"{len(herd)} of {count} began"
    ended = max(began for _, began in herd)
    title = f"{count:,} jobs at one instant" + (f" with {jitter} s of jitter" if jitter else "")
    rows: list[Row] = [{"name": f"{title}: all begun after", "value": round(ended - due, 2), "unit": "s"}]
    detail: dict[str, object] = {}
    if jitter:
        seconds = Counter(int(began - due) for _, began in herd)
        even = count / jitter
        detail = {
            "least in a second, of even": round(min(seconds[second] for second in range(jitter)) / even, 2),
            "most in a second, of even": round(max(seconds.values()) / even, 2),
        }
    rows += lag_rows(title, sorted((began - at) * 1000 for at, began in herd), detail)
    lags = sorted((began - at) * 1000 for at, began in beside if due - BEFORE <= at <= ended)
    rows += lag_rows(f"{BESIDE} {priority} jobs a second beside {title}", lags, {"starts": len(lags)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.herd", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--jitter", type=int, nargs="*", default=[0, SECONDS], help="seconds, for each herd")
    options = parser.parse_args()
    dsn = os.environ["MAINSPRING_TEST_POSTGRES"]
    for jitter in options.jitter:
        publish(f"herd, jitter {jitter}", asyncio.run(measure(dsn, options.count, jitter)))


if __name__ == "__main__":
    main()
