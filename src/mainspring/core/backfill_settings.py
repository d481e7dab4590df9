"""What a user says about a backfill."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.backfill import (
    MOST_FIRES,
    BackfillDefinition,
    BackfillOptions,
    SkipDone,
)
from mainspring.core.kinds import Choice, Flag, FreeText, Whole
from mainspring.core.model import Priority
from mainspring.core.options import Option, Options
from mainspring.core.pacing import MOST_LIVE
from mainspring.core.rates import Rate, RateText
from mainspring.core.rights import Right
from mainspring.core.times import Instant
from mainspring.core.values import value
from mainspring.errors import InvalidInput, NeedsRight

MOST_NOTE = 500


@value(kw_only=True)
class BackfillLimits:
    """What a server gives backfills that say nothing else, and the most that it takes.

    Attributes:
        most_fires: fires of one backfill.
    """

    rate: Rate = field(default_factory=lambda: Rate(50, timedelta(seconds=1)))
    max_live: int = 100
    most_fires: int = MOST_FIRES


@value(kw_only=True)
class BackfillRequest:
    """A backfill as it was asked for: fires t with `from_at <= t < to_at`."""

    from_at: datetime
    to_at: datetime
    is_dry_run: bool
    options: BackfillOptions


FROM = Option(
    name="from",
    kind=Instant(),
    summary="The first instant of the range; a fire at it counts.",
    example="2026-01-01T00:00:00Z",
)
TO = Option(
    name="to",
    kind=Instant(),
    summary="The end of the range; a fire at it does not count. It has passed already.",
    example="2026-02-01T00:00:00Z",
)
DRY_RUN = Option(
    name="dry_run",
    kind=Flag(),
    default=False,
    summary="Only say what the backfill would do.",
)
SKIP_DONE = Option(
    name="skip_done",
    kind=Choice(SkipDone),
    default=SkipDone.SUCCEEDED,
    summary="Which fires are left out because of the runs that they have already.",
    detail="`succeeded`: those with a run that succeeded or is not over yet. `any`: those with any run that was not "
    "skipped. `none`: none.",
)
DEFINITION = Option(
    name="definition",
    kind=Choice(BackfillDefinition),
    default=BackfillDefinition.THEN,
    summary="By which definition of the job a fire is made.",
    detail="`then`: the one that held at its time; before the job existed, its first. `now`: the newest.",
)
RATE = Option(
    name="rate",
    kind=RateText(),
    default=None,
    is_nullable=True,
    summary="How fast runs are made; the setting `backfill.rate` by default.",
    detail="In any time, at most what it gives in that time and in one second more.",
    example="20/s",
)
MAX_LIVE = Option(
    name="max_live",
    kind=Whole(1, MOST_LIVE),
    default=None,
    is_nullable=True,
    summary="How many runs of the backfill may wait or be under way at a time; `backfill.max_live` by default.",
)
PRIORITY = Option(
    name="priority",
    kind=Choice(Priority, by_name=True),
    default=Priority.LOW,
    summary="The priority of its runs, instead of the job's: a tier, or the class that names it.",
)
NOTE = Option(
    name="note",
    kind=FreeText(MOST_NOTE),
    default=None,
    is_nullable=True,
    summary="What you want to remember about it.",
)
BACKFILL_OPTIONS = Options(FROM, TO, DRY_RUN, SKIP_DONE, DEFINITION, RATE, MAX_LIVE, PRIORITY, NOTE)


def read_backfill(body: Mapping[str, Any], limits: BackfillLimits, *, now: datetime) -> BackfillRequest:
    """Return the backfill that a body asks for.

    Raises:
        InvalidInput: a value is wrong, or the range is empty or reaches into the future.
    """
    given = BACKFILL_OPTIONS.read_all(body, lambda field: field)
    from_at, to_at = given["from"], given["to"]
    if to_at <= from_at:
        raise InvalidInput("to", "must be later than `from`")
    if to_at > now:
        raise InvalidInput(
            "to", f"must have passed; now is {now:%Y-%m-%dT%H:%M:%SZ}, and the job makes what is later"
        )
    options = BackfillOptions(
        skip_done=given["skip_done"],
        definition=given["definition"],
        rate=limits.rate if given["rate"] is None else given["rate"],
        max_live=limits.max_live if given["max_live"] is None else given["max_live"],
        priority=given["priority"],
        note=given["note"] or "",
    )
    return BackfillRequest(from_at=from_at, to_at=to_at, is_dry_run=given["dry_run"], options=options)


def check_rights(options: BackfillOptions, limits: BackfillLimits, rights: Collection[Right]) -> None:
    """Refuse a pace above that of the settings to callers that may not administer the server.

    Raises:
        NeedsRight: the field is the one that is too high.
    """
    if Right.ADMIN in rights:
        return
    if options.rate.count * limits.rate.per > limits.rate.count * options.rate.per:
        raise _needs_admin("rate", f"is above the setting `backfill.rate`, {limits.rate.text}")
    if options.max_live > limits.max_live:
        raise _needs_admin("max_live", f"is above the setting `backfill.max_live`, {limits.max_live:,}")


def _needs_admin(field: str, what: str) -> NeedsRight:
    return NeedsRight(field, f"{what}; only callers with the right {Right.ADMIN.value!r} may give more")
