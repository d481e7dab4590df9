"""Reads crontabs in Debian's syntax: each entry becomes the body of a job, each fault a problem with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from mainspring.core.cron import Cron, CronError
from mainspring.core.definition import read_definition
from mainspring.errors import InvalidInput

DEFAULT_SHELL = "/bin/sh"
_LONGEST_SLUG = 60
_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
_BLANKS = " \t"
_ENVIRONMENT = re.compile(
    r"""[ \t]*(?P<name>"[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)$"""
)
_REDIRECT = re.compile(r"(?:[0-9]*|&)>{1,2}\s*(?:&[0-9-]|\S+)|<\s*\S+")
_VARIABLE = re.compile(r"\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*)/")
_NOT_SLUG = re.compile(r"[^a-z0-9._]+")
_IGNORED = {
    "MAILTO": "output is kept with the run instead of being mailed",
    "MAILFROM": "output is kept with the run instead of being mailed",
    "RANDOM_DELAY": "set the job's `jitter` instead",
    "LOGNAME": "it is the name of the user who carries out the command",
    "USER": "it is the name of the user who carries out the command",
}


@dataclass(frozen=True, slots=True)
class CrontabEntry:
    """One line that is a job.

    Attributes:
        line: its number in the file, from 1.
        body: the definition, as `POST /api/v1/jobs` takes it.
        cron: its schedule.
    """

    line: int
    body: dict[str, Any]
    cron: Cron

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.body["name"])


@dataclass(frozen=True, slots=True)
class CrontabProblem:
    """A line that cannot be imported: which part of it, and what is wrong."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class CrontabNote:
    """Something that works differently from cron."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class CrontabImport:
    """What a crontab holds."""

    entries: tuple[CrontabEntry, ...]
    problems: tuple[CrontabProblem, ...]
    notes: tuple[CrontabNote, ...]


def read_crontab(text: str, *, system: bool, seconds: bool, tz: str = "UTC") -> CrontabImport:
    """Read a crontab.

    Args:
        text: the file.
        system: the column after the times is a user, as in /etc/crontab.
        seconds: six time fields, seconds first, instead of five.
        tz: the zone of entries that no CRON_TZ or TZ precedes.
    """
    reader = _Reader(system=system, seconds=seconds, tz=tz)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(number, line.removesuffix("\r"))
    return CrontabImport(tuple(reader.entries), tuple(reader.problems), tuple(reader.notes))


