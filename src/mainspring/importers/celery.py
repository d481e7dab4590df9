"""Reads a Celery app: its tasks with their options, and the schedule of its beat."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.arguments import payload_of
from mainspring.importers.celery_options import read_options, tell_code
from mainspring.importers.celery_schedule import ask_fires, read_schedule
from mainspring.importers.found import (
    Imported,
    ImportedJob,
    ImportNote,
    ImportProblem,
    Place,
    check_body,
    refusal,
)

NAME = "celery_app"
"""The name that the Celery app has in the expressions that give functions."""
_CANVAS = {"celery.chain": "chain", "celery.chord": "chord", "celery.group": "group"}
_KNOWN = {"queue", "expires", "priority", "time_limit", "soft_time_limit"}


def is_celery(value: object) -> bool:
    """Return whether an object is a Celery app."""
    from celery import Celery

    return isinstance(value, Celery)


def read_celery(app: Any, reference: str, *, now: datetime, fires: int) -> Imported:
    """Read an app.

    Args:
        app: the Celery app.
        reference: the MODULE:APP where it is.
        now: the instant at which intervals begin.
        fires: how many fires to ask each schedule for.

    Raises:
        InvalidInput: its modules cannot be imported.
    """
    try:
        app.loader.import_default_modules()
        app.finalize(auto=True)
        schedule = dict(app.conf.beat_schedule or {})
    except Exception as error:
        raise InvalidInput(
            "MODULE:APP", f"its tasks cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    module, _, attribute = reference.partition(":")
    name, *rest = (attribute or "app").split(".")
    reader = _Reader(app, now, fires, ".".join([NAME, *rest]), f"from {module} import {name} as {NAME}")
    tasks = [task for key, task in sorted(app.tasks.items()) if not key.startswith("celery.")]
    for task in tasks:
        reader.read_task(task)
    for key, entry in schedule.items():
        reader.read_beat(str(key), entry)
    reader.notes += _tell_signatures({task.__module__ for task in tasks})
    return Imported(tuple(reader.entries), tuple(reader.problems), tuple(reader.notes))


@dataclass(slots=True)
class _Reader:
    app: Any
    now: datetime
    fires: int
    app_name: str
    needs: str
    entries: list[ImportedJob] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)

    def read_task(self, task: Any) -> None:
        """Read a task: a job that runs when it is submitted."""
        place = f"task {task.name}"
        try:
            options, notes = read_options(self.app, task, {})
            self._add(place, task.name, options, task, None)
        except InvalidInput as error:
            self.problems.append(refusal(place, error))
            return
        self._tell(place, [*notes, *tell_code(task)])

    def read_beat(self, key: str, entry: Any) -> None:
        """Read an entry of the beat: a job with a trigger."""
        place = f"beat {key!r}"
        if isinstance(entry, Mapping) and entry.get("task") == "celery.backend_cleanup":
            self._tell(place, ["is not needed: the server removes old results by itself"])
            return
        try:
            if not isinstance(entry, Mapping):
                raise InvalidInput("beat_schedule", f"must hold an object, not a {type(entry).__name__}")
            self._read_beat(place, key, entry)
        except InvalidInput as error:
            self.problems.append(refusal(place, error))

    def _read_beat(self, place: str, key: str, entry: Mapping[str, Any]) -> None:
        from celery.schedules import maybe_schedule

        task = self._find_task(str(entry.get("task")))
        given: Mapping[str, Any] = entry.get("options") or {}
        if given.keys() & {"link", "link_error", "chord", "chain"}:
            raise InvalidInput("options", "links one task to another: workflows come later")
        options, _ = read_options(self.app, task, given)
        schedule = maybe_schedule(entry.get("schedule"), entry.get("relative", False), app=self.app)
        if schedule is None:
            raise InvalidInput("schedule", "is missing")
        options |= read_schedule(schedule, self.now)
        payload = payload_of(task.run, entry.get("args") or (), entry.get("kwargs") or {})
        if payload is not None:
            options["payload"] = payload
        name = key
        if key in self.app.tasks:
            name = f"{key}-beat"
            self._tell(place, [f"has the name of a task; the job is {name!r}"])
        self._add(place, name, options, task, ask_fires(schedule, self.now, self.fires))
        if more := sorted(given.keys() - _KNOWN):
            self._tell(place, [f"its options {', '.join(more)} are not imported"])

    def _find_task(self, name: str) -> Any:
        if name in _CANVAS:
            raise InvalidInput("task", f"is a {_CANVAS[name]}: workflows come later")
        task = self.app.tasks.get(name)
        if task is None or name.startswith("celery."):
            raise InvalidInput(
                "task", f"{name!r} is no task of this app; import its module, or mend the name"
            )
        return task

    def _add(
        self, place: Place, name: str, options: dict[str, Any], task: Any, theirs: tuple[datetime, ...] | None
    ) -> None:
        body = {"name": name, "function": name, **options}
        check_body(body, self.now)
        call = f"{self.app_name}.tasks[{json.dumps(task.name)}].run"
        self.entries.append(ImportedJob(place, body, theirs=theirs, call=call, needs=self.needs))

    def _tell(self, place: Place, messages: list[str]) -> None:
        self.notes += [ImportNote(place, message) for message in messages]


def _tell_signatures(modules: set[str]) -> list[ImportNote]:
    """Return a note for each chain, chord and group that a module of tasks holds."""
    from celery.canvas import Signature

    notes = []
    for module in sorted(modules):
        for name, value in sorted(vars(sys.modules.get(module, json)).items()):
            if isinstance(value, Signature) and value.task in _CANVAS and not name.startswith("_"):
                words = f"is a {_CANVAS[value.task]}: workflows come later, so it still goes through Celery"
                notes.append(ImportNote(f"{module}.{name}", words))
    return notes
