"""Pauses: a queue, a tenant or everything stands still for a while. Says what they hold, and which fires they skip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from mainspring.core.kinds import Choice, Kind
from mainspring.core.model import LaneKey
from mainspring.core.options import Option, Options
from mainspring.core.times import Instant
from mainspring.errors import InvalidInput

REASON_PAUSED = "paused"
"""Of a fire that fell due while its queue, its tenant or everything was paused with the mode `skip`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return (
            "Everything" if self.scope is PauseScope.ALL else f"{self.scope.value.capitalize()} {self.name!r}"
        )

    def is_on(self, now: datetime) -> bool:
        """Say whether it has not ended by itself."""
        return self.until is None or now < self.until

    def covers(self, lane: LaneKey) -> bool:
        """Say whether it is about a lane's runs."""
        if self.scope is PauseScope.ALL:
            return True
        return self.name == (lane.queue if self.scope is PauseScope.QUEUE else lane.tenant)

    def skips(self, due_at: datetime) -> bool:
        """Say whether it skips what fell due at an instant."""
        return self.mode is PauseMode.SKIP and self.since <= due_at and self.is_on(due_at)


class LanePauses:
    """All pauses, as of one instant."""

    def __init__(self, pauses: Iterable[Pause] = ()) -> None:
        self._pauses = tuple(sorted(pauses, key=lambda pause: pause.key))

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def on(self, now: datetime) -> tuple[Pause, ...]:
        """Return those that have not ended by themselves, in order of what they stop."""
        return tuple(pause for pause in self._pauses if pause.is_on(now))

    def find(self, lane: LaneKey, now: datetime) -> Pause | None:
        """Return what stops a lane's runs; of several the one that lasts longest. None: nothing does."""
        found = [pause for pause in self._pauses if pause.is_on(now) and pause.covers(lane)]
        return max(found, key=lambda pause: pause.until or _NEVER, default=None)

    def next_end(self, now: datetime) -> datetime | None:
        """Return when the next of them ends by itself."""
        return min((pause.until for pause in self.on(now) if pause.until is not None), default=None)

    def skips(self, lane: LaneKey, due_at: datetime) -> bool:
        """Say whether a fire that fell due at an instant is to be skipped."""
        return any(pause.skips(due_at) and pause.covers(lane) for pause in self._pauses)


NOTHING_PAUSED = LanePauses()


def renew(pause: Pause, old: Pause | None) -> Pause:
    """Return a pause instead of an older one of the same: what was paused with that mode stays paused since then."""
    if old is None or not old.is_on(pause.since) or old.mode is not pause.mode:
        return pause
    return replace(pause, since=min(old.since, pause.since))


def is_over_for_long(pause: Pause, now: datetime) -> bool:
    """Say whether a pause ended so long ago that nobody asks for it any more."""
    return pause.until is not None and pause.until + KEPT <= now


@dataclass(frozen=True, slots=True)
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
