"""Reads a Celery app: its tasks with their options, and the schedule of its beat."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.arguments import payload_of
from mainspring.importers.canvas import ImportedPart, Weave, add_handlers, jobs_of
from mainspring.importers.celery_canvas import CANVAS, follow, read_links, read_part, signature_of
from mainspring.importers.celery_options import read_options, seconds_of, tell_code
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
_KNOWN = {"queue", "expires", "priority", "time_limit", "soft_time_limit"}


def is_celery(value: object) -> bool:
    """Return whether an object is a Celery app."""
    from celery import Celery

    return isinstance(value, Celery)


def read_celery(app: Any, reference: str, *, now: datetime, fires: int, weave: Weave) -> Imported:
    """Read an app.

    Args:
        app: the Celery app.
        reference: the MODULE:APP where it is.
        now: the instant at which intervals begin.
        fires: how many fires to ask each schedule for.
        weave: makes workflows of chains, groups and chords.

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
    needs = f"from {module} import {name} as {NAME}"
    reader = _Reader(app, now, fires, weave, ".".join([NAME, *rest]), needs)
    tasks = [task for key, task in sorted(app.tasks.items()) if not key.startswith("celery.")]
    for task in tasks:
        reader.read_task(task)
    for key, entry in schedule.items():
        reader.read_beat(str(key), entry)
    for place, variable, signature in _find_canvases({task.__module__ for task in tasks}):
        reader.read_canvas(place, variable, signature)
    return Imported(tuple(reader.entries), tuple(reader.problems), tuple(reader.notes))


@dataclass(slots=True)
class _Reader:
    app: Any
    now: datetime
    fires: int
    weave: Weave
    app_name: str
    needs: str
    functions: dict[str, tuple[Mapping[str, Any], Any]] = field(default_factory=dict)
    entries: list[ImportedJob] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)

    def read_task(self, task: Any) -> None:
        """Read a task: a job that runs when it is submitted."""
        place = f"task {task.name}"
        try:
            options, notes = read_options(self.app, task, {})
            self._add(place, task.name, options, task, None)
            self.functions[task.name] = self.entries[-1].body, task.run
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
        given: Mapping[str, Any] = entry.get("options") or {}
        is_canvas = str(entry.get("task")) in CANVAS
        if is_canvas or given.keys() & {"link", "link_error"}:
            self._read_beat_canvas(place, key, entry, given)
            return
        task = self._find_task(str(entry.get("task")))
        options, _ = read_options(self.app, task, given)
        schedule = self._schedule_of(entry)
        options |= read_schedule(schedule, self.now)
        payload = payload_of(task.run, entry.get("args") or (), entry.get("kwargs") or {})
        if payload is not None:
            options["payload"] = payload
        self._add(
            place, self._free_name(place, key), options, task, ask_fires(schedule, self.now, self.fires)
        )
        if more := sorted(given.keys() - _KNOWN):
            self._tell(place, [f"its options {', '.join(more)} are not imported"])

    def _read_beat_canvas(
        self, place: Place, key: str, entry: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        links, handlers = read_links(self.app, given)
        part = add_handlers(follow(read_part(self.app, signature_of(self.app, entry)), links), handlers)
        schedule = self._schedule_of(entry)
        options = read_schedule(schedule, self.now)
        if given.get("expires") is not None:
            options["expires_after"] = seconds_of(given["expires"], "expires")
        theirs = ask_fires(schedule, self.now, self.fires)
        self._add_workflow(place, self._free_name(place, key), options, part, theirs)
        if more := sorted(given.keys() - {"link", "link_error", "expires"}):
            self._tell(place, [f"its options {', '.join(more)} are not imported: its tasks have their own"])

    def read_canvas(self, place: Place, variable: str, signature: Any) -> None:
        """Read a chain, group or chord that a module holds: a workflow that runs when it is submitted."""
        name = variable if variable not in {entry.name for entry in self.entries} else f"{variable}-workflow"
        try:
            self._add_workflow(place, name, {}, read_part(self.app, signature), None)
        except InvalidInput as error:
            self._tell(place, [f"still goes to Celery, as it cannot be a workflow: {error}"])
            return
        words = f"is the workflow {name!r}: where code submits it, write app.submit_sync({name!r}, [None])"
        self._tell(place, [words])

    def _add_workflow(
        self,
        place: Place,
        name: str,
        options: Mapping[str, Any],
        part: ImportedPart,
        theirs: tuple[datetime, ...] | None,
    ) -> None:
        jobs = list(jobs_of(part))
        if missing := [job for job in jobs if job not in self.functions]:
            raise InvalidInput("task", f"{missing[0]!r} is not imported, and this runs it")
        body = self.weave(name, options, part, {job: self.functions[job] for job in jobs})
        check_body(body, self.now)
        self.entries.append(ImportedJob(place, body, theirs=theirs, canvas=part))

    def _schedule_of(self, entry: Mapping[str, Any]) -> Any:
        from celery.schedules import maybe_schedule

        schedule = maybe_schedule(entry.get("schedule"), entry.get("relative", False), app=self.app)
        if schedule is None:
            raise InvalidInput("schedule", "is missing")
        return schedule

    def _free_name(self, place: Place, key: str) -> str:
        """Return the name of the job that an entry of the beat becomes."""
        if key not in self.app.tasks:
            return key
        self._tell(place, [f"has the name of a task; the job is {key + '-beat'!r}"])
        return f"{key}-beat"

    def _find_task(self, name: str) -> Any:
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


def _find_canvases(modules: set[str]) -> Iterator[tuple[Place, str, Any]]:
    """Yield each chain, chord and group that a module of tasks holds, with its place and the name of its variable."""
    from celery.canvas import Signature

    for module in sorted(modules):
        for name, value in sorted(vars(sys.modules.get(module, json)).items()):
            if isinstance(value, Signature) and value.task in CANVAS and not name.startswith("_"):
                yield f"{module}.{name}", name, value
