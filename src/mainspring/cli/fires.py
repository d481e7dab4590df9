"""Prints fires, and what a definition was understood as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.output import print_fields, print_table, show_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from mainspring.wire.calendars import FireView, TriggerPreview, WaitedRun


def print_fires(
    fires: Sequence[FireView], trigger: Mapping[str, Any] | None, waits_for: WaitedRun | None = None
) -> None:
    """Print fires of a trigger in UTC and in their zone, and what becomes of them, or the run that they wait for."""
    from mainspring.core.triggers.words import explain_no_fires, explain_wait

    if waits_for is not None and trigger is not None:
        click.echo(explain_wait(trigger, waits_for.run_id, waits_for.status))
        return
    rows = [(tell_local(fire.fire_at), tell_local(fire.local), _note(fire)) for fire in fires]
    print_table(("UTC", "LOCAL", ""), rows, empty=explain_no_fires(trigger, "it does not fire any more"))


def tell_local(instant: datetime) -> str:
    """Return an instant as text, to the second and with the offset that it has."""
    return instant.isoformat(sep=" ", timespec="seconds")


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def print_preview(preview: TriggerPreview) -> None:
    """Print what a definition was understood as, without what every job has, and its next fires."""
    plain = preview.definition or {}
    print_fields(_telling(plain))
    click.echo(f"\n{preview.explanation}")
    if preview.trigger is not None:
        print_fires(preview.fires, preview.trigger)
    jitter = plain.get("jitter_seconds")
    if jitter and preview.job_id is None:
        click.echo(
            f"each starts up to {jitter:g} s later: when exactly, depends on the id that the job gets",
            err=True,
        )
    print_warnings(preview.warnings)


def _telling(plain: Mapping[str, Any]) -> dict[str, Any]:
    from datetime import UTC, datetime

    from mainspring.core.definition import plain_from_spec, read_definition

    usual = plain_from_spec(
        read_definition({"name": "x", "function": "x"}, now=datetime(1970, 1, 1, tzinfo=UTC))
    )
    told = {"name", "target", "trigger"}
    return {field: value for field, value in plain.items() if field in told or value != usual.get(field)}


def _note(fire: FireView) -> str:
    is_held = fire.due_at is not None and fire.due_at != fire.fire_at
    notes = [
        None if fire.excluded_by is None else f"left out by {fire.excluded_by}",
        None if fire.skipped_by is None else f"skipped in the blackout by {fire.skipped_by}",
        None if fire.rolled_from is None else f"moved from {show_instant(fire.rolled_from)}",
        {"gap": "clocks went ahead", "overlap": "clocks show it twice"}.get(fire.dst or ""),
    ]
    if is_held and fire.due_at is not None:
        notes.append(f"starts {(fire.due_at - fire.fire_at).total_seconds():.1f} s later by its jitter")
    return ", ".join(note for note in notes if note is not None)
