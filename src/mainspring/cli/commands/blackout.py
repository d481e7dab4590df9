"""`mainspring blackouts`: shows what calendars pause, and says by which calendars everything stands still."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.core.blackouts import BLACKOUT_OPTIONS
from mainspring.core.pauses import PauseMode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.blackouts import BlackoutView
    from mainspring.wire.pauses import PauseList

Items = list[dict[str, Any]]
Row = tuple[object, ...]
_CALENDAR, _NOTE = (BLACKOUT_OPTIONS.get(name) for name in ("calendar", "note"))


def blackout_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that set blackouts; the command gets them as `items`, which is None if nothing is to be set."""

    def run(
        hold: Sequence[str], skip: Sequence[str], note: str | None, *, is_none: bool, **given: Any
    ) -> None:
        if (hold or skip) and is_none:
            raise click.UsageError("--none removes all blackouts, so it goes with no --hold and no --skip")
        if note is not None and not (hold or skip):
            raise click.UsageError("--note needs --hold or --skip")
        items = [
            {"calendar": name, "mode": mode.value, **({} if note is None else {"note": note})}
            for mode, names in ((PauseMode.HOLD, hold), (PauseMode.SKIP, skip))
            for name in names
        ]
        command(items=items if items or is_none else None, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    described: Callable[..., None] = run
    if hasattr(command, "__click_params__"):
        described.__click_params__ = command.__click_params__  # type: ignore[attr-defined]
    metavar = _CALENDAR.kind.metavar
    for option in (
        click.option("--none", "is_none", is_flag=True, help="Remove all blackouts."),
        kind_option("--note", _NOTE.kind, words=_NOTE.summary),
        click.option(
            "--skip",
            metavar=metavar,
            multiple=True,
            help="Stand still while this calendar holds, and skip fires that fall due meanwhile. May be repeated.",
        ),
        click.option(
            "--hold",
            metavar=metavar,
            multiple=True,
            help="Stand still while this calendar holds; fires become runs, which wait. May be repeated.",
        ),
    ):
        described = option(described)
    return described


def print_blackouts(found: Sequence[BlackoutView], *, as_json: bool, empty: str) -> None:
    """Print blackouts."""
    if as_json:
        print_json(plain(list(found)))
        return
    rows = [
        (
            f"{one.scope} {one.name}".rstrip(),
            one.calendar if "@" in one.calendar else f"{one.calendar} (version {one.version})",
            one.mode,
            _stand(one),
            one.note,
        )
        for one in found
    ]
    print_table(("WHAT", "CALENDAR", "MODE", "NOW", "NOTE"), rows, empty=empty)


def with_blackouts(
    titles: Sequence[str], rows: Sequence[Row], blackouts: Mapping[str, Sequence[BlackoutView]]
) -> tuple[Sequence[str], list[Row]]:
    """Add a column to a table of queues or tenants, if any of them has blackouts. Each row begins with the name."""
    shown = [
        ", ".join(f"{one.calendar}: {_stand(one)}" for one in blackouts.get(str(row[0]), ())) for row in rows
    ]
    if not any(shown):
        return titles, list(rows)
    return (*titles, "BLACKOUTS"), [(*row, cell) for row, cell in zip(rows, shown, strict=True)]


def _stand(one: BlackoutView) -> str:
    """Say how a blackout stands."""
    if one.is_on:
        return "on" if one.until is None else f"on until {show_instant(one.until)}"
    return "over" if one.next_at is None else f"off until {show_instant(one.next_at)}"


async def blackouts_of(client: AsyncClient, scope: str) -> dict[str, list[BlackoutView]]:
    """Return the blackouts of all queues, or of all tenants, by name."""
    found: dict[str, list[BlackoutView]] = {}
    listed: PauseList = await client.list_pauses()
    for one in listed.blackouts:
        if one.scope == scope:
            found.setdefault(one.name, []).append(one)
    return found


@click.command("blackouts")
@click.option("--all", "is_all", is_flag=True, help="Set the blackouts of everything.")
@blackout_options
@caller_options
@json_option
def blackouts_command(*, is_all: bool, items: Items | None, server: str, as_json: bool) -> None:
    """Show all blackouts, or set those of everything with --all, in place of those that there are.

    Nothing starts while a calendar holds; runs under way go on. To stop less, see `queue blackouts` and `tenant
    blackouts`. The calendars are those of the tenant `default`.
    """
    if items is not None and not is_all:
        raise click.UsageError("--hold, --skip and --none need --all")

    async def work(client: AsyncClient) -> list[BlackoutView]:
        if not is_all:
            return (await client.list_pauses()).blackouts
        found = await (client.list_blackouts() if items is None else client.put_blackouts(items))
        return found.items

    print_blackouts(call(server, work), as_json=as_json, empty="there are no blackouts")
