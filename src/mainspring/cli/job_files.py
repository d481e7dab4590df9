"""Reads files of jobs: TOML, JSON or YAML, each with several jobs, defaults for them, and an owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mainspring.cli.calling import read_json_text, read_text_file
from mainspring.cli.toml_text import read_toml
from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.read import OTHER_NAMES, known_fields
from mainspring.core.definition.workflows import FIELDS_OF_STEPS
from mainspring.core.fields import check_known, kind
from mainspring.core.owners import read_owner
from mainspring.core.targets import TARGETS, WORKFLOW
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.base import WINDOW_NAMES
from mainspring.core.triggers.reading import HEADS
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_SUFFIXES = frozenset({".toml", ".json", ".yaml", ".yml"})
_FIELDS = ("owner", "defaults", "jobs")
_JOB_OF_TOML = re.compile(r"\s*\[\[\s*jobs\s*\]\]")


@value()
class FiledJob:
    """A job in a file.

    Attributes:
        line: where it begins; None if that is not known.
        owner: whose job it is to be; None is nobody's.
        body: its fields, with the defaults of its file.
    """

    file: str
    place: int
    line: int | None
    owner: str | None
    body: dict[str, Any]

    def path(self, field: str) -> str:
        """Return a field of it as an error names it."""
        name = self.body.get("name")
        job = f"job {name!r}" if isinstance(name, str) else f"job {self.place + 1}"
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.file}: {job}{line}: {field}"


@value()
class JobFiles:
    """What some files hold.

    Attributes:
        owners: the owners that they name, also those without jobs.
    """

    jobs: tuple[FiledJob, ...]
    owners: tuple[str, ...]

    def names_by_owner(self) -> dict[str, list[str]]:
        """Return the names of the jobs of each owner."""
        return {
            owner: [str(job.body["name"]) for job in self.jobs if job.owner == owner] for owner in self.owners
        }


def read_job_files(paths: Sequence[str], *, owner: str | None = None) -> JobFiles:
    """Read files, and all files in folders.

    Args:
        owner: the owner of jobs whose file names none.

    Raises:
        InvalidInput: a file cannot be read, or is wrong; the error names file, job and field.
        MissingExtra: a file is YAML, and what reads it is not installed.
    """
    jobs: list[FiledJob] = []
    owners: list[str] = []
    seen: dict[str, FiledJob] = {}
    for file in _find(paths):
        read, own = _read_file(file, owner)
        owners += [own] if own is not None and own not in owners else []
        for job in read:
            name = job.body.get("name")
            if not isinstance(name, str):
                raise InvalidInput(job.path("name"), "is missing; every job has a name, which is text")
            other = seen.setdefault(name, job)
            if other is not job:
                where = other.file if other.line is None else f"{other.file}, line {other.line}"
                raise InvalidInput(job.path("name"), f"is that of another job, too, in {where}")
            jobs.append(job)
    return JobFiles(tuple(jobs), tuple(owners))


def _find(paths: Sequence[str]) -> Iterator[str]:
    """Yield each file once: those that are named, and those in folders, by name."""
    seen: set[Path] = set()
    for given in paths:
        path = Path(given)
        found = sorted(_in_folder(path)) if path.is_dir() else [path]
        if not found:
            raise InvalidInput(given, f"has no files of jobs ({', '.join(sorted(_SUFFIXES))})")
        for file in found:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield str(file)


def _in_folder(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _SUFFIXES and path.is_file() and not hidden:
            yield path


def _read_file(file: str, owner: str | None) -> tuple[list[FiledJob], str | None]:
    document, lines = _parse(file)
    if not isinstance(document, dict):
        raise InvalidInput(file, f"must be an object of {', '.join(_FIELDS)}, not {kind(document)}")
    check_known(document, _FIELDS, prefix=f"{file}: ")
    if "jobs" not in document:
        raise InvalidInput(f"{file}: jobs", "is missing; it is a list of jobs, each with a name and a target")
    if "owner" in document:
        owner = read_owner(document["owner"], f"{file}: owner")
    defaults = document.get("defaults", {})
    _check_defaults(defaults, f"{file}: defaults")
    jobs = document["jobs"]
    if not isinstance(jobs, list):
        raise InvalidInput(f"{file}: jobs", f"must be a list, not {kind(jobs)}")
    read = []
    for place, job in enumerate(jobs):
        if not isinstance(job, dict):
            raise InvalidInput(f"{file}: job {place + 1}", f"must be an object, not {kind(job)}")
        line = lines[place] if len(lines) == len(jobs) else None
        read.append(FiledJob(file, place, line, owner, _with_defaults(job, defaults)))
    return read, owner


def parse_file(file: str) -> Any:
    """Return what a file holds, whatever it is.

    Raises:
        InvalidInput: the file cannot be read, or its text is not what its name says.
        MissingExtra: it is YAML, and what reads it is not installed.
    """
    return _parse(file)[0]


def _parse(file: str) -> tuple[Any, list[int]]:
    """Return what a file holds, and where its jobs begin, as far as that is known."""
    text = read_text_file(file, "file").removeprefix("\ufeff")
    suffix = Path(file).suffix
    if suffix == ".toml":
        numbered = enumerate(text.splitlines(), 1)
        return read_toml(text, file), [number for number, line in numbered if _JOB_OF_TOML.match(line)]
    if suffix == ".json":
        return read_json_text(text, file), []
    if suffix in _SUFFIXES:
        from mainspring.importers.yaml_text import read_yaml

        document, lines = read_yaml(text, file)
        return document, lines.get("jobs", [])
    raise InvalidInput(file, f"must end in {', '.join(sorted(_SUFFIXES))}")


def _check_defaults(defaults: object, path: str) -> None:
    if not isinstance(defaults, dict):
        raise InvalidInput(path, f"must be an object, not {kind(defaults)}")
    single = {"name", "target", *HEADS, *TRIGGERS.heads, *TARGETS.heads}
    for field in defaults:
        if field in single:
            raise InvalidInput(f"{path}.{field}", "is for a single job; give it there")
    check_known(defaults, known_fields() - single, prefix=f"{path}.", others=OTHER_NAMES)


def _with_defaults(job: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with the defaults that it does not give itself, and that go with its trigger and target."""
    taken = {form for field in job if field in OPTIONS.by_form for form in OPTIONS.by_form[field].forms}
    added = {
        field: value
        for field, value in defaults.items()
        if field not in job and field not in taken and _goes_with(field, job)
    }
    return {**job, **added}


def _goes_with(field: str, job: Mapping[str, Any]) -> bool:
    if field in FIELDS_OF_STEPS and WORKFLOW in job:
        return False
    if field in WINDOW_NAMES:
        return any(head in job for head in ("schedule", *TRIGGERS.heads))
    if field == "max_fires":
        return any(head in job for head in (*HEADS, *TRIGGERS.heads))
    owners = [*TRIGGERS.by_field.get(field, ()), *TARGETS.by_field.get(field, ())]
    is_of_words = field in TRIGGERS.by_field and "schedule" in job
    return not owners or is_of_words or any(owner.head in job for owner in owners)
