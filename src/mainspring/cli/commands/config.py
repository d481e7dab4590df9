"""`mainspring config`: shows the settings and where each comes from, and checks them."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from mainspring.cli.completion import complete_files
from mainspring.cli.options import json_option, read_choices, setting_options
from mainspring.host.exit_codes import ExitCode


@click.group("config")
def config_group() -> None:
    """Show and check the settings of processes.

    They come from a file (TOML), then from MAINSPRING_… variables, then from options. The later source wins.
    """


@config_group.command("show")
@setting_options()
@click.option("--changed", is_flag=True, help="Show only settings that are not at their default.")
@json_option
@click.pass_context
def show_command(context: click.Context, /, changed: bool, as_json: bool, **_: Any) -> None:
    """Show every setting, its value, and where the value comes from.

    Passwords are hidden. The options are those of `up`, `server` and `worker`.
    """
    from mainspring.cli.output import print_json, print_table
    from mainspring.config.processes import shown
    from mainspring.config.sources import USUAL_FILES, Level
    from mainspring.config.table import SETTINGS

    choices = read_choices(context).require()
    rows = [
        (setting, choices[name])
        for name, setting in SETTINGS.items()
        if not changed or choices[name].level is not Level.DEFAULT
    ]
    if as_json:
        settings = [
            {
                "name": setting.name,
                "value": shown(setting, choice),
                "source": choice.level.name.lower(),
                "place": choice.place or None,
                "variable": setting.variable,
                "option": setting.flag,
            }
            for setting, choice in rows
        ]
        file = str(choices.file) if choices.file is not None else None
        print_json({"file": file, "found_by": choices.file_place or None, "settings": settings})
        return
    if choices.file is not None:
        click.echo(f"file: {choices.file} ({choices.file_place})\n")
    else:
        click.echo(f"file: none; there is no {' and no '.join(map(str, USUAL_FILES))}\n")
    table = [
        (setting.name, _text(shown(setting, choice), setting.default_words), _source(choice))
        for setting, choice in rows
    ]
    print_table(("SETTING", "VALUE", "FROM"), table, empty="every setting is at its default")


@config_group.command("check")
@click.argument("file", metavar="[FILE]", required=False, shell_complete=complete_files)
@setting_options()
@json_option
@click.pass_context
def check_command(context: click.Context, /, file: str | None, as_json: bool, **_: Any) -> int:
    """Check the settings: FILE, or the file that processes would read, with the environment and options.

    Prints every problem with the setting's name and what would be right; exit code 3 if there are any. Secrets in
    Vault are read, to tell those that cannot be read from here.
    """
    from mainspring.cli.output import print_json
    from mainspring.config.processes import check
    from mainspring.config.setting import PROCESSES
    from mainspring.config.sources import find_misspelt
    from mainspring.host.vaults import find_vault_problems
    from mainspring.plugins import load_plugins

    if file is not None:
        context.params["config"] = file
    choices = read_choices(context)
    problems = [*choices.problems, *find_misspelt(os.environ)]
    for process in PROCESSES:
        problems += check(process, choices, stores=load_plugins())
    problems += asyncio.run(find_vault_problems(choices, os.environ))
    unique = {(problem.field, problem.message): problem for problem in problems}
    if as_json:
        told = [{"setting": field, "problem": message} for field, message in unique]
        print_json({"file": str(choices.file) if choices.file else None, "problems": told})
    else:
        for problem in unique.values():
            click.echo(" ".join(str(problem).split()))
        if not unique:
            where = f"{choices.file}: " if choices.file is not None else "no file; environment and options: "
            click.echo(f"{where}right")
    return ExitCode.NOT_WELL if unique else ExitCode.DONE


def _text(value: object, default_words: str) -> object:
    if value in (None, [], {}):
        return f"({default_words})" if default_words else "-"
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return value


def _source(choice: Any) -> str:
    return f"{choice.level.name.lower()} {choice.place}".strip()
