"""Edits, pauses, resumes, deletes and fires against a clock that may have moved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.clocks import (
    ChangeVerdict,
    ClockMove,
    Decision,
    NextFire,
    decide_delete,
    decide_edit,
    decide_pause,
    decide_resume,
    wins_fire,
)
from mainspring.testing.factories import at


@dataclass(frozen=True)
class Clock:
    revision: int = 1
    next_fire_at: datetime | None = at(60)
    is_paused: bool = False


PAUSED = Clock(next_fire_at=None, is_paused=True)
NEXT = NextFire(at(90), at(93))
READ: dict[str, Any] = {"revision": 1, "fire_at": at(60)}
READ_PAUSED: dict[str, Any] = {"revision": 1, "fire_at": None}


def edit(clock: Clock | None, **overrides: Any) -> Decision:
    values = {**READ, "next_fire": NEXT, "ends_gap": False, "is_name_taken": False}
    return decide_edit(clock, **values | overrides)


def done(next_fire: NextFire | None, *, is_paused: bool, ends_gap: bool) -> Decision:
    move = ClockMove(next_fire=next_fire, is_paused=is_paused, ends_gap=ends_gap)
    return Decision(ChangeVerdict.DONE, move)


def test_changes_take_effect_on_the_clock_that_was_read() -> None:
    assert edit(Clock()) == done(NEXT, is_paused=False, ends_gap=False)
    assert decide_pause(Clock(), **READ) == done(None, is_paused=True, ends_gap=False)
    resumed = decide_resume(PAUSED, **READ_PAUSED, next_fire=NEXT)
    assert resumed == done(NEXT, is_paused=False, ends_gap=True)
    assert decide_delete(Clock(), **READ) == done(None, is_paused=False, ends_gap=True)
    assert decide_delete(PAUSED, **READ_PAUSED) == done(None, is_paused=True, ends_gap=True)


def test_edit_of_a_paused_job_never_starts_its_clock() -> None:
    assert edit(PAUSED, **READ_PAUSED, ends_gap=True) == done(None, is_paused=True, ends_gap=True)


@pytest.mark.parametrize("read", [READ, READ_PAUSED, {"revision": 7, "fire_at": None}])
def test_pause_and_resume_of_what_is_so_already_are_done_whatever_was_read(read: dict[str, Any]) -> None:
    assert decide_pause(PAUSED, **read) == Decision(ChangeVerdict.DONE)
    assert decide_resume(Clock(), **read, next_fire=NEXT) == Decision(ChangeVerdict.DONE)


@pytest.mark.parametrize(
    "read", [READ | {"revision": 2}, READ | {"fire_at": at(61)}, READ | {"fire_at": None}]
)
def test_changes_of_a_clock_that_moved_write_nothing(read: dict[str, Any]) -> None:
    moved = Decision(ChangeVerdict.MOVED)
    assert edit(Clock(), **read) == edit(Clock(), **read, is_name_taken=True) == moved
    assert decide_pause(Clock(), **read) == decide_delete(Clock(), **read) == moved
    assert decide_resume(PAUSED, **READ_PAUSED | {"revision": 2}, next_fire=None) == moved


def test_taken_name_is_told_where_the_edit_would_take_effect() -> None:
    assert edit(Clock(), is_name_taken=True) == Decision(ChangeVerdict.NAME_TAKEN)


def test_job_that_is_gone() -> None:
    missing = Decision(ChangeVerdict.MISSING)
    assert edit(None) == decide_pause(None, **READ) == decide_delete(None, **READ) == missing
    assert decide_resume(None, **READ, next_fire=None) == missing


instants = st.sampled_from([at(30), at(60), at(90)])


@given(
    revision=st.integers(1, 2),
    fire_at=instants,
    next_fire_at=st.none() | instants,
    fired_through=st.none() | instants,
)
def test_fire_is_won_by_the_plan_that_fits_and_is_new(
    revision: int, fire_at: datetime, next_fire_at: datetime | None, fired_through: datetime | None
) -> None:
    clock = Clock(next_fire_at=next_fire_at)
    is_won = wins_fire(clock, revision=revision, fire_at=fire_at, fired_through=fired_through)
    is_new = fired_through is None or fired_through < fire_at
    assert is_won == (revision == 1 and next_fire_at == fire_at and is_new)
