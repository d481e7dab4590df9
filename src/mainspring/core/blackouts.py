"""Blackouts: what a calendar pauses. A queue, a tenant or everything stands still while a calendar holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.calendars.resolved import ResolvedCalendar
from mainspring.core.calendars.spec import CalendarRef, read_ref
from mainspring.core.fields import MAX_WORD, check_known, kind
from mainspring.core.kinds import Choice, Kind
from mainspring.core.model import LaneKey
from mainspring.core.options import Option, Options
from mainspring.core.pauses import Note, PauseKey, PauseMode, PauseScope, covers, describe
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_BLACKOUTS = 20
"""Blackouts of one queue, of one tenant, or of everything."""
_MOST_BEGINNINGS = 10_000


@value(kw_only=True)
class Blackout:
    """A blackout: as long as its calendar holds, it is what a pause is.

    Attributes:
        name: of the queue or tenant; empty for everything.
        tenant: whose calendar it is.
        version: the calendar's version by which it goes: the newest one, or the one that it names.
        is_pinned: it names a version.
        note: why, for those who wonder.
        made_by: who has set it.
        since: fires that fall due from then on are its own.
    """

    scope: PauseScope
    name: str
    tenant: str
    calendar: str
    version: int
    is_pinned: bool = False
    mode: PauseMode = PauseMode.HOLD
    note: str = ""
    made_by: str
    since: datetime

    @property
    def key(self) -> PauseKey:
        """What is paused."""
        return PauseKey(self.scope, self.name)

    @property
    def what(self) -> str:
        """What is paused, as it begins a sentence."""
        return describe(self.key)

    @property
    def label(self) -> str:
        """`NAME@VERSION` of the calendar by which it goes."""
        return f"{self.calendar}@{self.version}"

    @property
    def named(self) -> str:
        """The calendar as whoever set it has named it."""
        return self.label if self.is_pinned else self.calendar


@value()
class _Stretch:
    """From `low` up to `high`, which None is beyond all search, a calendar holds, or it does not."""

    low: datetime
    high: datetime | None
    is_on: bool

    def contains(self, instant: datetime) -> bool:
        return self.low <= instant and (self.high is None or instant < self.high)


class BlackoutWindow:
    """A blackout with its calendar, which can be asked.

    Attributes:
        blackout: the blackout.
    """

    __slots__ = ("_calendar", "_last", "blackout")

    def __init__(self, blackout: Blackout, calendar: ResolvedCalendar | None) -> None:
        """Bind a blackout to its calendar; None if that cannot be read here. Then it holds, to be on the safe side."""
        self.blackout: Blackout = blackout
        self._calendar = calendar
        self._last: _Stretch | None = None  # lanes by the thousand are judged at one instant

    def _stretch(self, instant: datetime) -> _Stretch:
        if self._last is None or not self._last.contains(instant):
            if self._calendar is None:
                self._last = _Stretch(instant, None, is_on=True)
            elif self._calendar.contains(instant):
                self._last = _Stretch(instant, self._calendar.next_outside(instant), is_on=True)
            else:
                self._last = _Stretch(instant, self._calendar.next_inside(instant), is_on=False)
        return self._last

    def is_on(self, now: datetime) -> bool:
        """Say whether it holds."""
        return self._stretch(now).is_on

    def covers(self, lane: LaneKey) -> bool:
        """Say whether it is about a lane's runs."""
        return covers(self.blackout.key, lane)

    def skips(self, due_at: datetime) -> bool:
        """Say whether it skips what fell due at an instant."""
        one = self.blackout
        return one.mode is PauseMode.SKIP and one.since <= due_at and self.is_on(due_at)

    def next_change(self, now: datetime) -> datetime | None:
        """Return when it ends, if it is on, or else when it begins; None if it never does."""
        return self._stretch(now).high

    def last_beginning(self, after: datetime, through: datetime) -> datetime | None:
        """Return when it last began, of the instants later than `after` and up to `through`; None: it did not."""
        change = self._stretch(after).high
        if self._calendar is None or change is None or change > through:
            return None
        found: datetime | None = None
        at: datetime | None = after
        for _ in range(_MOST_BEGINNINGS):
            at = at and self._calendar.next_outside(at)
            at = at and self._calendar.next_inside(at)
            if at is None or at > through:
                break
            found = at
        return found


