"""`mainspring archive`: the history of years, read from where it lies."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainspring.cli.options import (
    archive_options,
    json_option,
    kind_option,
    read_choices,
    shown_options,
    store_options,
)
from mainspring.cli.output import print_fields, print_json, print_table
from mainspring.config.archive_settings import QUERY_MEMORY, MemorySize, show_size
from mainspring.core.kinds import Whole
from mainspring.core.times import Duration
from mainspring.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from mainspring.archive.reading import ArchiveReader, QueryAnswer, QueryLimits
    from mainspring.config.sources import Choices

F = TypeVar("F", bound=Callable[..., Any])
_FETCH = MemorySize(10**6, 10**15)
_ROWS = Whole(1, 1_000_000)
_TIMEOUT = Duration(timedelta(milliseconds=100), timedelta(days=1))
_SHOWN = (
    "run_id",
    "job",
    "tenant",
    "queue",
    "kind",
    "state",
    "reason",
    "due_at",
    "started_at",
    "finished_at",
)


def _day_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--since", metavar="DAY", help="Only days from this one on, like 2026-01-31, in UTC."
            ),
            click.option("--until", metavar="DAY", help="Only days before this one."),
        )
    ):
        function = option(function)
    return function


def _read_options(function: F) -> F:
    """Add the options that say what reading may take."""
    for option in reversed(
        (
            kind_option("--timeout", _TIMEOUT, default="1m", words="How long it may take."),
            kind_option("--memory", QUERY_MEMORY, default="1GB", words="How much memory it may use."),
            kind_option("--fetch", _FETCH, default="2GB", words="The most to fetch from a bucket."),
        )
    ):
        function = option(function)
    return function


@click.group("archive")
def archive_group() -> None:
    """Read the history that was removed from the store, and write days of it.

    It reads the archive itself, so it runs where that can be reached, with the credentials for it: whoever has those,
    can read what is in it of all tenants.
    """


@archive_group.command("days")
@_day_options
@archive_options
@json_option
@click.pass_context
def days_command(
    context: click.Context, /, since: str | None, until: str | None, *, as_json: bool, **_: Any
) -> None:
    """List the days that are in the archive."""
    with _open_reader(read_choices(context).require()) as reader:
        days = reader.list_days(since=_day(since, "since"), until=_day(until, "until"))
    rows: list[dict[str, Any]] = [
        {
            "day": day.day,
            "runs": sum(part.rows for part in day.parts if part.kind == "runs"),
            "attempts": sum(part.rows for part in day.parts if part.kind == "attempts"),
            "parts": len(day.parts),
            "bytes": sum(part.bytes for part in day.parts),
        }
        for day in days
    ]
    if as_json:
        print_json(rows)
        return
    cells = [[row["day"], row["runs"], row["attempts"], row["parts"], _size(row["bytes"])] for row in rows]
    print_table(["DAY", "RUNS", "ATTEMPTS", "FILES", "SIZE"], cells, empty="The archive has no days.")


@archive_group.command("query")
@click.argument("sql", metavar="SQL")
@click.option("--tenant", metavar="NAME", help="Only what is this tenant's.  [default: everything]")
@_day_options
@_read_options
@kind_option("--limit", _ROWS, default="1000", words="The most rows to print.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@archive_options
@shown_options
@json_option
@click.pass_context
def query_command(
    context: click.Context, /, sql: str, tenant: str | None, *, as_csv: bool, as_json: bool, **given: Any
) -> None:
    """Answer SQL, one SELECT of DuckDB's dialect, over the views `runs` and `attempts`.

    It reads nothing but the archive, and changes nothing. --tenant narrows the views; it is no wall: who may run this
    command has the archive's credentials, and with them everything in it.
    """
    with _open_reader(read_choices(context).require()) as reader:
        days = reader.list_days(since=_day(given["since"], "since"), until=_day(given["until"], "until"))
        answer = reader.query(sql, days, tenant=tenant, limits=_limits(given))
    if as_json:
        print_json([dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows])
    elif as_csv:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(answer.columns)
        written.writerows([[_text(cell) for cell in row] for row in answer.rows])
    else:
        _print_answer(answer)
    if answer.is_cut:
        click.echo(f"There is more than {len(answer.rows):,} rows; narrow it, or raise --limit.", err=True)


@archive_group.command("find")
@click.argument("run", metavar="RUN")
@_day_options
@_read_options
@archive_options
@shown_options
@json_option
@click.pass_context
def find_command(context: click.Context, /, run: str, *, as_json: bool, **given: Any) -> None:
    """Find a run in the archive by its id, with the attempts that are on record."""
    from mainspring.cli.calling import checked_run
    from mainspring.core.ids import parse_run_id

    run_id = parse_run_id(checked_run(run))
    with _open_reader(read_choices(context).require()) as reader:
        days = reader.list_days(since=_day(given["since"], "since"), until=_day(given["until"], "until"))
        found = reader.find(run_id, days, limits=_limits({**given, "limit": 1}))
    if found is None:
        raise NotFound("archived run", run)
    fields, attempts = found
    if as_json:
        shown = {name: _plain(cell) for name, cell in fields.items() if name not in {"id", "day"}}
        tries = [{name: _plain(cell) for name, cell in one.items() if name != "day"} for one in attempts]
        print_json({**shown, "attempts": tries})
        return
    lines = {name: fields[name] for name in (*_SHOWN, "error", "payload", "result", "output")}
    if fields["steps"] is not None:
        lines["steps"] = ", ".join(fields["steps"])
    lines |= {f"attempt {one['number']}": _tell_attempt(one) for one in attempts}
    print_fields({name: _text(cell) for name, cell in lines.items() if cell is not None})


def _tell_attempt(attempt: dict[str, Any]) -> str:
    words = f"{attempt['outcome']} on {attempt['worker'] or 'a worker'} until {_text(attempt['finished_at'])}"
    return f"{words}: {attempt['error']}" if attempt["error"] else words


@archive_group.command("write")
@click.argument("day", metavar="DAY")
@archive_options
@store_options
@json_option
@click.pass_context
def write_command(context: click.Context, /, day: str, *, as_json: bool, **_: Any) -> None:
    """Write a DAY, like 2026-01-31, into the archive before its time has come.

    Servers write days by themselves when `history.keep` is over, and then remove them. This one stays in the history.
    It reads the store itself; on SQLite, stop the server first.
    """
    from mainspring.cli.commands.backup import location_of
    from mainspring.host.archiving import check_store, write_by_hand

    choices = read_choices(context).require()
    wanted = _day(day, "day")
    assert wanted is not None, "it was given"
    url = _url_of(choices)
    location = location_of(choices)
    check_store(location)
    parts = asyncio.run(write_by_hand(location, wanted, url=url, memory=choices["archive.memory"].value))
    new = [part for part in parts if part.sum.rows]
    if as_json:
        print_json([{"url": part.url, "rows": part.sum.rows, "bytes": part.bytes} for part in new])
        return
    for part in new:
        click.echo(f"{part.url}: {part.sum.rows:,} {part.kind.value}, {_size(part.bytes)}")
    known = sum(part.known.rows for part in parts)
    if known:
        click.echo(f"The archive had {known:,} rows of that day already.")
    if new:
        click.echo("All of it was read back, and has what the history has.")


@archive_group.command("end")
@store_options
@click.pass_context
def end_command(context: click.Context, /, **_: Any) -> None:
    """Have the history removed without an archive again.

    Once a server has written to an archive, none of the store removes a day that is not there. Before this, remove
    `archive.url` from the settings of all servers. What is in the archive stays. It changes the store itself; on
    SQLite, stop the server first.
    """
    from mainspring.cli.commands.backup import location_of
    from mainspring.host.archiving import check_store, end_by_hand

    location = location_of(read_choices(context).require())
    check_store(location)
    before = asyncio.run(end_by_hand(location))
    if before is None:
        click.echo("No server has written to an archive; nothing is changed.")
    else:
        click.echo(f"Days of the history go to {before} no more: what is over history.keep is removed.")


@contextmanager
def _open_reader(choices: Choices) -> Iterator[ArchiveReader]:
    from mainspring.host.archiving import open_reader

    with open_reader(_url_of(choices)) as reader:
        yield reader


def _url_of(choices: Choices) -> str:
    url: str | None = choices["archive.url"].value
    if url is None:
        raise InvalidInput(
            "archive_url",
            "is not set; give --archive-url, MAINSPRING_ARCHIVE_URL, or archive.url in the file",
        )
    return url


def _limits(given: dict[str, Any]) -> QueryLimits:
    from mainspring.archive.reading import QueryLimits

    return QueryLimits(
        memory=given["memory"],
        seconds=given["timeout"].total_seconds(),
        fetched=given["fetch"],
        rows=given["limit"],
    )


def _day(text: str | None, field: str) -> date | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise InvalidInput(field, f"{text[:60]!r} is no day like 2026-01-31") from None


def _print_answer(answer: QueryAnswer) -> None:
    rows = [[_text(cell) for cell in row] for row in answer.rows]
    print_table([*answer.columns], rows, empty="No rows.")


def _text(cell: Any) -> str:
    plain = _plain(cell)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)


def _plain(cell: Any) -> Any:
    """Return a value of DuckDB's as JSON has it."""
    if isinstance(cell, datetime):
        return cell.isoformat().replace("+00:00", "Z")
    if isinstance(cell, bytes):
        return cell.hex()
    if cell is None or isinstance(cell, str | int | float):
        return cell
    if isinstance(cell, dict):
        return {str(name): _plain(each) for name, each in cell.items()}
    if isinstance(cell, Sequence):
        return [_plain(each) for each in cell]
    return str(cell)


def _size(count: int) -> str:
    return show_size(count)
