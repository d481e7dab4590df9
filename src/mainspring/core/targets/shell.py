"""Shell: a command of the operating system. Carried out by `executors.shell`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from mainspring.core.fields import kind, read_entries, read_free_text, show_key
from mainspring.core.kinds import Flag, FreeText, Kind, Schema, Text
from mainspring.core.options import Option, Options, Path
from mainspring.core.secrets import check_marks
from mainspring.core.targets.base import TargetType
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_MAX_COMMAND = 8192
_MAX_ARGUMENTS = 256
_MAX_ENTRIES = 64
_MAX_TEXT = 4096
_VARIABLE = re.compile(r"[^\s=\x00-\x1f\x7f]{1,128}", re.ASCII)
_RESERVED = "MAINSPRING_"


@value()
class Command(Kind):
    """Arguments, or one text; which of them is right depends on `shell`, see `ShellType.make`."""

    def schema(self) -> Schema:
        """Return the schema of both."""
        text = {"type": "string", "maxLength": _MAX_COMMAND}
        arguments = {"type": "array", "minItems": 1, "maxItems": _MAX_ARGUMENTS, "items": text}
        return {"anyOf": [arguments, {**text, "minLength": 1}]}

    def limits(self) -> str:
        """Say how long they may be."""
        return f"{_MAX_ARGUMENTS} arguments of {_MAX_COMMAND} characters; as one text {_MAX_COMMAND}; no NUL"


@value()
class Environment(Kind):
    """Variables that are added to a command's environment."""

    def read(self, value: object, path: str, old: Any) -> dict[str, str]:
        """Read names and texts."""
        del old
        variables: dict[str, str] = {}
        for name, item in read_entries(value, path, most=_MAX_ENTRIES):
            where = f"{path}.{show_key(name)}"
            if not name.isascii() or not _VARIABLE.fullmatch(name):
                raise InvalidInput(
                    where, "is not a variable's name: 1 to 128 ASCII characters, no blank, no ="
                )
            if name.startswith(_RESERVED):
                raise InvalidInput(where, f"names that begin with {_RESERVED} are given by the worker")
            text = read_free_text(item, where, longest=_MAX_TEXT, shortest=0)
            check_marks(text, where)
            variables[name] = text
        return variables

    def schema(self) -> Schema:
        """Return the schema of an object of texts."""
        return {"type": "object", "additionalProperties": {"type": "string"}}

    def limits(self) -> str:
        """Say how many there may be, and which are taken."""
        return f"{_MAX_ENTRIES} entries of {_MAX_TEXT} characters; `{_RESERVED}…` is reserved"


class ShellType(TargetType):
    """`command`, with `shell`."""

    name = "shell"
    summary = "Runs a command. Server and worker need --allow-shell."
    switch: ClassVar[str | None] = "allow_shell"
    turned_on_by: ClassVar[str] = "--allow-shell"
    options: ClassVar[Options] = Options(
        Option(
            name="command",
            kind=Command(),
            summary="Run a command: a list of arguments, or one text together with shell.",
            example=["program", "argument"],
        ),
        Option(
            name="shell",
            kind=Flag(),
            summary="The command is one text for /bin/sh -c.",
            default=False,
        ),
        Option(
            name="env",
            kind=Environment(),
            summary="Variables of its environment.",
            detail="`${secret:NAME}` in a value stands for a [secret](../howto/keep-secrets.md) of the worker.",
            default=None,
            is_nullable=True,
        ),
        Option(name="cwd", kind=Text(1024), summary="Its folder.", default=None, is_nullable=True),
        Option(name="user", kind=Text(1024), summary="The user to run as.", default=None, is_nullable=True),
        Option(
            name="stdin",
            kind=FreeText(_MAX_COMMAND),
            summary="Its standard input.",
            default=None,
            is_nullable=True,
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"command": "command", "shell": "shell"}

    def make(
        self, values: Mapping[str, Any], path: Path, *, functions: frozenset[str] | None
    ) -> dict[str, Any]:
        """Return the parameters: the command, and what else is given."""
        del functions
        is_shell = values["shell"]
        read = _read_text if is_shell else _read_arguments
        params = {"command": read(values["command"], path("command")), "shell": is_shell}
        return params | {name: values[name] for name in ("env", "cwd", "user", "stdin") if values[name]}


def _read_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(path, "with shell true it is one text for /bin/sh -c")
    return read_free_text(value, path, longest=_MAX_COMMAND)


def _read_arguments(value: object, path: str) -> list[str]:
    if isinstance(value, str):
        raise InvalidInput(path, 'must be a list of arguments; text for a shell needs "shell": true')
    right = f"a list of 1 to {_MAX_ARGUMENTS} arguments, the program first"
    if not isinstance(value, list | tuple):
        raise InvalidInput(path, f"must be {right}, not {kind(value)}")
    if not 1 <= len(value) <= _MAX_ARGUMENTS:
        wrong = f"has {len(value)} arguments" if value else "is empty"
        raise InvalidInput(path, f"{wrong}; give {right}")
    arguments = [
        read_free_text(item, f"{path}[{index}]", longest=_MAX_COMMAND, shortest=0)
        for index, item in enumerate(value)
    ]
    if not arguments[0]:
        raise InvalidInput(f"{path}[0]", "names no program")
    return arguments
