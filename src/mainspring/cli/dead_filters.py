"""The options that say which dead letters a command means."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call
from mainspring.cli.completion import complete_jobs
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

_OPTIONS = {"error_group": "group"}
"""The options of the API's fields that are called otherwise."""
Command = Callable[..., Any]


def dead_filters(command: Command) -> Command:
    """Add the options that say which dead letters are meant."""
    options = (
        click.option(
            "--job", metavar="JOB", shell_complete=complete_jobs, help="Only of this job (name or id)."
        ),
        click.option("--queue", metavar="QUEUE", help="Only of this queue."),
        click.option("--reason", metavar="REASON", help="Only those that failed for it, like deadline."),
        click.option("--error", metavar="TEXT", help="Only those whose error has this text in it."),
        click.option("--group", metavar="GROUP", help="Only of this group, as `dead groups` shows it."),
        click.option(
            "--since", metavar="WHEN", help="Only failed since then: an instant, or 2h for two hours ago."
        ),
        click.option("--until", metavar="WHEN", help="Only failed before then."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def wanted_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the filters as the client takes them."""
    return {("error_group" if name == "group" else name): value for name, value in given.items()}


def ask(server: str, work: Callable[[AsyncClient], Any]) -> Any:
    """Call the server. A refusal names the option, not the API's field."""
    try:
        return call(server, work)
    except InvalidInput as error:
        field = error.field.removeprefix("filter.")
        raise InvalidInput(_OPTIONS.get(field, field), error.message) from None


def count_letters(number: int) -> str:
    """Return a number of dead letters in words."""
    return f"{number:,} dead letter{'' if number == 1 else 's'}"
