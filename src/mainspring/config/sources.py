"""Reads the sources of settings: a file, then the environment, then options. The later source wins.

Reading does not stop at the first mistake: problems are collected, so that `mainspring config check` can list all of
them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Any

from mainspring.config.setting import PREFIX, Setting
from mainspring.config.table import OTHER_VARIABLES, SETTINGS
from mainspring.errors import InvalidInput

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
USUAL_FILES = (Path("mainspring.toml"), Path("/etc/mainspring/mainspring.toml"))
_USUAL = "usual place"
_LARGEST = 1024 * 1024


class Level(IntEnum):
    """Which kind of source gave a value; the higher one wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True, slots=True)
class ChosenValue:
    """A setting's value and where it came from.

    Attributes:
        place: the file's path, the variable or the option; empty for a default.
    """

    value: Any
    level: Level = Level.DEFAULT
    place: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """The result of all sources.

    Attributes:
        file: the file that was read, if any.
        file_place: how it was found: the option, the variable, or "usual place".
        problems: what is wrong, each named by its setting.
    """

    values: Mapping[str, ChosenValue]
    file: Path | None = None
    file_place: str = ""
    problems: tuple[InvalidInput, ...] = field(default=())

    def __getitem__(self, name: str) -> ChosenValue:
        return self.values[name]

    def with_defaults(self, *names: str) -> Choices:
        """Return the choices with some settings back at their defaults."""
        return replace(
            self, values={**self.values, **{name: ChosenValue(SETTINGS[name].default) for name in names}}
        )

    def tell(self, error: InvalidInput) -> InvalidInput:
        """Return an error about a setting in the terms of its source: with its option's name, or with its place."""
        choice = self.values.get(error.field)
        if choice is None:
            return error
        return told(error, choice, SETTINGS[error.field])

    def require(self) -> Choices:
        """Return the choices if nothing is wrong.

        Raises:
            InvalidInput: the first problem, which says how many more there are.
        """
        if not self.problems:
            return self
        first, *more = self.problems
        if not more:
            raise first
        count = f"{len(more)} more problem{'s' if len(more) > 1 else ''}"
        raise InvalidInput(first.field, f"{first.message} (and {count}: see `mainspring config check`)")


def told(error: InvalidInput, choice: ChosenValue, setting: Setting) -> InvalidInput:
    """Return an error with the option's name as its field, or with the file or variable in its message."""
    if choice.level is Level.FLAG and setting.flag_word is not None:
        return InvalidInput(setting.flag_word, error.message)
    if choice.place:
        return InvalidInput(error.field, f"{error.message} (in {choice.place})")
    return error


def read_sources(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | None = None,
) -> Choices:
    """Read all sources.

    Args:
        flags: values from options, by setting name: text, a tuple of texts, or True for an option without a value.
        environment: the variables; by default those of this process.
        config: the file that --config names.
    """
    variables = os.environ if environment is None else environment
    problems: list[InvalidInput] = []
    values = {name: ChosenValue(setting.default) for name, setting in SETTINGS.items()}
    path, place, found = _find_file(config, variables)
    problems += found
    if path is not None:
        given, found = read_file(path)
        problems += found
        values |= {name: ChosenValue(value, Level.FILE, str(path)) for name, value in given.items()}
    for level, texts in ((Level.ENVIRONMENT, _from_environment(variables)), (Level.FLAG, flags or {})):
        for name, text in texts.items():
            setting = SETTINGS[name]
            choice = ChosenValue(
                None, level, setting.variable if level is Level.ENVIRONMENT else setting.flag or ""
            )
            try:
                values[name] = replace(choice, value=_read_text(setting, text))
            except InvalidInput as error:
                problems.append(told(InvalidInput(name, error.message), choice, setting))
    return Choices(values, path, place, tuple(problems))