@value(kw_only=True)
class BlackoutState:
    """A blackout as it stands at an instant.

    Attributes:
        until: when it ends, if it is on; None: it is not, or it never ends.
        next_at: when it begins, if it is not on; None: it is, or it never begins again.
    """

    blackout: Blackout
    is_on: bool
    until: datetime | None
    next_at: datetime | None


def state_of(window: BlackoutWindow, now: datetime) -> BlackoutState:
    """Return how a blackout stands."""
    is_on, change = window.is_on(now), window.next_change(now)
    return BlackoutState(
        blackout=window.blackout,
        is_on=is_on,
        until=change if is_on else None,
        next_at=None if is_on else change,
    )


def renew_blackout(new: Blackout, old: Blackout | None) -> Blackout:
    """Return a blackout instead of an older one by the same calendar: with the same mode, it goes on since then."""
    if old is None or old.mode is not new.mode:
        return new
    return replace(new, since=min(old.since, new.since))


@value()
class Reference(Kind):
    """A calendar, by its name or in one version."""

    is_json = False
    metavar = "NAME[@VERSION]"

    def read(self, value: object, path: str, old: Any) -> CalendarRef:
        """Read a reference."""
        del old
        return read_ref(value, path)

    def store(self, value: Any) -> Any:
        """Return it as it was written."""
        return str(value)

    def load(self, plain: Any) -> Any:
        """Read what `store` wrote."""
        return read_ref(plain, "calendar")

    def schema(self) -> dict[str, Any]:
        """Return a string's schema."""
        return {"type": "string", "maxLength": MAX_WORD + 7}

    def limits(self) -> str:
        """Say what it looks like."""
        return "the name of a calendar, or `NAME@VERSION`"


BLACKOUT_OPTIONS = Options(
    Option(
        name="calendar",
        kind=Reference(),
        summary="The calendar: nothing starts while it holds. It goes by the newest version, or by `NAME@VERSION`.",
        example="month-end",
    ),
    Option(
        name="mode",
        kind=Choice(PauseMode),
        default=PauseMode.HOLD,
        summary="What becomes of fires that fall due meanwhile: `hold` keeps their runs waiting, `skip` skips them.",
    ),
    Option(
        name="note",
        kind=Note(),
        default="",
        summary="Why, for those who wonder why their runs wait.",
        example="the books are closed",
    ),
)


@value()
class WantedBlackout:
    """A blackout as a body describes it: its calendar is not looked up yet."""

    calendar: CalendarRef
    mode: PauseMode
    note: str


def read_blackouts(body: Mapping[str, Any]) -> list[WantedBlackout]:
    """Return the blackouts that a body describes.

    Raises:
        InvalidInput: a value is wrong, there is no such field, or a calendar is named twice.
    """
    check_known(body, ("items",))
    items = body.get("items")
    if not isinstance(items, list) or len(items) > MOST_BLACKOUTS:
        raise InvalidInput("items", f"must be a list of at most {MOST_BLACKOUTS} blackouts")
    found: dict[str, WantedBlackout] = {}
    for number, item in enumerate(items):
        path = f"items[{number}]"
        if not isinstance(item, Mapping):
            raise InvalidInput(path, f'must be an object like {{"calendar": "month-end"}}, not {kind(item)}')
        one = WantedBlackout(**BLACKOUT_OPTIONS.read_all(item, lambda name, path=path: f"{path}.{name}"))  # type: ignore[misc]
        if one.calendar.name in found:
            raise InvalidInput(
                f"{path}.calendar", f"{one.calendar.name!r} is named twice; name each calendar once"
            )
        found[one.calendar.name] = one
    return list(found.values())
