"""Reads the jobs of a scheduler of APScheduler 3, from its stores and from what its module has added."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.core.values import value
from mainspring.errors import InvalidInput
from mainspring.importers.apscheduler_trigger import ask_fires, jitter_of, read_trigger
from mainspring.importers.arguments import payload_of
from mainspring.importers.found import (
    Imported,
    ImportedJob,
    ImportNote,
    ImportProblem,
    check_body,
    refusal,
    refuse_same_names,
)

_HEX_ID = re.compile(r"[0-9a-f]{32}")
_DEFAULT_GRACE = 1


@value()
class _Unreadable:
    """A stored job that cannot be read. The stores would delete it."""

    error: Exception
    next_run_time: None = None


def is_scheduler(value: object) -> bool:
    """Return whether an object is a scheduler."""
    from apscheduler.schedulers.base import BaseScheduler

    return isinstance(value, BaseScheduler)


def read_scheduler(scheduler: Any, *, now: datetime, fires: int) -> Imported:
    """Read the jobs of a scheduler, which is neither started nor changed.

    Args:
        scheduler: the scheduler.
        now: the instant of the import: what has passed is left out.
        fires: how many fires to ask each trigger for.
    """
    reader = _Reader(now, fires)
    if scheduler.running:
        words = "was started by its module, and may have run jobs just now; start it under if __name__ == '__main__'"
        reader.notes.append(ImportNote("scheduler", words))
    for job in _jobs(scheduler, reader.problems):
        reader.read(job)
    entries, doubled = refuse_same_names(reader.entries)
    return Imported(tuple(entries), (*reader.problems, *doubled), tuple(reader.notes))


def _jobs(scheduler: Any, problems: list[ImportProblem]) -> list[Any]:
    """Return the jobs of all stores, and those that wait for the scheduler's start."""
    if scheduler.running:
        return list(scheduler.get_jobs())
    jobs = []
    for alias, store in scheduler._jobstores.items():
        _keep_unreadable(store)
        try:
            store.start(scheduler, alias)
            found = store.get_all_jobs()
            store.shutdown()
        except Exception as error:  # noqa: BLE001 - stores are of many libraries
            words = f"cannot be read: {type(error).__name__}: {error}"
            problems.append(ImportProblem(f"job store {alias!r}", "store", words))
            continue
        for job in found:
            if isinstance(job, _Unreadable):
                words = f"holds a job that cannot be read: {job.error}; its function must be importable here"
                problems.append(ImportProblem(f"job store {alias!r}", "func", words))
            else:
                jobs.append(job)
    return [*jobs, *(job for job, _, _ in scheduler._pending_jobs)]


def _keep_unreadable(store: Any) -> None:
    """Let a store return what it cannot read. By itself it deletes such jobs, and a module may only be missing here."""
    read = getattr(store, "_reconstitute_job", None)
    if read is None:
        return

    def lenient(state: Any) -> Any:
        try:
            return read(state)
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything
            return _Unreadable(error)

    store._reconstitute_job = lenient


@dataclass(slots=True)
class _Reader:
    now: datetime
    fires: int
    entries: list[ImportedJob] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)

    def read(self, job: Any) -> None:
        """Read one job."""
        place = f"job {job.id!r}"
        try:
            call, needs = _call(job)
            timing = read_trigger(job.trigger)  # first: two triggers that never agree would be asked for ever
            theirs = ask_fires(job.trigger, self.now, self.fires)
            if not theirs:
                self.notes.append(ImportNote(place, "does not fire any more, and is left out"))
                return
            if hasattr(job, "next_run_time") and job.next_run_time is None:
                raise InvalidInput("next_run_time", "is paused; resume it, or leave it out")
            body = self._body(place, job, timing)
            check_body(body, self.now)
        except InvalidInput as error:
            self.problems.append(refusal(place, error))
            return
        self.entries.append(ImportedJob(place, body, theirs=theirs, call=call, needs=needs))

    def _body(self, place: str, job: Any, timing: Mapping[str, Any]) -> dict[str, Any]:
        name = job.name if _HEX_ID.fullmatch(job.id) else job.id
        body: dict[str, Any] = {"name": name, "function": name, **timing}
        if jitter := jitter_of(job.trigger):
            body["jitter"] = jitter
        payload = payload_of(job.func, job.args, job.kwargs)
        if payload is not None:
            body["payload"] = payload
        most = getattr(job, "max_instances", 1)
        if most == 1:
            body["overlap"] = "skip"
        else:
            body["concurrency"] = most
            words = f"at {most} instances at once, a further fire was left out; here it waits for one to end"
            self.notes.append(ImportNote(place, words))
        misfire = _misfire(
            getattr(job, "misfire_grace_time", _DEFAULT_GRACE), coalesce=getattr(job, "coalesce", True)
        )
        return body | misfire | {"retry": {"max_retries": 0}}


def _misfire(grace: Any, *, coalesce: bool) -> dict[str, Any]:
    """Return what becomes of late fires. The default of a second is nobody's choice, and drops work."""
    policy = "fire_latest" if coalesce else "fire_all"
    if grace == _DEFAULT_GRACE or grace is None:
        return {} if coalesce else {"misfire": policy}
    return {"misfire": {"policy": "skip", "grace": grace}}


def _call(job: Any) -> tuple[str, str]:
    """Return the expression that gives a job's function, and the import that it needs."""
    reference = job.func_ref
    is_bound = inspect.ismethod(job.func) and not inspect.isclass(job.func.__self__)
    if is_bound or not isinstance(reference, str) or ":" not in reference:
        words = (
            "is a lambda, a nested function or a method of an object; give the function a name in a module"
        )
        raise InvalidInput("func", words)
    module, _, name = reference.partition(":")
    if module == "__main__":
        raise InvalidInput("func", "is defined in the script that is run; move it to a module")
    alias = f"{module.replace('.', '_')}_"  # the underscore keeps it apart from `app`
    return f"{alias}.{name}", f"import {module} as {alias}"
