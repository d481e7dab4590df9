"""`mainspring ledger`: what was to fire, what did, and why the rest did not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, find_job, plain
from mainspring.cli.completion import complete_jobs
from mainspring.cli.options import caller_options, json_option
from mainspring.cli.output import print_json, print_table, show_instant
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.ledger import LedgerView, ReasonView

_PAGE = 100
_MOST_EXAMPLES = 3
_MOST_JOBS = 20


@click.command("ledger")
@click.argument("job", required=False, shell_complete=complete_jobs)
@click.option(
    "--from", "from_time", metavar="WHEN", help="Only fires since then: an instant, or like 2h; default: 1d."
)
@click.option("--to", "to_time", metavar="WHEN", help="Only fires up to then.")
@caller_options
@json_option
def ledger_command(
    job: str | None, from_time: str | None, to_time: str | None, server: str, *, as_json: bool
) -> int:
    """Compare the fires that jobs owed with those on record, and say why some of them made no run.

    Without JOB, all jobs are compared. The exit code is 3 if a fire is missing or surplus.

    The period is the last day, or reaches back up to seven days with --from, but not beyond a job's last change (an
    edit, a pause, a resume).
    """
    period = {"from_time": from_time, "to_time": to_time}

    async def work(client: AsyncClient) -> list[LedgerView]:
        if job is not None:
            return [await client.get_ledger((await find_job(client, job)).job_id, **period)]
        found: list[LedgerView] = []
        after: str | None = None
        while True:
            page = await client.list_ledgers(after=after, limit=_PAGE, **period)
            found += page.items
            after = page.next
            if after is None:
                return found

    ledgers = call(server, work)
    if as_json:
        print_json(plain(ledgers[0] if job is not None else {"items": ledgers}))
    elif job is not None:
        _print_one(ledgers[0])
    else:
        _print_all(ledgers)
    is_even = not any(one.missing or one.surplus for one in ledgers)
    return ExitCode.DONE if is_even else ExitCode.NOT_WELL


def _print_one(one: LedgerView) -> None:
    period = f"from {show_instant(one.from_time)} to {show_instant(one.to_time)}"
    if one.from_time == one.to_time:
        period = f"since {show_instant(one.from_time)} (nothing was due)"
    click.echo(f"{one.job}, {period}:")
    click.echo(_sum_up([one]))
    for kind, instants in (("missing", one.missing), ("surplus", one.surplus)):
        for instant in instants:
            click.echo(f"{kind}: {show_instant(instant)}")
    _print_reasons(one.reasons)


def _print_all(ledgers: Sequence[LedgerView]) -> None:
    click.echo(f"{len(ledgers):,} job{'' if len(ledgers) == 1 else 's'}: {_sum_up(ledgers)}")
    wrong = sorted(
        (one for one in ledgers if one.missing or one.surplus),
        key=lambda one: -(len(one.missing) + len(one.surplus)),
    )
    if wrong:
        click.echo()
        rows = [
            (one.job, one.job_id, one.expected, len(one.missing), len(one.surplus))
            for one in wrong[:_MOST_JOBS]
        ]
        print_table(("JOB", "ID", "OWED", "MISSING", "SURPLUS"), rows, empty="")
    if len(wrong) > _MOST_JOBS:
        click.echo(f"and {len(wrong) - _MOST_JOBS} jobs more")
    _print_reasons(reason for one in ledgers for reason in one.reasons)


def _sum_up(ledgers: Sequence[LedgerView]) -> str:
    owed, recorded = sum(one.expected for one in ledgers), sum(one.recorded for one in ledgers)
    missing, surplus = sum(len(one.missing) for one in ledgers), sum(len(one.surplus) for one in ledgers)
    without = sum(reason.count for one in ledgers for reason in one.reasons)
    return (
        f"{owed:,} owed, {recorded:,} recorded ({recorded - without:,} as runs, {without:,} with a reason),"
        f" {missing:,} missing, {surplus:,} surplus"
    )


def _print_reasons(reasons: Iterable[ReasonView]) -> None:
    found: dict[str, tuple[int, list[Any]]] = {}
    for each in reasons:
        count, examples = found.get(each.reason, (0, []))
        found[each.reason] = (count + each.count, [*examples, *each.examples][:_MOST_EXAMPLES])
    rows = [
        (reason, f"{count:,}", ", ".join(map(show_instant, examples)))
        for reason, (count, examples) in sorted(found.items(), key=lambda item: -item[1][0])
    ]
    if rows:
        click.echo()
        print_table(("REASON", "FIRES", "FOR EXAMPLE"), rows, empty="")