def read_client_file(environment: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Return the file's settings by name, for a client command.

    Raises:
        InvalidInput: the file is wrong. A file in a usual place that this user may not read is ignored: it may hold
            secrets of the server.
    """
    path, place, problems = _find_file(None, os.environ if environment is None else environment)
    if path is None or (place == _USUAL and not os.access(path, os.R_OK)):
        found: dict[str, Any] = {}
    else:
        found, problems = read_file(path)
    Choices({}, problems=tuple(problems)).require()
    return found


def read_file(path: Path) -> tuple[dict[str, Any], list[InvalidInput]]:
    """Read a file. Return its values by setting, and what is wrong with it. No content of a file makes it raise."""
    import tomllib  # costs 10 ms at start, needed only with a file

    try:
        text = _load(path)
        content = tomllib.loads(text.decode())
    except OSError as error:
        return {}, [InvalidInput("config", f"{path} cannot be read ({error.strerror})")]
    except UnicodeDecodeError as error:
        return {}, [InvalidInput("config", f"{path} is not UTF-8: byte {error.start} is no text")]
    except (ValueError, RecursionError) as error:  # tomllib's own, a number of 5,000 digits, 5,000 brackets
        why = (
            f"{error}"
            if isinstance(error, tomllib.TOMLDecodeError)
            else "it is nested too deeply, or has a number that is too long"
        )
        return {}, [InvalidInput("config", f"{path} is not TOML: {_printable(why)}")]
    values: dict[str, Any] = {}
    problems: list[InvalidInput] = []
    for name, value in _flatten(content):
        setting = SETTINGS.get(name)
        if setting is None:
            problem = InvalidInput(_shown(name), _unknown_name_message(name, value))
        else:
            try:
                values[name] = setting.read(value)
                continue
            except InvalidInput as refusal:
                problem = InvalidInput(name, _printable(refusal.message))
        problems.append(InvalidInput(problem.field, f"{problem.message} (in {path})"))
    return values, problems


def find_misspelt(environment: Mapping[str, str]) -> list[InvalidInput]:
    """Return variables that look like a setting's but are not.

    For a process this is no error: others have variables too.
    """
    known = {setting.variable: setting.name for setting in SETTINGS.values()}
    problems = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in known or variable in OTHER_VARIABLES:
            continue
        near = get_close_matches(variable, known, n=1, cutoff=0.85)
        if near:
            message = f"there is no such variable; did you mean {near[0]}, for the setting {known[near[0]]}?"
            problems.append(InvalidInput(_shown(variable), message))
    return problems


def _find_file(
    config: str | None, environment: Mapping[str, str]
) -> tuple[Path | None, str, list[InvalidInput]]:
    """Return the file to read, how it was found, and the problems with that."""
    named, place = (config, "--config") if config else (environment.get(CONFIG_VARIABLE), CONFIG_VARIABLE)
    if named:
        if "\0" in named:
            return None, "", [InvalidInput("config", "a file name cannot contain NUL")]
        return Path(named), place, []
    for path in USUAL_FILES:
        if os.path.lexists(path):
            return path, _USUAL, []
    return None, "", []


def _load(path: Path) -> bytes:
    if str(path) == os.devnull:  # "no file at all"
        return b""
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(None, "it is not a regular file")
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise OSError(None, f"it has more than {_LARGEST} bytes")
    return text


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end if it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of variables by setting. An empty variable counts as not set."""
    found = {name: environment.get(setting.variable, "") for name, setting in SETTINGS.items()}
    return {name: text for name, text in found.items() if text}


def _read_text(setting: Setting, given: Any) -> Any:
    if given is True:
        return not setting.is_negated
    if isinstance(given, tuple):
        # Repeated options are not split at blanks, but addresses may be joined by commas.
        words = [word for text in given for word in (text.split(",") if setting.is_url else [text])]
        return setting.read(words)
    return setting.read_text(given)


def _flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves by their dotted names. A table that holds no setting counts as a leaf."""
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and any(known.startswith(f"{name}.") for known in SETTINGS):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _unknown_name_message(name: str, value: object) -> str:
    tables = {known.rpartition(".")[0] for known in SETTINGS if "." in known}
    if any(table == name or table.startswith(f"{name}.") for table in tables):
        return f"is a table; write [{name}] on a line of its own, and its settings below"
    near = _nearest(name)
    if near is not None:
        return f"there is no such setting; did you mean {near!r}?"
    if isinstance(value, dict):
        tops = sorted({table.partition(".")[0] for table in tables})
        return f"there is no such table; known are {', '.join(tops)}"
    return "there is no such setting; `mainspring config show` lists all"


def _nearest(name: str) -> str | None:
    """Return the setting that was probably meant: one with a similar name, last word (in another table), or option."""
    words = {known.rpartition(".")[2]: known for known in reversed(SETTINGS)}
    options = {setting.flag_word: known for known, setting in SETTINGS.items() if setting.flag_word}
    last = name.rpartition(".")[2]
    for text, known in ((name, options), (last, options), (last, words)):
        if text in known:
            return known[text]
    near = get_close_matches(name, SETTINGS, n=1)
    if near:
        return near[0]
    by_word = {**words, **options}
    near = get_close_matches(last, by_word, n=1, cutoff=0.75)
    return by_word[near[0]] if near else None


def _shown(name: str) -> str:
    """Return a name that is safe in a message: short, and without characters that cannot be printed or encoded."""
    name = name[:80]
    return name if name and name.isprintable() and name.isascii() else ascii(name)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)[:1000]
