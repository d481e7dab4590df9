"""celery beat with its persistent scheduler: `COUNT` entries that do not come due, and 1,000 that do, each minute.

Prints as JSON when each message was sent, from the full minute on. Runs in an environment of its own, with
the broker's address in BROKER_URL.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab

DUE = 1000
PATIENCE = 100.0
sent: list[float] = []


class Noting(PersistentScheduler):
    """Notes when it has sent an entry that was due."""

    def apply_async(self, entry: Any, *arguments: Any, **named: Any) -> Any:
        """Send, then note."""
        result = super().apply_async(entry, *arguments, **named)
        if entry.task == "due":
            sent.append(time.time())
        return result


def main(count: int) -> None:
    app = Celery("beat", broker=os.environ["BROKER_URL"])
    far = str((time.gmtime().tm_mon + 5) % 12 + 1)
    began = time.time()
    entries = {
        f"far-{number}": {
            "task": "far",
            "schedule": crontab(month_of_year=far, hour=str(number // 60 % 24), minute=str(number % 60)),
        }
        for number in range(count)
    }
    entries |= {f"due-{number}": {"task": "due", "schedule": crontab()} for number in range(DUE)}
    app.conf.update(beat_schedule=entries, timezone="UTC", task_ignore_result=True)
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Noting(app=app, schedule_filename=str(Path(folder) / "beat"))
        rate = count / (time.time() - began)
        ended = time.time() + PATIENCE
        while len(sent) < DUE and time.time() < ended:
            delay = scheduler.tick()
            time.sleep(max(0.0, min(delay or 0.0, 1.0)))
        scheduler.close()
        status = Path("/proc/self/status").read_text()
        resident = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    minute = sent[0] // 60 * 60 if sent else 0
    lags = sorted((at - minute) * 1000 for at in sent)
    print(json.dumps({"loaded": count, "rate": rate, "lags": lags, "memory": resident}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
