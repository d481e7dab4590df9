"""The reference pages name every field and every option, and their examples hold."""

import ast
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from mainspring.cli.definition import read_definition_options
from mainspring.cli.main import cli
from mainspring.core.cron.fields import MACROS
from mainspring.core.definition import read_definition
from mainspring.core.definition.read import known_fields
from mainspring.core.definition.retry import put_rules
from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass, copy_class
from mainspring.host.exit_codes import ExitCode

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = {name: (REFERENCE / f"{name}.md").read_text() for name in ("cli", "cron", "job-definition", "sdk")}


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from commands(found, f"{name} {child}")


COMMANDS = dict(commands(cli, "mainspring"))
_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<"})
_NOT_OF_THE_JOB = frozenset(
    {
        *("name", "body", "server", "update", "as_json", "retries", "retry_on", "no_retry_on", "tenant"),
        *("dry_run", "count"),
    }
)


@pytest.mark.parametrize("field", sorted(known_fields()))
def test_every_field_of_a_definition_is_described(field: str) -> None:
    assert re.search(rf"[`\"]{field}[`\":]", PAGES["job-definition"])


@pytest.mark.parametrize("macro", sorted(MACROS))
def test_every_macro_is_listed(macro: str) -> None:
    assert f"`{macro}`" in PAGES["cron"]


def test_the_example_of_a_definition_is_one() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGES["job-definition"], re.DOTALL)
    spec = read_definition(json.loads(text), now=datetime(2026, 1, 1, tzinfo=UTC))
    assert spec.name == "daily-report"


@pytest.mark.parametrize("name", ["mainspring up", "mainspring server", "mainspring worker"])
def test_every_option_of_the_processes_is_described(name: str) -> None:
    options = [
        option
        for parameter in COMMANDS[name].params
        if not getattr(parameter, "hidden", False)
        for option in parameter.opts
        if option[0] == "-"
    ]
    assert options
    assert [option for option in options if option not in PAGES["cli"]] == []


def test_every_command_and_option_has_a_help_text() -> None:
    bare = [name for name, command in COMMANDS.items() if not command.help]
    for name, command in COMMANDS.items():
        bare += [
            f"{name} {parameter.name}"
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.help and parameter.name != "version"
        ]
    assert bare == []


def pages() -> list[Path]:
    return [
        *REFERENCE.glob("*.md"),
        # What that page does needs a package: tests/plugins carries it out.
        *(page for page in REFERENCE.parent.glob("howto/*.md") if page.name != "extend.md"),
        REFERENCE.parents[1] / "README.md",
    ]


def documented_lines() -> Iterator[str]:
    """Yield each command line of the pages, with its continuations."""
    for page in pages():
        for block in re.findall(r"^```(?:console|sh)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                if line.removeprefix("$ ").startswith("mainspring "):
                    yield line.removeprefix("$ ")


def understand(line: str) -> tuple[str, click.Context]:
    """Read a command line as the program would; return the command's name, too."""
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in _SHELL), len(words))
    name = max((name for name in COMMANDS if words[: len(name.split())] == name.split()), key=len)
    command = COMMANDS[name]
    assert not isinstance(command, click.Group), line
    return name, command.make_context(name, words[len(name.split()) : end], resilient_parsing=False)


@pytest.mark.parametrize("line", sorted(set(documented_lines())))
def test_command_lines_of_the_docs_are_understood(line: str) -> None:
    name, context = understand(line)
    if name != "mainspring job add" or context.params["body"] is not None:
        return
    given = {key: value for key, value in context.params.items() if key not in _NOT_OF_THE_JOB}
    definition = {"name": context.params["name"], **read_definition_options(given)}
    put_rules(definition, *(list(context.params[name]) or None for name in ("retry_on", "no_retry_on")))
    copied = copy_class(definition, [PriorityClass(name="night", tier=Priority.LOW)], "priority")
    read_definition(copied, now=datetime(2026, 1, 1, tzinfo=UTC))


def documented_imports() -> Iterator[tuple[str, str]]:
    """Yield each name of the product that the Python of the pages imports."""
    for page in pages():
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mainspring":
                    yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize(("module", "name"), sorted(set(documented_imports())))
def test_what_the_docs_import_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")


def test_every_exit_code_is_listed() -> None:
    listed = re.findall(r"^\| ([0-9]+) \| ", PAGES["cli"], re.MULTILINE)
    assert listed == [str(code.value) for code in ExitCode]
