"""Reads crontabs in Debian's syntax. Each entry becomes the body of a job, and each fault a problem with its line."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from mainspring.core.channel_settings import ChannelKind, read_channel
from mainspring.core.cron import Cron, CronError
from mainspring.errors import InvalidInput
from mainspring.importers.found import (
    Imported,
    ImportedJob,
    ImportedMail,
    ImportNote,
    ImportProblem,
    check_body,
    refusal,
)

DEFAULT_SHELL = "/bin/sh"
_LONGEST_SLUG = 60
_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
_BLANKS = " \t"
_BYTE_ORDER_MARK = "\ufeff"
_USER = re.compile(r"[a-z_][a-z0-9_-]*[$]?")  # POSIX's portable names, and Samba's for machines
_LONGEST_USER = 32
_LAST_LEVEL = 3
_ENVIRONMENT = re.compile(
    r"""[ \t]*(?P<name>"[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)$"""
)
_REDIRECT = re.compile(r"(?:[0-9]*|&)>{1,2}\s*(?:&[0-9-]|\S+)|<\s*\S+")
_VARIABLE = re.compile(r"\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*)/")
_NOT_SLUG = re.compile(r"[^a-z0-9._]+")
_AT_START = "@reboot"
_STARTS = (
    "fires when the scheduler starts (the first server, after none was running), not when a machine does"
)
_TILDE = (
    "~ is chosen once for each job, by its name, and stays: cron chooses anew each time it reads the crontab"
)
_MAIL = (
    "MAILTO: a mail comes when a job fails and when it has recovered; output is kept with each run instead"
)
_NO_MAIL = "MAILTO names no mail address, so nobody is told: the output is kept with each run"
_NOT_CHANNEL = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_CHANNEL = 64
_IGNORED = {
    "MAILFROM": "output is kept with the run instead of being mailed",
    "RANDOM_DELAY": "set the job's `jitter` instead",
    "LOGNAME": "it is the name of the user who runs the command",
    "USER": "it is the name of the user who runs the command",
}


def read_crontab(text: str, *, system: bool, seconds: bool, tz: str = "UTC") -> Imported:
    """Read a crontab.

    Args:
        text: the file.
        system: the column after the times is a user, as in /etc/crontab.
        seconds: six time fields, seconds first, instead of five.
        tz: the zone of entries without a CRON_TZ above them.
    """
    reader = _Reader(system=system, seconds=seconds, tz=tz)
    for number, line in enumerate(text.removeprefix(_BYTE_ORDER_MARK).split("\n"), start=1):
        reader.read(number, line.removesuffix("\r"))
    mails = {mail.channel: mail for mail in reader.mails}
    return Imported(
        _named(reader.entries), tuple(reader.problems), tuple(reader.notes), tuple(mails.values())
    )


@dataclass(slots=True)
class _Reader:
    """Reads line by line, and keeps the environment that applies to the next entry."""

    system: bool
    seconds: bool
    tz: str
    entries: list[ImportedJob] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)
    mails: list[ImportedMail] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    mail: ImportedMail | None = None

    def read(self, number: int, line: str) -> None:
        """Read one line."""
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
            self.problems.append(refusal(number, error))

    def _set(self, number: int, name: str, value: str) -> None:
        if name == "CRON_TZ":
            self._set_zone(value.removeprefix(":"))
        elif name in _IGNORED:
            if value:
                self.notes.append(ImportNote(number, f"{name} is ignored: {_IGNORED[name]}"))
        elif name.startswith("MAINSPRING_"):
            raise InvalidInput(name, "names that begin with MAINSPRING_ are set by the worker")
        else:
            if name == "MAILTO":
                self.mail = _mail_to(value)
                if value:
                    self.notes.append(ImportNote(number, _NO_MAIL if self.mail is None else _MAIL))
            self.environment[name] = value

    def _set_zone(self, zone: str) -> None:
        # Kept although it may be unknown: entries below must not silently fall into another zone.
        self.zone = zone
        if not zone:
            return
        try:
            Cron("0 0 * * *", tz=zone)
        except CronError as error:
            raise InvalidInput("CRON_TZ", error.message) from None

    def _entry(self, number: int, content: str) -> ImportedJob:
        times, rest = self._times(_without_dash(content))
        trigger, notes = self._trigger(times)
        user: str | None = None
        if self.system:
            user, rest = _next_word(rest)
            _check_user(user)
        if not rest:
            raise InvalidInput("command", "is missing")
        self.notes += [ImportNote(number, message) for message in notes]
        command, stdin = _split_input(rest)
        body: dict[str, Any] = {
            "name": _slug(command),
            **trigger,
            "target": self._target(command, stdin, user),
            "retry": {"max_retries": 0},  # as under cron: we cannot know whether a repeat does harm
        }
        if self.mail is not None:
            body["notify"] = {"to": [self.mail.channel]}
            self.mails.append(self.mail)
        check_body(body, _ANY_INSTANT)
        return ImportedJob(number, body)

    def _trigger(self, times: str) -> tuple[dict[str, str], list[str]]:
        """Return the fields that say when an entry fires, and what is worth a note."""
        if times.lower() == _AT_START:
            return {"schedule": _AT_START}, [_STARTS]
        zone = self.zone or self.tz
        try:
            cron = Cron(times, tz=zone)
        except CronError as error:
            raise InvalidInput(error.field, error.message) from None
        notes = list(cron.warnings)
        if "~" in times:
            notes.append(_TILDE)
        return {"cron": times, "tz": zone}, notes

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


