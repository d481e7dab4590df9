"""What an importer finds in another tool's files or objects: jobs, what cannot be one, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.definition import read_definition
from mainspring.core.triggers import Trigger, next_fires
from mainspring.core.values import value
from mainspring.errors import InvalidInput
from mainspring.importers.canvas import ImportedPart

Place = int | str
"""Where something stands: the number of a line, from 1, or words like `beat 'tidy'`."""


@value()
class ImportedJob:
    """One entry of the other tool that is a job.

    Attributes:
        body: the job's definition, as `POST /api/v1/jobs` takes it.
        theirs: its next fires by the other tool's own code, where that can be asked; fewer than ours means the end.
        is_paused: the other tool does not fire it now.
        call: for an app that is written: the expression that gives the function.
        needs: for an app that is written: the line that imports what the expression begins with.
        canvas: what it runs, if it is a workflow of calls of other jobs.
    """

    place: Place
    body: Mapping[str, Any]
    theirs: tuple[datetime, ...] | None = None
    is_paused: bool = False
    call: str = ""
    needs: str = ""
    canvas: ImportedPart | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.body["name"])

    def trigger(self, now: datetime) -> Trigger | None:
        """Return its trigger, as a server reads it at an instant."""
        return read_definition(self.body, now=now).trigger

    def next_fires(self, now: datetime, count: int) -> list[datetime]:
        """Return its next fires after an instant."""
        trigger = self.trigger(now)
        return [] if trigger is None else next_fires(trigger, now, count)


@value()
class ImportProblem:
    """An entry that cannot be imported: the part that is wrong, and why."""

    place: Place
    field: str
    message: str

    def __str__(self) -> str:
        return f"{tell_place(self.place)}: {self.field}: {self.message}"


@value()
class ImportNote:
    """Something that works differently from the other tool."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{tell_place(self.place)}: {self.message}"


@value()
class ImportedMail:
    """A channel of mail that jobs name in `notify`, and that is made with them."""

    channel: str
    addresses: tuple[str, ...]


@value()
class Imported:
    """What an importer found, each in the order of the source."""

    entries: tuple[ImportedJob, ...]
    problems: tuple[ImportProblem, ...] = ()
    notes: tuple[ImportNote, ...] = ()
    mails: tuple[ImportedMail, ...] = ()


def tell_place(place: Place) -> str:
    """Return a place in words."""
    return f"line {place}" if isinstance(place, int) else place


def check_body(body: Mapping[str, Any], now: datetime) -> None:
    """Refuse a definition that a server would refuse.

    Raises:
        InvalidInput: a field is wrong.
    """
    read_definition(body, now=now)


def refuse_same_names(entries: list[ImportedJob]) -> tuple[list[ImportedJob], list[ImportProblem]]:
    """Return the entries whose names nobody had before them, and problems for the others."""
    first: dict[str, Place] = {}
    kept: list[ImportedJob] = []
    problems: list[ImportProblem] = []
    for entry in entries:
        if entry.name in first:
            message = (
                f"{entry.name!r} is the name of {tell_place(first[entry.name])}, too; rename one of them"
            )
            problems.append(ImportProblem(entry.place, "name", message))
        else:
            first[entry.name] = entry.place
            kept.append(entry)
    return kept, problems


def refusal(place: Place, error: InvalidInput) -> ImportProblem:
    """Return the problem that an error stands for."""
    return ImportProblem(place, error.field, error.message)
