"""docs/tutorial.md, step by step, as its reader does it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.main import run_command
from tests.processes.processes import running
from tests.processes.tutorial import CommandStep, FileStep, Ids, steps_of

_PATIENCE = 40.0
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


class Reader:
    """Somebody who follows the page, with a first terminal for what goes on and a second for the rest."""

    def __init__(self, folder: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.dsn = dsn
        self.ids = Ids()
        self._terminals = contextlib.ExitStack()
        self._monkeypatch = monkeypatch
        self._url = ""

    def follow(self, step: FileStep | CommandStep) -> None:
        if isinstance(step, FileStep):
            path = self.folder / step.name
            path.write_text(step.apply(path.read_text() if path.exists() else ""))
            return
        words = shlex.split(self.ids.put_into(step.line))
        assert words[0] == "mainspring", step.line
        if words[1] in {"up", "server", "worker"}:
            self._start(words[1:])
        else:
            self._ask(words[1:], step)

    def _start(self, words: list[str]) -> None:
        words = [self.dsn if word.startswith("postgresql://") else word for word in words]
        if words[0] == "worker":
            more = {"MAINSPRING_SERVER": self._url}
            self._terminals.enter_context(running(*words, cwd=self.folder, **more)).wait_for("ready")
            return
        self.leave()  # Ctrl-C in the first terminal
        process = self._terminals.enter_context(running(*words, cwd=self.folder, MAINSPRING_PORT="0"))
        self._url = process.wait_for("listening on ")
        self._monkeypatch.setenv("MAINSPRING_SERVER", self._url)

    def _ask(self, words: list[str], step: CommandStep) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            told = io.StringIO()
            with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                run_command(words)
            if self.ids.learn(step.shown, told.getvalue()):
                return
            assert words[:2] != ["job", "run"], told.getvalue()  # what changes something is done once
            assert time.monotonic() < deadline, f"{step}\n{told.getvalue()}"
            time.sleep(0.2)

    def leave(self) -> None:
        self._terminals.close()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_each_step_of_the_tutorial_does_what_the_page_says(
    tmp_path: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MAINSPRING_")]:
        monkeypatch.delenv(name)
    reader = Reader(tmp_path, postgres_database, monkeypatch)
    try:
        for step in steps_of(PAGE.read_text()):
            reader.follow(step)
    finally:
        reader.leave()


def app_of_airflow(place: int) -> Any:
    """Return the app that a piece of code on the page for users of Airflow makes."""
    page = (PAGE.parent / "howto" / "coming-from-airflow.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[place]
    names: dict[str, Any] = {"__name__": "airflow"}
    exec(compile(code, "airflow.py", "exec"), names)
    return names["app"]


def test_the_code_for_users_of_airflow_takes_one_branch() -> None:
    app = app_of_airflow(0)
    with app.testing() as t:
        app.submit_sync("load", [None])
        assert sorted(run.job for run in t.runs) == ["load", "load.choose", "load.full", "load.report"]


def test_the_code_for_users_of_airflow_reports_on_the_day_before() -> None:
    app = app_of_airflow(1)
    with app.testing(now=datetime(2026, 3, 2, 12, tzinfo=UTC)) as t:
        t.jump("1d")
        t.assert_enqueued("report_sales", day="2026-03-02", times=1)
        assert [run.result for run in t.runs if run.job == "report_sales"] == ["sales-2026-03-02.pdf"]
