"""What `mainspring up` says on a terminal when it is ready: where it is, which jobs it has, and what to do next."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.config.table import DEFAULT_SERVER
from mainspring.core.definition import plain_from_spec
from mainspring.core.fields import show
from mainspring.core.job_warnings import warnings_of
from mainspring.core.triggers import tell_trigger
from mainspring.host.log_lines import shows_colours

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.core.model import Job
    from mainspring.core.serving import Offers
    from mainspring.engine.assembly import Engine
    from mainspring.sdk.app import App

MOST_JOBS = 10
"""Jobs in the table."""
_MOST_READ = 200
"""Jobs that are looked at for it: those that fire next come first."""
_SECOND = timedelta(seconds=1)


async def welcome(engine: Engine, settings: Settings, ready: str, app: App | None) -> str | None:
    """Return what to print after the line that says the process is ready; None if nobody would see it.

    Args:
        ready: that line.
    """
    if not sys.stdout.isatty():
        return None
    tenant = "default" if app is None else app.tenant
    jobs = await engine.client.jobs.list_page(tenant, after=None, limit=_MOST_READ)
    offers = await engine.client.offers()
    lines = write_welcome(
        jobs,
        offers,
        url=ready.rpartition(" ")[2] if settings.has_api else "none: no API is served",
        store=_store(settings),
        slots=settings.slots,
        now=engine.clock.now(),
        width=shutil.get_terminal_size().columns,
        is_cut=len(jobs) == _MOST_READ,
        is_coloured=shows_colours(sys.stdout),
    )
    return "\n".join(lines)


def _store(settings: Settings) -> str:
    names = {"sqlite": "SQLite in ", "postgresql": "PostgreSQL, "}
    return f"{names.get(settings.store.scheme, '')}{settings.store.label}"


def write_welcome(
    jobs: Sequence[Job],
    offers: Offers,
    *,
    url: str,
    store: str,
    slots: int,
    now: datetime,
    width: int,
    is_cut: bool,
    is_coloured: bool,
) -> list[str]:
    """Return the lines.

    Args:
        jobs: some of the jobs.
        slots: of the embedded worker; 0: there is none.
        is_cut: whether there are further jobs.
    """
    bold = (lambda text: f"\x1b[1m{text}\x1b[0m") if is_coloured else str
    worker = f"{slots} slots in this process" if slots else "none in this process; start `mainspring worker`"
    facts = [("address", url), ("store", store), ("worker", worker)]
    server = "" if url == DEFAULT_SERVER else f" --server {url}"
    lines = ["", *(f"  {name:<9}{value}"[:width] for name, value in facts), ""]
    if jobs:
        lines += [f"  {line}"[: width + 8] for line in _table(jobs, offers, now, width - 2, bold)]
        more = len(jobs) - MOST_JOBS
        if more > 0:
            lines.append(
                f"  … and {more}{' or more' if is_cut else ''} further ones: mainspring job list{server}"
            )
        example = next((job.spec.name for job in jobs if not job.is_paused), jobs[0].spec.name)
        lines += ["", f"  run one   mainspring job run {_quoted(example)}{server}"]
    else:
        lines.append(
            "  There are no jobs yet. Add one: mainspring job add hello --every 10s --function hello"
        )
    return [*lines, f"  look      mainspring status{server}", "  stop      Ctrl+C", ""]


def _table(jobs: Sequence[Job], offers: Offers, now: datetime, width: int, bold: object) -> Iterator[str]:
    far = datetime.max.replace(tzinfo=now.tzinfo)
    ordered = sorted(jobs, key=lambda job: (job.next_fire_at or far, job.id))[:MOST_JOBS]
    rows = [("JOB", "WHEN", "NEXT FIRE")]
    rows += [(job.spec.name, _when(job), _next(job, offers, now)) for job in ordered]
    first = min(max(len(row[0]) for row in rows), width // 3)
    second = min(max(len(row[1]) for row in rows), width // 4)
    for place, (name, when, fire) in enumerate(rows):
        rest = max(width - first - second - 4, 10)
        line = f"{_cut(name, first):<{first}}  {_cut(when, second):<{second}}  {_cut(fire, rest)}"
        yield bold(line.rstrip()) if place == 0 and callable(bold) else line.rstrip()


def _when(job: Job) -> str:
    trigger = plain_from_spec(job.spec, bytes)["trigger"]
    if not isinstance(trigger, dict):
        return "when submitted"
    kind = trigger["type"]
    if kind == "cron":
        return str(trigger.get("expression", kind))
    if kind == "interval" and isinstance(trigger.get("every_seconds"), int | float):
        return f"every {show(timedelta(seconds=trigger['every_seconds']))}"
    if kind in {"after_end", "at_start", "event"}:
        return tell_trigger(trigger)
    return str(kind)


def _next(job: Job, offers: Offers, now: datetime) -> str:
    warnings = warnings_of(job, offers.find_gap_of(job.spec, job.tenant))
    if job.is_paused:
        text = "paused"
    elif job.next_fire_at is None:
        text = "finished" if job.fires_left == 0 else "-"
    else:
        wait = max(job.next_fire_at - now, _SECOND) // _SECOND * _SECOND
        text = f"{job.next_fire_at.astimezone():%Y-%m-%d %H:%M:%S} (in {show(wait)})"
    return text if not warnings else f"{text}  ! {warnings[0].sentence}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _quoted(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").replace(".", "").isalnum() else f"'{name}'"
