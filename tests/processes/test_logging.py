"""docs/howto/see-what-happens.md: everything that a process does is written for a while, and nothing of it else."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

from mainspring import App
from tests.processes.processes import await_that, run_here, running, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "see-what-happens.md").read_text()
SHOP = """from mainspring import App

app = App()


@app.job()
def add(x: int) -> int:
    return x + 1
"""
OF_RUNS = {"attempt_begins", "attempt_ends", "store_call", "request"}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def events(path: Path) -> set[str]:
    return {line["event"] for line in lines_of(path)}


def add(app: App) -> None:
    (run,) = app.sync.submit_runs([{"job": "add", "payload": {"x": 1}}])
    assert run.run_id is not None
    assert app.wait_for_sync(run.run_id, 60).result == 2


def test_a_server_shows_everything_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    log = tmp_path / "stderr.log"
    (set_level,) = [
        shlex.split(line)[1:] for line in re.findall(r"^mainspring logging .*$", PAGE, re.MULTILINE)
    ]
    with server("shop:app", "--log-format", "json", cwd=tmp_path) as (process, url):
        app = App(server=url)
        add(app)
        assert not OF_RUNS & events(log), "a run has no line"
        asked = run_here(*set_level, "--server", url)
        assert (asked.returncode, asked.stdout[:12]) == (0, "debug until "), asked.stderr
        add(app)
        await_that("calls and runs have lines", lambda: events(log) >= OF_RUNS)
        back = run_here("logging", "info", "--server", url)
        assert back.stdout == "info, as its settings say\n"
        assert json.loads(run_here("logging", "--json", "--server", url).stdout)["until"] is None
        wrong = run_here("logging", "debug", "--duration", "2d", "--server", url)
        assert (wrong.returncode, "duration: must be between 1s and 1d" in wrong.stderr) == (2, True)
        count = len(lines_of(log))
        add(app)
        process.process.send_signal(signal.SIGUSR2)
        await_that(
            "the signal does the same",
            lambda: any(line["event"] in OF_RUNS for line in lines_of(log)[count:]),
        )
        assert lines_of(log)[count]["event"] == "log_level_changed", "what was set back is silent"
        app.close()


def test_workers_show_everything_after_a_signal_to_their_parent(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "of_workers").mkdir()
    log = tmp_path / "of_workers" / "stderr.log"
    with server("--slots", 0, cwd=tmp_path) as (_, url):
        (tmp_path / "of_workers" / "shop.py").write_text(SHOP)
        arguments = ("worker", "shop:app", "--processes", 2, "--log-format", "json", "--server", url)
        with running(*arguments, cwd=tmp_path / "of_workers") as workers:
            workers.wait_for("ready")
            app = App(server=url)
            add(app)
            assert not OF_RUNS & events(log)
            workers.process.send_signal(signal.SIGUSR2)
            await_that(
                "both write everything",
                lambda: len([line for line in lines_of(log) if line["event"] == "log_level_changed"]) == 2,
            )
            add(app)
            await_that("attempts have lines", lambda: events(log) >= {"attempt_begins", "attempt_ends"})
            app.close()
