"""APScheduler 3 on PostgreSQL: `COUNT` cron jobs that do not come due, and 1,000 that do; prints figures as JSON.

Runs in an environment of its own, with the database in DATABASE_URL.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

DUE = 1000
LOAD_LIMIT = 40.0
PATIENCE = 90.0
lags: list[float] = []


def noop() -> None:
    """Do nothing."""


def note(due: float) -> None:
    """Note how late the call is, in ms."""
    lags.append((time.time() - due) * 1000)


def main(count: int) -> None:
    url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=url)},
        executors={"default": ThreadPoolExecutor(10)},
        job_defaults={"misfire_grace_time": None, "max_instances": 100_000},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    began, loaded = time.time(), 0
    far = (datetime.now(UTC) + timedelta(days=180)).month
    while loaded < count and time.time() - began < LOAD_LIMIT:
        hour, minute = loaded // 60 % 24, loaded % 60
        scheduler.add_job(noop, CronTrigger(month=far, hour=hour, minute=minute), id=str(loaded))
        loaded += 1
    rate = loaded / (time.time() - began)
    due = (datetime.now(UTC) + timedelta(seconds=5)).replace(microsecond=0)
    for number in range(DUE):
        scheduler.add_job(note, "date", run_date=due, args=[due.timestamp()], id=f"due-{number}")
    scheduler.resume()
    while len(lags) < DUE and time.time() < due.timestamp() + PATIENCE:
        time.sleep(0.1)
    status = Path("/proc/self/status").read_text()
    resident = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    print(json.dumps({"loaded": loaded, "rate": rate, "lags": sorted(lags), "memory": resident}), flush=True)
    os._exit(0)  # its threads would be waited for


if __name__ == "__main__":
    sys.modules["apscheduler_jobs"] = sys.modules["__main__"]
    for function in (noop, note):
        function.__module__ = "apscheduler_jobs"  # the store keeps functions by name
    main(int(sys.argv[1]))
