"""`mainspring slo`: promises how soon runs start or how many succeed, and shows what is kept of that."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_fields, print_json, print_table, show_instant
from mainspring.core.alert_words import show_percent
from mainspring.core.fields import show
from mainspring.core.objectives import OBJECTIVE_OPTIONS

if TYPE_CHECKING:
    from mainspring.core.objectives import ObjectiveKind
    from mainspring.wire.objectives import SloView, SloWindowView

_NONE = "-"


@click.group("slo")
def slo_group() -> None:
    """Set objectives: how many runs are to start in time or to succeed. See how many do."""


def _words(name: str) -> str:
    return OBJECTIVE_OPTIONS.get(name).summary


@slo_group.command("add")
@click.argument("slo")
@kind_option("--kind", OBJECTIVE_OPTIONS.get("kind").kind, words=_words("kind"), is_required=True)
@kind_option(
    "--objective", OBJECTIVE_OPTIONS.get("objective").kind, words=_words("objective"), is_required=True
)
@kind_option("--queue", OBJECTIVE_OPTIONS.get("queue").kind, words=_words("queue"))
@kind_option("--bound", OBJECTIVE_OPTIONS.get("bound").kind, words=_words("bound"))
@kind_option("--days", OBJECTIVE_OPTIONS.get("days").kind, words=f"{_words('days')}  [default: 30]")
@caller_options
@json_option
def add_command(
    slo: str, kind: ObjectiveKind, bound: timedelta | None, server: str, *, as_json: bool, **given: Any
) -> None:
    """Set objective SLO. One that has this name is replaced."""
    body = {
        "kind": kind.value,
        "bound": None if bound is None else bound.total_seconds(),
        **given,
    }
    body = {name: value for name, value in body.items() if value is not None}
    found = call(server, lambda client: client.put_slo(slo, body))
    _print(found, as_json=as_json)


@slo_group.command("list")
@caller_options
@json_option
def list_command(server: str, *, as_json: bool) -> None:
    """List objectives, and what is left of their budgets.

    LEFT is what is left of the budget. BURN is how fast it is used, within the last hour and the last six.
    """
    found = call(server, lambda client: client.list_slos())
    if as_json:
        print_json(plain(found))
        return
    rows = [
        (
            one.name,
            one.queue or "all",
            _promise(one, is_short=True),
            _NONE if one.share is None else show_percent(one.share),
            show_percent(one.budget_left),
            f"{one.within_hour.burn_rate:,.3g}/{one.within_six_hours.burn_rate:,.3g}",
            one.exhausted_at,
        )
        for one in found.items
    ]
    heading = ("SLO", "QUEUE", "OBJECTIVE", "SO FAR", "LEFT", "BURN 1H/6H", "USED UP")
    print_table(heading, rows, empty="no objectives", last=("SLO",))


@slo_group.command("show")
@click.argument("slo")
@caller_options
@json_option
def show_command(slo: str, server: str, *, as_json: bool) -> None:
    """Show objective SLO, and how fast its budget is used."""
    _print(call(server, lambda client: client.get_slo(slo)), as_json=as_json)


@slo_group.command("remove")
@click.argument("slo")
@caller_options
@json_option
def remove_command(slo: str, server: str, *, as_json: bool) -> None:
    """Remove objective SLO. Its alerts end."""
    gone = call(server, lambda client: client.delete_slo(slo))
    if as_json:
        print_json(plain(gone))
    else:
        click.echo(f"objective {slo} removed")


def _promise(found: SloView, *, is_short: bool = False) -> str:
    share = show_percent(found.objective)
    if found.bound_seconds is None:
        return f"{share} succeed"
    bound = show(timedelta(seconds=found.bound_seconds))
    return f"{share} start in {bound}" if is_short else f"{share} start within {bound}"


def _print(found: SloView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(found))
        return
    print_fields(
        {
            "objective": found.name,
            "queue": found.queue or "all",
            "promise": f"{_promise(found)}, over {found.days} days",
            "so far": None if found.share is None else show_percent(found.share),
            "budget left": show_percent(found.budget_left),
            "used up": None if found.exhausted_at is None else show_instant(found.exhausted_at),
            f"within {found.days} days": _window(found.within_days),
            "within 6 hours": _window(found.within_six_hours),
            "within 1 hour": _window(found.within_hour),
        }
    )


def _window(events: SloWindowView) -> str:
    return f"{events.bad:,} of {events.total:,} runs bad, burn rate {events.burn_rate:,.3g}"
