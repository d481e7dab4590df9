"""Decides when a job fires whose trigger counts from the end of the run before (ADR 0060).

Its clock stands nowhere while that run is live. The functions here say where it stands then: when the run has ended,
when a paused job is resumed, and when an edit changes the trigger.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.calendars.joined import own_trigger
from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from mainspring.core.triggers import AfterEnd, Trigger, Windowed
from mainspring.core.values import value

_TICK = timedelta(microseconds=1)


@value(kw_only=True)
class FiredRun:
    """What has become of a fire: the run that it made, or its record if it was skipped.

    Attributes:
        finished_at: None while the run is live.
    """

    run_id: RunId
    state: RunState
    finished_at: datetime | None


@value(kw_only=True)
class LastFire:
    """The newest fire that a job's clock has accounted for.

    Attributes:
        fire_at: its nominal time; None if the job has never fired.
        run: None if there is none, or if it is no longer kept.
    """

    fire_at: datetime | None
    run: FiredRun | None

    @property
    def is_live(self) -> bool:
        """Whether its run has not ended yet."""
        return self.run is not None and self.run.finished_at is None

    @property
    def ended_at(self) -> datetime | None:
        """When its run ended; None if that is not known."""
        return None if self.run is None else self.run.finished_at


NEVER = LastFire(fire_at=None, run=None)


def after_end_of(trigger: Trigger | None) -> AfterEnd | None:
    """Return the delay by which a job fires, without its window and its calendars; None if it fires otherwise."""
    raw = None if trigger is None else own_trigger(trigger)
    raw = raw.raw if isinstance(raw, Windowed) else raw
    return raw if isinstance(raw, AfterEnd) else None


def first_of_all(trigger: Trigger, *, now: datetime) -> datetime | None:
    """Return the first fire of a new job: at once, or at `starts_at`."""
    return _place(trigger, now, None)


def follow_end(trigger: Trigger, last: LastFire, *, now: datetime) -> datetime | None:
    """Return the fire that follows the end of a run; None if there is none.

    It may have passed: then nobody was there to see the end, and the misfire policy applies. A run that is no longer
    kept counts as one that ends now.
    """
    if last.is_live:
        return None
    if last.fire_at is None:
        return _place(trigger, now, None)
    return _place(trigger, (last.ended_at or now) + _delay(trigger), last.fire_at)


def follow_pause(trigger: Trigger, last: LastFire, *, now: datetime) -> datetime | None:
    """Return the next fire of a job that is resumed; None if its run is live, or if there is none.

    The count went on during the pause: each delay that has passed since the end was a fire that the pause kept out.
    """
    if last.is_live:
        return None
    if last.fire_at is None:
        return _place(trigger, now + _TICK, None)
    delay = _delay(trigger)
    ended_at = last.ended_at or now
    passed = max((now - ended_at) // delay, 0)
    return _place(trigger, ended_at + (passed + 1) * delay, last.fire_at)


def follow_edit(trigger: Trigger, last: LastFire, *, now: datetime) -> datetime | None:
    """Return the next fire by a trigger that an edit brings; None if the job's run is live, or if there is none.

    It is at once if the run before ended longer ago than the delay, or is no longer kept.
    """
    if last.is_live:
        return None
    due_at = now if last.ended_at is None else max(last.ended_at + _delay(trigger), now)
    return _place(trigger, due_at, last.fire_at)


def _delay(trigger: Trigger) -> timedelta:
    after = after_end_of(trigger)
    assert after is not None, "only asked for triggers that count from an end"
    return after.delay


def _place(trigger: Trigger, at: datetime, fired_through: datetime | None) -> datetime | None:
    """Return an instant within the window of a trigger, and later than all that the clock has accounted for."""
    if fired_through is not None:  # even if the store's clock was set back: the instant names the fire
        at = max(at, fired_through + _TICK)
    own = own_trigger(trigger)
    if not isinstance(own, Windowed):
        return at
    if own.starts_at is not None:
        at = max(at, own.starts_at)
    return None if own.ends_at is not None and at > own.ends_at else at
