"""Pauses: a queue, a tenant or everything stands still for a while. Says what they hold, and which fires they skip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from mainspring.core.kinds import Choice, Kind
from mainspring.core.model import LaneKey
from mainspring.core.options import Option, Options
from mainspring.core.times import Instant
from mainspring.core.triggers import EPOCH
from mainspring.core.values import value
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.core.blackouts import BlackoutWindow

REASON_PAUSED = "paused"
"""Of a fire that fell due while its queue, its tenant or everything was paused with the mode `skip`."""
REASON_BLACKOUT = "blackout"
"""Of a fire that fell due in a blackout of these with the mode `skip`."""
MOST_NOTE = 200
KEPT = timedelta(days=1)
"""A pause that ended by itself is kept for so long, for fires that fell due in it and are made late."""
_NEVER = datetime.max.replace(tzinfo=UTC)


class PauseScope(StrEnum):
    """What a pause stops."""

    ALL = "all"
    QUEUE = "queue"
    TENANT = "tenant"


class PauseMode(StrEnum):
    """What becomes of the fires of a paused queue or tenant. Nothing of it starts in either mode."""

    HOLD = "hold"
    """They become runs, which wait for the end of the pause."""
    SKIP = "skip"
    """They become SKIPPED."""


class PauseKey(NamedTuple):
    """What is paused; there is one pause of each. `name` is that of the queue or tenant, empty for everything."""

    scope: PauseScope
    name: str


def describe(key: PauseKey) -> str:
    """Return what is paused, as it begins a sentence."""
    return "Everything" if key.scope is PauseScope.ALL else f"{key.scope.value.capitalize()} {key.name!r}"


def covers(key: PauseKey, lane: LaneKey) -> bool:
    """Say whether a lane's runs are what is paused."""
    if key.scope is PauseScope.ALL:
        return True
    return key.name == (lane.queue if key.scope is PauseScope.QUEUE else lane.tenant)


@value(kw_only=True)
class Pause:
    """A pause.

    Attributes:
        note: why, for those who wonder.
        made_by: who has paused.
        since: fires that fall due from then on are its own.
        until: it ends by itself at this instant; None: when somebody resumes.
    """

    scope: PauseScope
    name: str
    mode: PauseMode = PauseMode.HOLD
    note: str = ""
    made_by: str
    since: datetime
    until: datetime | None = None

    @property
    def key(self) -> PauseKey:
        """What is paused."""
        return PauseKey(self.scope, self.name)

    @property
    def what(self) -> str:
        """What is paused, as it begins a sentence."""
        return describe(self.key)

    def is_on(self, now: datetime) -> bool:
        """Say whether it has not ended by itself."""
        return self.until is None or now < self.until

    def covers(self, lane: LaneKey) -> bool:
        """Say whether it is about a lane's runs."""
        return covers(self.key, lane)

    def skips(self, due_at: datetime) -> bool:
        """Say whether it skips what fell due at an instant."""
        return self.mode is PauseMode.SKIP and self.since <= due_at and self.is_on(due_at)