def _named(entries: list[ImportedJob]) -> tuple[ImportedJob, ...]:
    """Name entries by their commands and, if that is not enough, by more of their content.

    The order of lines does not matter. An entry that shares its name with an entry of other content moves to the next
    level, until no name is shared. Identical lines are numbered.
    """
    contents = [_digest(json.dumps(entry.body, sort_keys=True)) for entry in entries]
    seen: Counter[str] = Counter()
    candidates: list[list[str]] = []
    for entry, content in zip(entries, contents, strict=True):
        seen[content] += 1
        count = f"-{seen[content]}" if seen[content] > 1 else ""
        candidates.append([f"{stem}{count}" for stem in _stems(entry, content)])
    levels = dict.fromkeys(contents, 0)
    while True:
        names = [each[levels[content]] for each, content in zip(candidates, contents, strict=True)]
        holders: defaultdict[str, set[str]] = defaultdict(set)
        for name, content in zip(names, contents, strict=True):
            holders[name].add(content)
        shared = {content for found in holders.values() if len(found) > 1 for content in found}
        if not shared:
            break
        for content in shared:
            levels[content] = min(levels[content] + 1, _LAST_LEVEL)
    return tuple(
        replace(entry, body={**entry.body, "name": name}) for entry, name in zip(entries, names, strict=True)
    )


def _stems(entry: ImportedJob, content: str) -> tuple[str, ...]:
    """Return an entry's possible names, each more specific than the one before it."""
    slug, target = entry.name, entry.body["target"]
    command = target["command"] if isinstance(target["command"], str) else target["command"][-1]
    who_and_when = _digest(json.dumps([entry.body.get("cron", _AT_START), target.get("user", ""), command]))
    return slug, f"{slug}-{who_and_when[:6]}", f"{slug}-{content[:6]}", f"{slug}-{content}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _without_dash(content: str) -> str:
    """Drop the `-` right before the times, which tells SUSE's cron and cronie not to log a line."""
    return content[1:] if content.startswith("-") and content[1:2].strip(_BLANKS) else content


def _check_user(name: str) -> None:
    hint = "a system crontab has it after the times, as in `0 3 * * * root COMMAND`"
    if not name:
        raise InvalidInput("user", f"is missing; {hint}")
    if len(name) > _LONGEST_USER or not _USER.fullmatch(name):
        message = (
            f"{name[:40]!r} cannot be a user's name (a-z, 0-9, _ and -, at most {_LONGEST_USER}); {hint}; "
            "a crontab without that column is imported without --system"
        )
        raise InvalidInput("user", message)


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
    r"""Split at the first `%`. Further ones are line ends of the input; `\%` is a percent sign."""
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


def _mail_to(value: str) -> ImportedMail | None:
    """Return the channel of some addresses; None if there is none, or one is a name on cron's own machine."""
    addresses = tuple(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    try:
        read_channel(ChannelKind.EMAIL, {"to": list(addresses)})
    except InvalidInput:
        return None
    name = f"mail-{_NOT_CHANNEL.sub('-', ','.join(addresses))}"
    if len(name) > _LONGEST_CHANNEL:
        digest = sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: _LONGEST_CHANNEL - 9]}-{digest}"
    return ImportedMail(name, addresses)
