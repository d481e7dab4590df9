"""`mainspring event`: sends events, and lists those that are kept."""

from __future__ import annotations

import json

import click

from mainspring.cli.calling import call, plain, read_json_text
from mainspring.cli.options import caller_options, json_option, kind_option
from mainspring.cli.output import print_json, print_table
from mainspring.core.kinds import Whole

_PAGE = Whole(1, 1000)
_SHOWN = 60
"""Characters of an event's data that a row of the list shows."""


@click.group("event")
def event_group() -> None:
    """Send events, which start jobs, and list those that are kept."""


@event_group.command("send")
@click.argument("topic")
@click.option("--key", metavar="TEXT", help="What it has happened to, like an order's number.")
@click.option("--data", metavar="JSON", help="What else is to be said of it.")
@click.option(
    "--id", "event_id", metavar="TEXT", help="Your id of the event: a repeated one changes nothing."
)
@caller_options
@json_option
def send_command(
    topic: str, key: str | None, data: str | None, event_id: str | None, server: str, *, as_json: bool
) -> None:
    """Send an event of TOPIC. When this returns, the jobs that listen to it have their runs."""
    value = None if data is None else read_json_text(data, "data")
    sent = call(server, lambda client: client.send_event(topic, value, key=key, event_id=event_id))
    if as_json:
        print_json(plain(sent))
        return
    click.echo(f"{sent.event_id}  {sent.status}")
    for run_id in sent.run_ids:
        click.echo(run_id)
    if sent.status == "added" and not sent.run_ids:
        click.echo("it has started no job", err=True)


@event_group.command("list")
@click.option("--topic", metavar="TOPIC", help="Only events of this topic.")
@kind_option("--limit", _PAGE, default="100", words="The most to list.")
@click.option("--before", metavar="NUMBER", help="Only events before this one, to go on with a list.")
@caller_options
@json_option
def list_command(topic: str | None, limit: int, before: str | None, server: str, *, as_json: bool) -> None:
    """List the events that are kept, the newest first."""
    page = call(server, lambda client: client.list_events(topic=topic, before=before, limit=limit))
    if as_json:
        print_json(plain(page))
        return
    rows = [(one.received_at, one.topic, one.key or "-", one.event_id, _cut(one.data)) for one in page.items]
    print_table(("RECEIVED", "TOPIC", "KEY", "EVENT", "DATA"), rows, empty="no events")
    if page.next is not None:
        click.echo(f"for earlier ones, add --before {page.next}", err=True)


def _cut(data: object) -> str:
    text = "-" if data is None else json.dumps(data, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
