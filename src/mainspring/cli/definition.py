"""A job's fields as command-line options, made from their descriptions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from mainspring.cli.calling import read_json_text
from mainspring.cli.completion import complete_tiers, complete_words
from mainspring.cli.options import kind_option
from mainspring.core.definition.limits import JOB_RATE
from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.retry import RETRY, Causes, put_rules
from mainspring.core.kinds import Flag, Kind, Worded
from mainspring.core.options import Option
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import TRIGGERS
from mainspring.core.triggers.reading import COMMON
from mainspring.errors import InvalidInput

_RETRIES = RETRY.options.get("max_retries").kind
_SHORT_RULES = (
    ("--retry-on", "Retry only what fails of this cause, like 'status 503'. Short for rules of --retry."),
    ("--no-retry-on", "Fail at once on this cause, like 'exit 65'. Likewise."),
)
_SIGNS = frozenset("|&;<>$*?`~")
"""What a shell would not take as it is."""
_COMPLETED = {"priority": complete_tiers}
"""Fields that take other words, too, besides those that a shell completes."""
F = TypeVar("F", bound=Callable[..., Any])


def definition_options(function: F) -> F:
    """Add an option for every field of a job's definition except its name."""
    options = [_click_option(field, option) for field, option in _fields()]
    options.append(kind_option("--retries", _RETRIES, words="Short for max_retries of --retry."))
    options += [
        click.option(flag, multiple=True, metavar=Causes.metavar, help=f"{words} Repeatable.")
        for flag, words in _SHORT_RULES
    ]
    for option in reversed(options):
        function = option(function)
    return function


def read_body_options(body: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with what the options of `definition_options` say, which wins.

    Raises:
        InvalidInput: an option is wrong, or two say the same.
    """
    given = dict(given)
    retries = given.pop("retries")
    short_rules = [list(given.pop(name)) or None for name in ("retry_on", "no_retry_on")]
    definition = {**body, **read_definition_options(given)}
    if retries is not None:
        retry = definition.get("retry", {})
        if not isinstance(retry, dict) or "max_retries" in retry:
            raise InvalidInput("retries", "says the same as 'retry.max_retries'; give one of them")
        definition["retry"] = {**retry, "max_retries": retries}
    put_rules(definition, *short_rules)
    return definition


def read_definition_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, in the form of a request's body."""
    options = dict(_fields())
    command = given.get("command")
    if command is not None and not given.get("shell"):
        given = {**given, "command": _split_command(command)}
    # A shell command is always text, even if it starts like JSON.
    texts = {"command"} if given.get("shell") else set()
    return {
        field: value if field in texts else _read(options[field], value, field)
        for field, value in given.items()
        if value not in (None, (), False)
    }


def _split_command(text: str) -> str:
    """Return a command as a list in JSON: one that is no JSON is split into words, as a shell would, and says so."""
    if text.lstrip().startswith(("[", '"')):
        return text
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidInput("command", f"cannot be split into words: {error}") from None
    if not words:
        raise InvalidInput("command", "is empty")
    as_json = _show(words)
    if len(words) > 1:
        hint = (
            " (a shell's signs in it have no meaning; --shell gives them one)" if _SIGNS & set(text) else ""
        )
        click.echo(f"note: --command is taken as {as_json}{hint}", err=True)
    return as_json


def _fields() -> Iterator[tuple[str, Option]]:
    """Yield every field with its option: when, what, how."""
    for option in COMMON:
        yield option.name, option
    yield from {field: option for trigger in TRIGGERS for field, option in trigger.short_options}.items()
    yield "trigger", Option(name="trigger", kind=Kind(), summary="The trigger in full form.")
    for target in TARGETS:
        yield from target.short_options
    yield "target", Option(name="target", kind=Kind(), summary="The target in full form.")
    for option in (*OPTIONS, JOB_RATE):
        yield option.name, option


def _click_option(field: str, option: Option) -> Callable[[F], F]:
    kind = option.kind
    flag = f"--{field.replace('_', '-')}"
    words = option.summary.replace("`", "")
    if isinstance(kind, Flag):
        return click.option(flag, field, is_flag=True, help=words)
    if kind.is_list:
        return click.option(
            flag.removesuffix("s"), field, multiple=True, metavar=kind.metavar, help=f"{words} Repeatable."
        )
    if isinstance(kind, Worded):
        words = f"{words} One of {', '.join(kind.words())}."
    elif option.example is not None:
        words = f"{words} Example: {_show(option.example)}"
    return click.option(
        flag,
        field,
        metavar=kind.metavar,
        shell_complete=_COMPLETED.get(field, complete_words(kind)),
        help=words,
    )


def _show(example: object) -> str:
    if isinstance(example, str):
        return example
    import json

    return json.dumps(example)


def _read(option: Option, value: Any, field: str) -> Any:
    kind = option.kind
    if kind.is_list:
        return list(value)
    if isinstance(value, bool):  # a flag, which the command line has read
        return value
    if kind.is_json and value.lstrip().startswith(kind.opens_json):
        try:
            return read_json_text(value, field)
        except InvalidInput as error:
            if option.example is None:
                raise
            like = f"{error.message}; write it like {shlex.quote(_show(option.example))}"
            raise InvalidInput(field, like) from None
    return kind.from_text(value, field)
