"""What an operator sees: failures in the log, what functions print with their runs, and a welcome on a terminal."""

import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.processes.processes import await_that, command, environment, server

SHOP = """
import logging
from mainspring import App
app = App()
log = logging.getLogger("shop")

@app.job(retry={"max_retries": 1, "delay": "100ms"})
def broken():
    print("trying")
    log.warning("about to fail")
    raise ValueError("boom")

@app.job()
async def fine():
    print("all is well")
"""


def submit(url: str, name: str) -> str:
    (job,) = httpx.get(f"{url}/api/v1/jobs", params={"name": name}).json()["items"]
    return str(httpx.post(f"{url}/api/v1/jobs/{job['job_id']}/run").json()["run_id"])


def ended(url: str, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_over() -> bool:
        found.update(httpx.get(f"{url}/api/v1/runs/{run_id}").json())
        return found["finished_at"] is not None

    await_that(f"{run_id} ends", is_over)
    return found


def test_failures_are_lines_and_output_stands_with_its_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with server("shop:app", cwd=tmp_path) as (process, url):
        failed, fine = ended(url, submit(url, "broken")), ended(url, submit(url, "fine"))
        assert process.stop() == 0
    assert fine["output"] == "all is well\n"
    assert failed["status"] == "FAILED"
    for attempt in failed["attempts"]:
        assert attempt["output"].startswith("trying\nabout to fail\nTraceback")
    log = (tmp_path / "stderr.log").read_text()
    run_id = failed["run_id"]
    first = f"level=warning event=attempt_failed job=broken run={run_id} attempt=1 "
    last = f"level=error event=run_failed job=broken run={run_id} attempt=2 "
    assert log.count("event=attempt_failed") == log.count("event=run_failed") == 1
    for start in (first, last):
        assert start in log or all(part in log for part in start.split()), log
    assert "retry 1 of 1 at" in log
    assert f"mainspring run retry {run_id}" in log
    assert "about to fail" in log, "it is passed on"
    assert "event=run_succeeded" not in log


def test_output_is_not_kept_if_that_is_turned_off(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    more = {"MAINSPRING_EXECUTORS_FUNCTION_KEEP_OUTPUT": "false"}
    with server("shop:app", cwd=tmp_path, **more) as (process, url):
        assert ended(url, submit(url, "fine"))["output"] is None
        process.wait_for("all is well")


def test_up_on_a_terminal_says_where_it_is_and_what_to_do_next(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        command("up", "shop:app", "--port", 0),
        cwd=tmp_path,
        env=environment(NO_COLOR="1", TERM="xterm", COLUMNS="100"),
        stdin=subprocess.DEVNULL,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    shown = b""
    try:
        while b"Ctrl+C" not in shown:
            shown += os.read(outer, 4096)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    text = shown.decode()
    assert "listening on http://127.0.0.1:" in text
    for part in ("SQLite in mainspring-data", "broken", "when submitted", "mainspring job run"):
        assert part in text
    assert "\x1b[" not in text
