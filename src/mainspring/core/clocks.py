"""Decides changes of a job's clock: fires, edits, pauses, resumes, deletes.

Every change is based on a clock that was read before. It takes effect only if the clock has not moved since. So of
two changes based on the same clock, one loses (law 2). The conditional UPDATEs of both SQL dialects do the same as
`wins_fire`; a property test compares them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.values import value


class ClockFacts(Protocol):
    """A job's clock, as in its row."""

    @property
    def revision(self) -> int: ...
    @property
    def next_fire_at(self) -> datetime | None: ...
    @property
    def is_paused(self) -> bool: ...


class ChangeVerdict(StrEnum):
    """What becomes of an edit, pause, resume or delete. Only an edit can find its name taken."""

    DONE = "done"
    MOVED = "moved"
    MISSING = "missing"
    NAME_TAKEN = "name_taken"


@value()
class NextFire:
    """The fire at which a clock stands.

    Attributes:
        fire_at: its nominal time, the key of the fire (law 2).
        due_at: when it is to be committed: later than `fire_at` by the job's jitter (see `core.planning.next_fire`).
    """

    fire_at: datetime
    due_at: datetime


@value(kw_only=True)
class ClockMove:
    """What a change writes to the clock. It also raises the clock's revision.

    Attributes:
        ends_gap: the open gap ends now. A gap that would begin later is removed, because it holds no fire.
    """

    next_fire: NextFire | None
    is_paused: bool
    ends_gap: bool


@value()
class Decision:
    """The answer to a change, and what it writes. It writes nothing if `move` is None."""

    verdict: ChangeVerdict
    move: ClockMove | None = None


_MISSING = Decision(ChangeVerdict.MISSING)
_MOVED = Decision(ChangeVerdict.MOVED)
_NAME_TAKEN = Decision(ChangeVerdict.NAME_TAKEN)
_NOTHING_TO_DO = Decision(ChangeVerdict.DONE)


def _stands_at(clock: ClockFacts, revision: int, fire_at: datetime | None) -> bool:
    return clock.revision == revision and clock.next_fire_at == fire_at


def wins_fire(clock: ClockFacts, *, revision: int, fire_at: datetime, fired_through: datetime | None) -> bool:
    """Say whether a planned fire takes effect: the clock is where the plan found it, and the fire is new.

    Args:
        fired_through: the clock's `fired_through`.
    """
    return _stands_at(clock, revision, fire_at) and (fired_through is None or fired_through < fire_at)


def decide_edit(
    clock: ClockFacts | None,
    *,
    revision: int,
    fire_at: datetime | None,
    next_fire: NextFire | None,
    ends_gap: bool,
    is_name_taken: bool,
    is_current: bool = True,
) -> Decision:
    """Decide an edit. A paused job stays paused and its clock stopped, whatever the edit says.

    Args:
        clock: None if the job does not exist.
        is_current: the calendars by which the clock is set are as they were read.
    """
    if clock is None:
        return _MISSING
    if not is_current or not _stands_at(clock, revision, fire_at):
        return _MOVED
    if is_name_taken:
        return _NAME_TAKEN
    move = ClockMove(
        next_fire=None if clock.is_paused else next_fire, is_paused=clock.is_paused, ends_gap=ends_gap
    )
    return Decision(ChangeVerdict.DONE, move)


def decide_replan(
    clock: ClockFacts | None,
    *,
    revision: int,
    fire_at: datetime | None,
    next_fire: NextFire | None,
    ends_gap: bool,
    is_current: bool,
) -> Decision:
    """Decide to set a clock by other versions of its job's calendars. A paused job's clock stays stopped.

    Args:
        is_current: these are the newest versions still.
    """
    if clock is None:
        return _MISSING
    if not is_current or not _stands_at(clock, revision, fire_at):
        return _MOVED
    move = ClockMove(
        next_fire=None if clock.is_paused else next_fire, is_paused=clock.is_paused, ends_gap=ends_gap
    )
    return Decision(ChangeVerdict.DONE, move)


def decide_pause(clock: ClockFacts | None, *, revision: int, fire_at: datetime | None) -> Decision:
    """Decide a pause. For a paused job it is done already, whatever clock was read."""
    if clock is None:
        return _MISSING
    if clock.is_paused:
        return _NOTHING_TO_DO
    if not _stands_at(clock, revision, fire_at):
        return _MOVED
    return Decision(ChangeVerdict.DONE, ClockMove(next_fire=None, is_paused=True, ends_gap=False))


def decide_resume(
    clock: ClockFacts | None, *, revision: int, fire_at: datetime | None, next_fire: NextFire | None
) -> Decision:
    """Decide a resume. For a job that is not paused it is done already, whatever clock was read.

    Moving the clock of such a job would skip due fires without a record (law 4).
    """
    if clock is None:
        return _MISSING
    if not clock.is_paused:
        return _NOTHING_TO_DO
    if not _stands_at(clock, revision, fire_at):
        return _MOVED
    return Decision(ChangeVerdict.DONE, ClockMove(next_fire=next_fire, is_paused=False, ends_gap=True))


def decide_delete(clock: ClockFacts | None, *, revision: int, fire_at: datetime | None) -> Decision:
    """Decide a delete; the clock goes with the job."""
    if clock is None:
        return _MISSING
    if not _stands_at(clock, revision, fire_at):
        return _MOVED
    return Decision(ChangeVerdict.DONE, ClockMove(next_fire=None, is_paused=clock.is_paused, ends_gap=True))
