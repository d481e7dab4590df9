"""Gives the product one wrong input, by the way on which a user would, and judges what it answers."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from mainspring import App, MainspringError, current_attempt
from mainspring.cli.main import run_command
from tests.processes.processes import run

_REFUSED = 2
_LONGEST = 700
"""Characters of a message. Whoever gets more reads none of it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a trial takes place: a folder of its own, and a server that runs the app `shop`."""

    folder: Path
    server: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the user sees, and whether the product took the input for wrong."""

    text: str
    is_refused: bool


class Trial(Protocol):
    """One way to give an input."""

    @property
    def shown(self) -> str: ...

    def answer(self, scene: Scene) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A command line. What starts a process of its own is run as one, everything else within this process."""

    text: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    is_process: bool = False
    codes: tuple[int, ...] = (_REFUSED,)

    @property
    def shown(self) -> str:
        files = "".join(f"; {name}: {_excerpt(content)}" for name, content in self.files.items())
        return f"mainspring {self.text}{files}"

    def answer(self, scene: Scene) -> Answer:
        for name, content in self.files.items():
            (scene.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        words = shlex.split(self.text)
        if self.is_process:
            ended = run(*words, cwd=scene.folder, MAINSPRING_SERVER=scene.server)
            return Answer(ended.stdout + ended.stderr, ended.returncode in self.codes)
        told = io.StringIO()
        with (
            _within(scene),
            contextlib.redirect_stderr(told),
            contextlib.redirect_stdout(told),
        ):
            code = run_command(words)
        return Answer(told.getvalue(), code in self.codes)


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of Python that use an app."""

    text: str

    @property
    def shown(self) -> str:
        return "; ".join(line.strip() for line in self.text.splitlines())

    def answer(self, scene: Scene) -> Answer:
        app = App(server=scene.server)

        @app.job()
        def add(x: int, y: int = 0) -> int:
            return x + y

        @app.job()
        def take(**anything: object) -> None: ...

        names = {
            "App": App,
            "app": app,
            "add": add,
            "take": take,
            "current_attempt": current_attempt,
            "datetime": datetime,
            "timedelta": timedelta,
            "UTC": UTC,
        }
        try:
            exec(compile(self.text, "shop.py", "exec"), names)
        except (MainspringError, LookupError) as error:
            return Answer(f"{type(error).__name__}: {error}", is_refused=True)
        except Exception as error:  # noqa: BLE001 - shown in the table, and refused by the verdict
            return Answer(f"{type(error).__name__}: {error}", is_refused=False)
        finally:
            app.close()
        return Answer("accepted", is_refused=False)


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to the API."""

    line: str
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        headers = "".join(f" [{name}: {_excerpt(value)}]" for name, value in self.headers.items())
        return f"{self.line} {_excerpt(self.body)}{headers}".strip()

    def answer(self, scene: Scene) -> Answer:
        method, _, path = self.line.partition(" ")
        headers = {"content-type": "application/json", **self.headers}
        told = httpx.request(method, scene.server + path, content=self.body, headers=headers, trust_env=False)
        problem: dict[str, Any] = told.json() if "json" in told.headers.get("content-type", "") else {}
        return Answer(f"{told.status_code} {_sentence(problem) or told.text}", 400 <= told.status_code < 500)


@dataclass(frozen=True, slots=True)
class Case:
    """A wrong input.

    Attributes:
        surface: by which way it comes: CLI, Python, HTTP, DSN, cron or file.
        trial: gives the input.
        names: what is wrong, as the answer has to name it.
        remedy: what would be right, as the answer has to say it.
    """

    surface: str
    trial: Trial
    names: str
    remedy: str


def faults_of(case: Case, answer: Answer) -> list[str]:
    """Return what is wrong with an answer; nothing if it is as it should be."""
    text = answer.text
    found = [] if answer.is_refused else ["not refused"]
    if "Traceback (most recent call last)" in text or 'File "' in text:
        found.append("a traceback")
    if case.names not in text:
        found.append(f"does not name {case.names!r}")
    if case.remedy not in text:
        found.append(f"does not say {case.remedy!r}")
    if len(text) > _LONGEST:
        found.append(f"{len(text)} characters long")
    if re.search(r"<class |object at 0x|msgspec|apsw|\[Errno", text):
        found.append("speaks of what is inside")
    return found


@contextlib.contextmanager
def _within(scene: Scene) -> Iterator[None]:
    before = os.environ.get("MAINSPRING_SERVER")
    os.environ["MAINSPRING_SERVER"] = scene.server
    try:
        with contextlib.chdir(scene.folder):
            yield
    finally:
        if before is None:
            del os.environ["MAINSPRING_SERVER"]
        else:
            os.environ["MAINSPRING_SERVER"] = before


def _sentence(problem: Mapping[str, Any]) -> str:
    wrong = [f"{each.get('field')}: {each.get('message')}" for each in problem.get("errors", ())]
    return "; ".join(wrong) or str(problem.get("detail") or problem.get("title") or "")


def _excerpt(content: str | bytes) -> str:
    text = content if isinstance(content, str) else content.decode("latin-1")
    return repr(text)[1:-1] if len(text) <= 90 else f"{text[:60]!r}… ({len(text)} bytes)"
