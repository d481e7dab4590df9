"""`mainspring pause` and `resume`: stop everything, a queue or a tenant for a while, and show what is stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import json_option, kind_option, server_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.core.pauses import PAUSE_OPTIONS, PauseMode

if TYPE_CHECKING:
    from mainspring.wire.pauses import PauseList

_NOTE, _UNTIL, _MODE = (PAUSE_OPTIONS.get(name) for name in ("note", "until", "mode"))


def pause_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how to pause."""
    for option, name in ((_MODE, "--mode"), (_UNTIL, "--until"), (_NOTE, "--note")):
        command = kind_option(name, option.kind, words=option.summary)(command)
    return command


def body_of(note: str | None, until: datetime | None, mode: PauseMode | None) -> dict[str, Any]:
    """Return a request's body with what was given."""
    given = ((_NOTE, note), (_UNTIL, until), (_MODE, mode))
    return {option.key: option.store(value) for option, value in given if value is not None}


def print_pauses(found: PauseList, *, as_json: bool) -> None:
    """Print what is paused."""
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (
            f"{pause.scope} {pause.name}".rstrip(),
            pause.mode,
            show_instant(pause.since),
            "" if pause.until is None else show_instant(pause.until),
            pause.made_by,
            pause.note,
        )
        for pause in found.items
    ]
    print_table(("PAUSED", "MODE", "SINCE", "UNTIL", "BY", "NOTE"), rows, empty="nothing is paused")


@click.command("pause")
@click.option("--all", "is_all", is_flag=True, help="Pause everything.")
@pause_options
@server_option
@json_option
def pause_command(
    *,
    is_all: bool,
    note: str | None,
    until: datetime | None,
    mode: PauseMode | None,
    server: str,
    as_json: bool,
) -> None:
    """Show what is paused, or pause everything with --all.

    Workers get no run from then on; runs under way go on. To pause less, see `queue pause` and `tenant pause`.
    """
    body = body_of(note, until, mode)
    if body and not is_all:
        raise click.UsageError("--note, --until and --mode need --all")
    if is_all:
        print_pauses(call(server, lambda client: client.pause_all(body)), as_json=as_json)
    else:
        print_pauses(call(server, lambda client: client.list_pauses()), as_json=as_json)


@click.command("resume")
@click.option("--all", "is_all", is_flag=True, required=True, help="End the pause of everything.")
@server_option
@json_option
def resume_command(*, is_all: bool, server: str, as_json: bool) -> None:
    """End the pause of everything. Pauses of queues and tenants stay; see `queue resume` and `tenant resume`."""
    del is_all
    print_pauses(call(server, lambda client: client.resume_all()), as_json=as_json)
