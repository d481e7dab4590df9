"""Options of the command line, and the body that they make."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from mainspring.cli.definition import definition_options, read_definition_options
from mainspring.errors import InvalidInput


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (["--command", "true", "--shell"], {"command": "true", "shell": True}),
        (["--command", '["true"]'], {"command": ["true"]}),
        (["--command", '["true"]', "--shell"], {"command": '["true"]', "shell": True}),
        (["--label", "gpu", "--label", "big"], {"labels": ["gpu", "big"]}),
        (["--poison-limit", "3", "--timeout", "90s"], {"poison_limit": 3, "timeout": "90s"}),
        (["--retry", '{"delay": "1s"}', "--misfire", "skip"], {"retry": {"delay": "1s"}, "misfire": "skip"}),
    ],
)
def test_options_make_the_fields_of_a_body(arguments: list[str], body: dict[str, Any]) -> None:
    read: dict[str, Any] = {}

    @click.command()
    @definition_options
    def note(**given: Any) -> None:
        read.update(read_definition_options(given))

    result = CliRunner().invoke(note, arguments, catch_exceptions=False)
    assert (result.exit_code, read) == (0, body), result.output


@pytest.mark.parametrize(
    ("text", "words", "note"),
    [
        ("ls", ["ls"], ""),
        ("ls -l '/a b'", ["ls", "-l", "/a b"], 'note: --command is taken as ["ls", "-l", "/a b"]\n'),
        ("ls *.py", ["ls", "*.py"], "; --shell gives them one"),
        ('["ls", "-l"]', ["ls", "-l"], ""),
    ],
)
def test_a_command_is_split_as_people_type_it(
    text: str, words: list[str], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_definition_options({"command": text}) == {"command": words}
    told = capsys.readouterr().err
    assert note in told
    assert bool(told) == bool(note)


@pytest.mark.parametrize("text", ["ls 'unfinished", "   ", "["])
def test_a_command_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_definition_options({"command": text})
    assert refused.value.field == "command"


def test_an_argument_that_is_not_json_is_refused_with_one_that_is() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_definition_options({"command": '["./close.sh"'})
    assert str(refused.value).startswith("command: is not JSON: ")
    assert str(refused.value).endswith("""; write it like '["program", "argument"]'""")