@dataclass(slots=True)
class _Reader:
    """Goes through the lines and keeps the environment that holds for the next entry."""

    system: bool
    seconds: bool
    tz: str
    entries: list[CrontabEntry] = field(default_factory=list)
    problems: list[CrontabProblem] = field(default_factory=list)
    notes: list[CrontabNote] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def read(self, number: int, line: str) -> None:
        """Take one line."""
        content = line.strip(_BLANKS)
        if not content or content.startswith("#"):
            return
        found = _ENVIRONMENT.match(line)
        try:
            if found:
                self._set(number, _unquoted(found["name"]), _unquoted(found["value"].strip(_BLANKS)))
            else:
                self.entries.append(self._entry(number, content))
        except InvalidInput as error:
            self.problems.append(CrontabProblem(number, error.field, error.message))

    def _set(self, number: int, name: str, value: str) -> None:
        if name in {"CRON_TZ", "TZ"}:
            self._set_zone(number, name, value)
        elif name in _IGNORED:
            if value:
                self.notes.append(CrontabNote(number, f"{name} is not honoured: {_IGNORED[name]}"))
        elif name.startswith("MAINSPRING_"):
            raise InvalidInput(name, "names that begin with MAINSPRING_ are set by the worker")
        else:
            self.environment[name] = value

    def _set_zone(self, number: int, name: str, value: str) -> None:
        self.zones.pop(name, None)
        if name == "TZ":
            self.environment.pop("TZ", None)
        if not value:
            return
        zone = value.removeprefix(":")
        # Kept although it may be unknown: entries below must not silently fall into another zone.
        self.zones[name] = zone
        if name == "TZ":
            self.environment["TZ"] = value
            self.notes.append(
                CrontabNote(
                    number, "TZ is taken as the zone of the times below; cron sets it for commands only"
                )
            )
        try:
            Cron("0 0 * * *", tz=zone)
        except CronError as error:
            raise InvalidInput(name, error.message) from None

    def _entry(self, number: int, content: str) -> CrontabEntry:
        times, rest = self._times(content)
        user: str | None = None
        if self.system:
            user, rest = _next_word(rest)
            if not user:
                raise InvalidInput("user", "is missing; a system crontab has it after the times")
        if not rest:
            raise InvalidInput("command", "is missing")
        zone = self.zones.get("CRON_TZ") or self.zones.get("TZ") or self.tz
        try:
            cron = Cron(times, tz=zone)
        except CronError as error:
            raise InvalidInput(error.field, error.message) from None
        self.notes += [CrontabNote(number, warning) for warning in cron.warnings]
        command, stdin = _split_input(rest)
        body: dict[str, Any] = {
            "name": self._name(command, times, user),
            "cron": times,
            "tz": zone,
            "target": self._target(command, stdin, user),
            "retry": {"max_retries": 0},  # as under cron: whether a repeat does harm is not ours to guess
        }
        read_definition(body, now=_ANY_INSTANT)
        self.names.add(body["name"])
        return CrontabEntry(number, body, cron)

    def _times(self, content: str) -> tuple[str, str]:
        if content.startswith("@"):
            return _next_word(content)
        wanted = 6 if self.seconds else 5
        fields, rest = [], content
        for _ in range(wanted):
            word, rest = _next_word(rest)
            if word:
                fields.append(word)
        if len(fields) < wanted:
            raise InvalidInput("expression", f"{len(fields)} time fields instead of {wanted}")
        return " ".join(fields), rest

    def _target(self, command: str, stdin: str, user: str | None) -> dict[str, Any]:
        environment = dict(self.environment)
        shell = environment.get("SHELL", DEFAULT_SHELL)
        target: dict[str, Any] = {"type": "shell"}
        if shell == DEFAULT_SHELL:
            target |= {"command": command, "shell": True}
        else:
            target |= {"command": [shell, "-c", command]}
        target["cwd"] = environment.get("HOME") or "~"
        if environment:
            target["env"] = environment
        if user is not None:
            target["user"] = user
        if stdin:
            target["stdin"] = stdin
        return target

    def _name(self, command: str, times: str, user: str | None) -> str:
        """Name an entry by its command; a second one of that name by its content, so that lines may move."""
        name = slug = _slug(command)
        if name in self.names:
            digest = sha256("\0".join((times, user or "", command)).encode("utf-8", "replace")).hexdigest()
            name = slug = f"{slug}-{digest[:6]}"
        for count in _from_two():
            if name not in self.names:
                break
            name = f"{slug}-{count}"
        return name


def _from_two() -> Iterator[int]:
    count = 2
    while True:
        yield count
        count += 1


def _next_word(text: str) -> tuple[str, str]:
    text = text.lstrip(_BLANKS)
    for index, character in enumerate(text):
        if character in _BLANKS:
            return text[:index], text[index:].lstrip(_BLANKS)
    return text, ""


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    return text


def _split_input(text: str) -> tuple[str, str]:
    r"""Split at the first `%`; further ones are line ends of the input; `\%` is a percent sign."""
    parts = [""]
    is_escaped = False
    for character in text:
        if character == "%" and is_escaped:
            parts[-1] = parts[-1][:-1] + "%"
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += character
        is_escaped = character == "\\" and not is_escaped
    command, *lines = parts
    stdin = "\n".join(lines)
    return command.rstrip(_BLANKS), stdin + "\n" if stdin and not stdin.endswith("\n") else stdin


def _slug(command: str) -> str:
    """Return a readable name: programs without their folders, no redirections."""
    text = _REDIRECT.sub(" ", _VARIABLE.sub("", command))
    words = [word.strip("\"'") for word in text.split()]
    words = [word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in words]
    slug = _NOT_SLUG.sub("-", " ".join(words).lower()).strip("-.")
    if len(slug) > _LONGEST_SLUG:
        slug = slug[:_LONGEST_SLUG].rsplit("-", 1)[0].strip("-.") or slug[:_LONGEST_SLUG]
    return slug or "command"
