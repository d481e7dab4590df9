"""`mainspring import`: imports jobs from other tools' files and objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.calling import call, read_text_file
from mainspring.cli.completion import complete_files
from mainspring.cli.imported_code import Code, check_target, show_code
from mainspring.cli.imports import (
    MORE,
    apply_jobs,
    check_storing,
    exit_code,
    make_channels,
    show_import,
    skip_option,
    storing_options,
    with_notes,
)
from mainspring.cli.options import caller_options, json_option
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.importers.found import Imported, ImportedJob, ImportNote
    from mainspring.sdk.client import AsyncClient
    from mainspring.wire.owners import OwnerView

_APPLY = "Apply it with --yes"
_write_option = click.option(
    "--write",
    metavar="FILE",
    shell_complete=complete_files,
    help="Write a module with these jobs. Without it you only see a preview.",
)


@click.group("import")
def import_group() -> None:
    """Import jobs from another tool."""


@import_group.command("crontab")
@click.argument("file", shell_complete=complete_files)
@click.option("--system", is_flag=True, help="Lines have a user after the times, as in /etc/crontab.")
@click.option("--seconds", is_flag=True, help="Lines have six time fields, seconds first.")
@click.option("--tz", help="The zone of entries without CRON_TZ.  [default: this machine's zone]")
@skip_option
@storing_options
@caller_options
@json_option
def crontab_command(file: str, tz: str | None, server: str, **options: Any) -> int:
    """Import a crontab. Each entry becomes a job that runs a shell command.

    FILE may be - for standard input. Without --yes nothing is changed and no server is needed. If a line cannot
    be imported, nothing is, and the exit code is 2. With --skip-refused the other lines are imported, and it is 3.
    Importing again updates the same jobs, and names those whose lines are gone; --prune deletes them.
    """
    from mainspring.importers.crontab import read_crontab

    zone, notes = (tz, []) if tz else _zone_of_machine()
    found = read_crontab(
        read_text_file(file, "file"), system=options["system"], seconds=options["seconds"], tz=zone
    )
    found = with_notes(found, [*notes, *_absent_users(found.entries)])
    return _store(found, server, options, source=f"crontab:{_of_machine(file)}")


@import_group.command("kubernetes")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_files)
@click.option(
    "--commands", is_flag=True, help="Import the command of a container as a shell job, without its image."
)
@click.option("--tz", default="UTC", show_default=True, help="The zone of CronJobs without timeZone.")
@skip_option
@storing_options
@caller_options
@json_option
def kubernetes_command(files: tuple[str, ...], tz: str, server: str, **options: Any) -> int:
    """Import Kubernetes CronJobs from manifests in JSON or YAML, as kubectl get cronjobs -o json prints them.

    FILE may be - for standard input. A CronJob becomes a job that runs as a Job of Kubernetes. With --commands, its
    command is to run on the workers' own machines. --yes, --skip-refused, --prune and the exit codes are as for
    crontabs.
    """
    from mainspring.importers.kubernetes import read_cron_jobs

    texts = [(file, read_text_file(file, "file")) for file in files]
    found = read_cron_jobs(texts, tz=tz, commands=options["commands"])
    return _store(found, server, options, source="kubernetes")


@import_group.command("celery")
@click.argument("reference", metavar="MODULE:APP")
@_write_option
@skip_option
@json_option
def celery_command(reference: str, write: str | None, *, skip_refused: bool, as_json: bool) -> int:
    """Import the tasks of a Celery app and the schedule of its beat.

    Each task becomes a job that runs when it is submitted, and each entry of the beat one with a trigger, whose fires
    are compared with beat's own. --write makes a module of them that mainspring up can run: your functions stay where
    they are. Celery must be installed here. The exit codes are as for crontabs.
    """
    from mainspring.clock import host_time
    from mainspring.host.loading import load_object

    _check_library("celery", "Celery")
    from mainspring.cli.imported_canvas import weave
    from mainspring.importers.celery import NAME, is_celery, read_celery

    check_target(write)
    value, whole = load_object(reference, "app")
    if not is_celery(value):
        raise InvalidInput("MODULE:APP", f"{whole!r} is a {type(value).__name__}, not a Celery app")
    now = host_time()
    found = read_celery(value, whole, now=now, fires=MORE, weave=weave)
    setup = [f"{NAME}.loader.import_default_modules()  # its tasks"]
    code = Code(f"the Celery app {whole}", f"celery:{whole}", setup)
    return show_code(found, now, code, write=write, skips=skip_refused, as_json=as_json)


@import_group.command("apscheduler")
@click.argument("reference", metavar="MODULE:SCHEDULER")
@_write_option
@skip_option
@json_option
def apscheduler_command(reference: str, write: str | None, *, skip_refused: bool, as_json: bool) -> int:
    """Import the jobs of a scheduler of APScheduler 3, those in its job stores included.

    Each becomes a job with a trigger, whose fires are compared with APScheduler's own. --write makes a module of them
    that mainspring up can run: your functions stay where they are. The scheduler is not started. APScheduler must be
    installed here. The exit codes are as for crontabs.
    """
    from mainspring.clock import host_time
    from mainspring.host.loading import load_object

    _check_library("apscheduler", "APScheduler 3")
    from mainspring.importers.apscheduler import is_scheduler, read_scheduler

    check_target(write)
    value, whole = load_object(reference, "scheduler")
    if not is_scheduler(value):
        raise InvalidInput("MODULE:SCHEDULER", f"{whole!r} is a {type(value).__name__}, not a scheduler")
    now = host_time()
    found = read_scheduler(value, now=now, fires=MORE)
    code = Code(f"the scheduler {whole}", f"apscheduler:{whole}")
    return show_code(found, now, code, write=write, skips=skip_refused, as_json=as_json)


def _check_library(module: str, name: str) -> None:
    """Refuse to read objects of a library that is not here.

    Raises:
        InvalidInput: it is not installed.
    """
    from importlib.util import find_spec

    if find_spec(module) is None:
        message = f"{name} is not installed here; run this where your app is (pip install mainspring there)"
        raise InvalidInput(module, message)


def _store(found: Imported, server: str, options: dict[str, Any], *, source: str) -> int:
    """Store the jobs if that is asked for, and show what was found and done."""
    from mainspring.clock import host_time
    from mainspring.core.owners import read_owner

    owner = read_owner(options["owner"] or source, "owner")
    skips, yes, prune = options["skip_refused"], options["yes"], options["prune"]
    check_storing(found, prune=prune, yes=yes)
    results: list[dict[str, Any]] = []
    view = None
    if yes and (not found.problems or (skips and found.entries)):

        async def work(client: AsyncClient) -> tuple[list[dict[str, Any]], OwnerView]:
            ready = await make_channels(client, found)
            return await apply_jobs(client, ready, owner=owner, prune=prune, kind="shell")

        results, view = call(server, work)
    show_import(
        found, host_time(), as_json=options["as_json"], skips=skips, results=results, owner=view, then=_APPLY
    )
    return exit_code(found, skips=skips)


def _of_machine(file: str) -> str:
    """Return a name for a file of this machine, by which a later import of it is known."""
    import platform

    path = "stdin" if file == "-" else str(Path(file).resolve()).strip("/").replace("/", ".")
    return f"{platform.node()}:{path}"[-150:]


def _zone_of_machine() -> tuple[str, list[ImportNote]]:
    from mainspring.cli.machine import machine_zone
    from mainspring.importers.found import ImportNote

    zone = machine_zone()
    if zone is None:
        words = "this machine's zone has no name here, so UTC is taken"
    elif zone in {"UTC", "Etc/UTC"}:
        words = "this machine is in UTC"
    else:
        return zone, [ImportNote("times", f"in {zone}, this machine's zone; --tz gives another")]
    return "UTC", [
        ImportNote("times", f"{words}; if the crontab is of a machine elsewhere, give its zone: --tz")
    ]


def _absent_users(entries: Iterable[ImportedJob]) -> list[ImportNote]:
    """Return a note for each user that does not exist here. Often it is the first word of a command."""
    from mainspring.importers.found import ImportNote, Place

    first: dict[str | None, Place] = {}
    for entry in entries:
        first.setdefault(entry.body["target"].get("user"), entry.place)
    return [
        ImportNote(place, f"user: there is no {name!r} on this machine; is the user column missing?")
        for name, place in first.items()
        if name is not None and not _is_user(name)
    ]


def _is_user(name: str) -> bool:
    if sys.platform == "win32":
        return True  # there is no way to know
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