class LanePauses:
    """All pauses and blackouts, as of one instant.

    Attributes:
        blackouts: those whose calendars were read (see `core.blackouts`).
    """

    def __init__(self, pauses: Iterable[Pause] = (), blackouts: Iterable[BlackoutWindow] = ()) -> None:
        self._pauses = tuple(sorted(pauses, key=lambda pause: pause.key))
        self.blackouts: tuple[BlackoutWindow, ...] = tuple(blackouts)

    def __bool__(self) -> bool:
        return bool(self._pauses or self.blackouts)

    def with_blackouts(self, blackouts: Iterable[BlackoutWindow]) -> LanePauses:
        """Return the same pauses with other blackouts."""
        return LanePauses(self._pauses, blackouts)

    def on(self, now: datetime) -> tuple[Pause, ...]:
        """Return the pauses that have not ended by themselves, in order of what they stop."""
        return tuple(pause for pause in self._pauses if pause.is_on(now))

    def is_held(self, lane: LaneKey, now: datetime) -> bool:
        """Say whether anything stops a lane's runs."""
        return any(pause.is_on(now) and pause.covers(lane) for pause in self._pauses) or any(
            window.is_on(now) and window.covers(lane) for window in self.blackouts
        )

    def find(self, lane: LaneKey, now: datetime) -> Pause | None:
        """Return the pause that stops a lane's runs; of several the one that lasts longest. None: none does."""
        found = [pause for pause in self._pauses if pause.is_on(now) and pause.covers(lane)]
        return max(found, key=lambda pause: pause.until or _NEVER, default=None)

    def find_blackout(self, lane: LaneKey, now: datetime) -> BlackoutWindow | None:
        """Return the blackout that stops a lane's runs; of several the one that lasts longest. None: none does."""
        found = [window for window in self.blackouts if window.is_on(now) and window.covers(lane)]
        return max(found, key=lambda window: window.next_change(now) or _NEVER, default=None)

    def next_change(self, now: datetime) -> datetime | None:
        """Return when the next pause ends by itself, or the next blackout begins or ends."""
        changes = [pause.until for pause in self.on(now)]
        changes += [window.next_change(now) for window in self.blackouts]
        return min((at for at in changes if at is not None), default=None)

    def last_beginning(self, after: datetime, through: datetime) -> datetime | None:
        """Return when a blackout last began, of the instants later than `after` and up to `through`; None: none did."""
        found = (window.last_beginning(after, through) for window in self.blackouts)
        return max((at for at in found if at is not None), default=None)

    def reason_to_skip(self, lane: LaneKey, due_at: datetime) -> str | None:
        """Return why a fire that fell due at an instant is to be skipped; None: it is not."""
        if any(pause.skips(due_at) and pause.covers(lane) for pause in self._pauses):
            return REASON_PAUSED
        if any(window.skips(due_at) and window.covers(lane) for window in self.blackouts):
            return REASON_BLACKOUT
        return None

    def skipped_by(self, lane: LaneKey, due_at: datetime) -> str | None:
        """Return the calendar of a blackout that skips a fire that falls due at an instant; None: none does."""
        found = (one for one in self.blackouts if one.skips(due_at) and one.covers(lane))
        return next((window.blackout.label for window in found), None)

    def skips(self, lane: LaneKey, due_at: datetime) -> bool:
        """Say whether a fire that fell due at an instant is to be skipped."""
        return self.reason_to_skip(lane, due_at) is not None


NOTHING_PAUSED = LanePauses()


def epoch_number(instant: datetime) -> int:
    """Return the lowest policy epoch of a change at an instant: its microseconds since 1970 (ADR 0047)."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def renew(pause: Pause, old: Pause | None) -> Pause:
    """Return a pause instead of an older one of the same: what was paused with that mode stays paused since then."""
    if old is None or not old.is_on(pause.since) or old.mode is not pause.mode:
        return pause
    return replace(pause, since=min(old.since, pause.since))


def is_over_for_long(pause: Pause, now: datetime) -> bool:
    """Say whether a pause ended so long ago that nobody asks for it any more."""
    return pause.until is not None and pause.until + KEPT <= now


@value()
class Note(Kind):
    """Printable text that may be empty."""

    is_json = False
    metavar = "TEXT"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a note."""
        del old
        if not isinstance(value, str) or len(value) > MOST_NOTE or not value.isprintable():
            raise InvalidInput(path, f"must be at most {MOST_NOTE} printable characters")
        return value

    def schema(self) -> dict[str, Any]:
        """Return a string's schema."""
        return {"type": "string", "maxLength": MOST_NOTE}

    def limits(self) -> str:
        """Say how long it may be."""
        return f"at most {MOST_NOTE} printable characters"


PAUSE_OPTIONS = Options(
    Option(
        name="note",
        kind=Note(),
        default="",
        summary="Why, for those who wonder why their runs wait.",
        example="database upgrade",
    ),
    Option(
        name="until",
        kind=Instant(),
        default=None,
        is_nullable=True,
        summary="The pause ends by itself at this instant; without it, when somebody resumes.",
    ),
    Option(
        name="mode",
        kind=Choice(PauseMode),
        default=PauseMode.HOLD,
        summary="What becomes of fires that fall due meanwhile: `hold` keeps their runs waiting, `skip` skips them.",
    ),
)


def read_pause(key: PauseKey, body: Mapping[str, Any], *, made_by: str, now: datetime) -> Pause:
    """Return the pause that a body describes.

    Raises:
        InvalidInput: a value is wrong, there is no such field, or the end has passed.
    """
    options = PAUSE_OPTIONS.read_all(body, lambda field: field)
    until = options["until"]
    if until is not None and until <= now:
        raise InvalidInput("until", f"must lie in the future; it is {now.isoformat(timespec='seconds')} now")
    return Pause(scope=key.scope, name=key.name, made_by=made_by, since=now, **options)
