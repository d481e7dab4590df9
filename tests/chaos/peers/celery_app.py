"""The peer's side, in an environment of its own: Celery's app, its tasks, and a client that is asked by commands.

Knows nothing of Mainspring. `python -m tests.chaos.peers.celery_app COMMAND` reads JSON from standard input and
writes JSON to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import celery
import kombu
from celery import Celery

from tests.chaos.lines import append_line

URL = os.environ["PEER_REDIS"]
PATIENCE = 30.0

app = Celery("peer", broker=URL, backend=URL)
app.conf.broker_transport_options = json.loads(os.environ["PEER_OPTIONS"])
app.conf.broker_connection_retry_on_startup = True


def _work(task: Any, seconds: float) -> str:
    """Write down the start, take a while, write down the end; the result tells which execution it is of."""
    execution = uuid.uuid4().hex
    _write("start", task, execution)
    time.sleep(seconds)
    _write("end", task, execution)
    return execution


def _write(what: str, task: Any, execution: str) -> None:
    path = Path(os.environ["PEER_EFFECTS"])
    append_line(path, f"{what} {task.request.id} {execution} {task.request.hostname} {time.time():.6f}")


@app.task(name="early", bind=True)
def early(task: Any, seconds: float) -> str:
    """Acknowledged before it is carried out, which is Celery's default."""
    return _work(task, seconds)


@app.task(name="tracked", bind=True, track_started=True)
def tracked(task: Any, seconds: float) -> str:
    """The same, and the result backend is told of its start."""
    return _work(task, seconds)


@app.task(name="late", bind=True, acks_late=True)
def late(task: Any, seconds: float) -> str:
    """Acknowledged once it was carried out."""
    return _work(task, seconds)


def submit(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Submit tasks, `delay` seconds ahead where it says so; return the ids with the instants of the client."""
    told = []
    for item in plan:
        asked = time.time()
        eta = datetime.fromtimestamp(asked + item["delay"], UTC) if item["delay"] else None
        answer = app.tasks[item["task"]].apply_async((item["seconds"],), eta=eta)
        told.append(
            {
                "id": answer.id,
                "task": item["task"],
                "asked": asked,
                "answered": time.time(),
                "due": eta.timestamp() if eta else asked,
            }
        )
    return told


def read(ids: list[str]) -> dict[str, Any]:
    """Return what the result backend says of each task, and which ids the broker still holds."""
    records = {}
    for task_id in ids:
        found = app.AsyncResult(task_id)
        done = found.date_done
        records[task_id] = {
            "status": found.status,
            "result": found.result if isinstance(found.result, str) else None,
            "done": done.replace(tzinfo=done.tzinfo or UTC).timestamp() if done else None,
        }
    with app.connection() as connection:
        client = connection.default_channel.client
        queued = [json.loads(text) for text in client.lrange("celery", 0, -1)]
        unacked = [json.loads(text)[0] for text in client.hvals("unacked")]
    return {"records": records, "held": sorted({item["headers"]["id"] for item in queued + unacked})}


def versions(_: None) -> str:
    """Return what is under test."""
    with app.connection() as connection:
        server = connection.default_channel.client.info("server")["redis_version"]
    return f"Celery {celery.__version__}, kombu {kombu.__version__}, Redis {server}"


def ready(workers: int) -> int:
    """Wait until so many workers answer; return how many do."""
    deadline = time.monotonic() + PATIENCE
    count = 0
    while count < workers and time.monotonic() < deadline:
        count = len(app.control.ping(timeout=2.0, limit=workers))
    return count


COMMANDS: dict[str, Callable[[Any], Any]] = {
    "read": read,
    "ready": ready,
    "submit": submit,
    "versions": versions,
}


if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](json.load(sys.stdin))))
