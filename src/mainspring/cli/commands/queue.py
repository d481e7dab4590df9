"""`mainspring queue`: sets how queues are served, and how much and how long runs wait there; stops them for a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from mainspring.cli.calling import call, plain
from mainspring.cli.commands.blackout import (
    Items,
    blackout_options,
    blackouts_of,
    print_blackouts,
    with_blackouts,
)
from mainspring.cli.commands.label import show_cap
from mainspring.cli.commands.pause import body_of, pause_options, print_pauses
from mainspring.cli.options import caller_options, json_option, kind_option, server_option
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.core.kinds import Whole
from mainspring.core.pauses import PauseMode
from mainspring.core.queues import QUEUE_OPTIONS, QueueOrder

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.blackouts import BlackoutView
    from mainspring.wire.policies import QueuePage, QueueView

_ORDER, _AGING, _SHARE, _MAX_RUNNING, _MAX_QUEUED, _EXPIRES_AFTER, _PREEMPT_AFTER = map(
    QUEUE_OPTIONS.get,
    ("order", "aging", "aging_share", "max_running", "max_queued", "expires_after", "preempt_after"),
)


@click.group("queue")
def queue_group() -> None:
    """Set how queues are served, and how much and how long runs wait in them; stop them for a while."""


@queue_group.command("set")
@click.argument("name")
@kind_option("--order", _ORDER.kind, words=_ORDER.summary)
@kind_option("--aging", _AGING.kind, words=_AGING.summary)
@kind_option("--aging-share", _SHARE.kind, words=_SHARE.summary)
@kind_option("--max-running", _MAX_RUNNING.kind, words=_MAX_RUNNING.summary)
@kind_option("--max-queued", _MAX_QUEUED.kind, words=_MAX_QUEUED.summary)
@kind_option("--expires-after", _EXPIRES_AFTER.kind, words=_EXPIRES_AFTER.summary)
@kind_option("--preempt-after", _PREEMPT_AFTER.kind, words=_PREEMPT_AFTER.summary)
@server_option
@json_option
def set_command(
    name: str,
    order: QueueOrder | None,
    aging: timedelta | None,
    aging_share: float | None,
    max_running: int | None,
    max_queued: int | None,
    expires_after: timedelta | None,
    preempt_after: timedelta | None,
    server: str,
    *,
    as_json: bool,
) -> None:
    """Set what holds for queue NAME. What you leave out gets its default. It holds within a second."""
    given = (
        (_ORDER, order),
        (_AGING, aging),
        (_SHARE, aging_share),
        (_MAX_RUNNING, max_running),
        (_MAX_QUEUED, max_queued),
        (_EXPIRES_AFTER, expires_after),
        (_PREEMPT_AFTER, preempt_after),
    )
    body = {option.key: option.store(value) for option, value in given if value is not None}
    _print(call(server, lambda client: client.put_queue(name, body)), as_json=as_json)


@queue_group.command("show")
@click.argument("name")
@server_option
@json_option
def show_command(name: str, server: str, *, as_json: bool) -> None:
    """Show what is set for queue NAME."""

    async def work(client: AsyncClient) -> tuple[QueueView, list[BlackoutView]]:
        return await client.get_queue(name), (await client.list_queue_blackouts(name)).items

    queue, blackouts = call(server, work)
    _print(queue, as_json=as_json)
    if blackouts and not as_json:
        click.echo()
        print_blackouts(blackouts, as_json=False, empty="")


@queue_group.command("list")
@kind_option("--limit", Whole(1, 1000), default="100", words="The most to list.")
@click.option("--after", metavar="NAME", help="Only queues after this one, to go on with a list.")
@server_option
@json_option
def list_command(limit: int, after: str | None, server: str, *, as_json: bool) -> None:
    """List the queues for which something was set. All others have the defaults."""

    async def work(client: AsyncClient) -> tuple[QueuePage, dict[str, list[BlackoutView]]]:
        return await client.list_queues(after=after, limit=limit), await blackouts_of(client, "queue")

    page, blackouts = call(server, work)
    if as_json:
        print_json(plain(page))
        return
    rows = [
        (
            queue.name,
            queue.order,
            f"{queue.aging_seconds:g} s",
            queue.aging_share,
            show_cap(queue),
            "" if queue.max_queued is None else queue.max_queued,
            "" if queue.expires_after_seconds is None else f"{queue.expires_after_seconds:g} s",
            "" if queue.preempt_after_seconds is None else f"{queue.preempt_after_seconds:g} s",
        )
        for queue in page.items
    ]
    titles = (
        *("QUEUE", "ORDER", "AGING", "AGING SHARE"),
        *("RUNNING", "MAX QUEUED", "EXPIRES AFTER", "PREEMPT AFTER"),
    )
    print_table(*with_blackouts(titles, rows, blackouts), empty="nothing is set for any queue")
    if page.next is not None:
        click.echo(f"for later ones, add --after {page.next}", err=True)


@queue_group.command("blackouts")
@click.argument("name")
@blackout_options
@caller_options
@json_option
def blackouts_command(*, name: str, items: Items | None, server: str, as_json: bool) -> None:
    """Show by which calendars queue NAME stands still, for all tenants, or set them anew."""

    async def work(client: AsyncClient) -> list[BlackoutView]:
        if items is None:
            return (await client.list_queue_blackouts(name)).items
        return (await client.put_queue_blackouts(name, items)).items

    print_blackouts(call(server, work), as_json=as_json, empty="no calendar stops it")


@queue_group.command("pause")
@click.argument("name")
@pause_options
@server_option
@json_option
def pause_command(
    name: str,
    *,
    note: str | None,
    until: datetime | None,
    mode: PauseMode | None,
    server: str,
    as_json: bool,
) -> None:
    """Stop queue NAME, for all tenants. Workers get none from then on; runs under way go on."""
    body = body_of(note, until, mode)
    print_pauses(call(server, lambda client: client.pause_queue(name, body)), as_json=as_json)


@queue_group.command("resume")
@click.argument("name")
@server_option
@json_option
def resume_command(name: str, server: str, *, as_json: bool) -> None:
    """End the pause of queue NAME."""
    print_pauses(call(server, lambda client: client.resume_queue(name)), as_json=as_json)


def _print(queue: QueueView, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(queue))
    else:
        print_fields(plain(queue))
