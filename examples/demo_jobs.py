"""The demo's Python jobs. Each writes what it did to a file that the scheduler does not know."""

import asyncio
import os
import time
from pathlib import Path

from mainspring import App, current_attempt
from mainspring.core.ids import format_run_id

app = App()


def write(what: str) -> None:
    """Append one durable line: what, run, attempt, token, nominal time, due time, now."""
    attempt = current_attempt()
    nominal = attempt.fire_at.isoformat() if attempt.fire_at else "-"
    line = " ".join(
        [
            what,
            attempt.job_name,
            format_run_id(attempt.run_id),
            str(attempt.attempt),
            str(attempt.token),
            nominal,
            attempt.due_at.isoformat(),
            f"{time.time():.6f}",
        ]
    )
    path = Path(os.environ["EFFECTS_DIR"]) / f"python-{os.getpid()}.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{line}\n".encode())
    os.fsync(descriptor)
    os.close(descriptor)


@app.job(name="demo-async", every="1s")
async def poll_inbox() -> str:
    """An async function, every second."""
    write("start")
    await asyncio.sleep(0.05)
    write("end")
    return "3 new messages"


@app.job(name="demo-sync", cron="*/2 * * * * *")
def resize_pictures() -> int:
    """A sync function, in a thread, every two seconds."""
    write("start")
    time.sleep(0.1)
    write("end")
    return 7


@app.job(name="demo-flaky", retry={"max_retries": 3, "backoff": "fixed", "delay": "1s"})
async def charge_card() -> str:
    """Fails twice, then succeeds."""
    write("start")
    if current_attempt().attempt < 3:
        raise ConnectionError("the bank did not answer")
    write("end")
    return "charged"


@app.job(name="demo-hopeless", retry={"max_retries": 2, "backoff": "fixed", "delay": "500ms"})
async def import_broken_file() -> None:
    """Fails every time: ends as a dead letter."""
    write("start")
    raise ValueError("line 17 is not a number")


@app.job(name="demo-once")
async def send_newsletter() -> None:
    """Submitted for one instant."""
    write("start")
    write("end")


@app.job(name="demo-long", queue="long")
async def train_model() -> str:
    """Takes a while: its worker is killed in the middle of it."""
    write("start")
    await asyncio.sleep(6)
    write("end")
    return "accuracy 0.93"
