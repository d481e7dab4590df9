"""S35: nothing is given out while a calendar stops it, and only such a calendar skips fires."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every
from tools.judge import BlackoutChange, Fault, StillWindow


def note(
    story: Story,
    when: float,
    *spans: tuple[float, float],
    scope: str = "queue",
    name: str = "default",
    **facts: Any,
) -> None:
    """Note which stretches stop something from an instant on."""
    story.history.events.sort(key=lambda event: event.at)
    place = sum((event.committed_at or event.at) <= at(when) for event in story.history.events)
    windows = tuple(
        StillWindow(low=at(low), high=at(high), **{"since": at(when)} | facts) for low, high in spans
    )
    story.history.blackouts.append(
        BlackoutChange(at=at(when), place=place, scope=scope, name=name, windows=windows)
    )


def told() -> Story:
    """A run that is made at 10, claimed at 10.1, and succeeds at 10.6."""
    story = Story()
    story.submit(story.job(), 10.0)
    return story


@pytest.mark.parametrize(
    ("scope", "name", "is_good"),
    [
        ("all", "", False),
        ("queue", "default", False),
        ("tenant", "default", False),
        ("queue", "mail", True),
        ("tenant", "acme", True),
    ],
)
def test_a_claim_in_a_blackout_is_wrong(scope: str, name: str, is_good: bool) -> None:
    story = told()
    note(story, 5.0, (9, 20), scope=scope, name=name)
    assert story.broken == (set() if is_good else {"S35"})


@pytest.mark.parametrize(("span", "is_good"), [((10.2, 20), True), ((9, 10.1), True), ((9, 10.11), False)])
def test_the_edges_are_exact(span: tuple[float, float], is_good: bool) -> None:
    story = told()
    note(story, 5.0, span)
    assert story.broken == (set() if is_good else {"S35"})


def test_a_change_takes_effect_for_what_is_committed_after_it() -> None:
    story = told()
    note(story, 5.0, (9, 20))
    note(story, 10.05)
    assert story.broken == set()
    later = told()
    note(later, 10.2, (9, 20))
    assert later.broken == set()


@pytest.mark.parametrize(
    ("set_at", "committed", "hit", "is_good"),
    [
        (2.0, 14.0, None, False),
        (2.0, 12.9, None, True),  # the servers may just come to the edge
        (2.0, 25.0, None, True),  # it is over
        (8.5, 14.0, None, True),  # they may hardly know of it
        (2.0, 14.0, "server-0", False),  # the other one acts for all
        (2.0, 14.0, "", True),
    ],
)
def test_what_was_chosen_before_does_not_come_long_after_the_edge(
    set_at: float, committed: float, hit: str | None, is_good: bool
) -> None:
    story = told()
    story.history.servers = ("server-0", "server-1")
    note(story, set_at, (10.2, 20))
    [place] = [place for place, event in enumerate(story.history.events) if event.what == "claimed"]
    event = story.history.events[place]
    story.history.events[place] = type(event)(
        **{name: getattr(event, name) for name in event.__slots__} | {"committed_at": at(committed)}
    )
    if hit is not None:
        story.history.faults.append(Fault(kind="pause", target=hit, at=at(10), until=at(15)))
    assert ("S35" in story.broken) is not is_good


def test_a_run_that_waits_for_the_end_of_a_blackout_is_not_late() -> None:
    story = Story()
    run_id = story.submit(story.job(), 10.0, "waiting")
    story.alter(run_id, ready_at=at(19.9))
    story.attempt(run_id, "done")
    assert story.broken == {"L1"}
    note(story, 5.0, (9, 19.5))
    assert story.broken == set()


@pytest.mark.parametrize(
    ("span", "facts", "is_good"),
    [
        ((9, 15), {"mode": "skip"}, True),
        ((9, 10), {"mode": "skip"}, False),
        ((11, 15), {"mode": "skip"}, False),
        ((9, 15), {"mode": "skip", "since": at(11)}, False),
        ((9, 15), {"mode": "hold"}, False),
    ],
)
def test_a_fire_is_skipped_only_by_a_blackout_that_says_so(
    span: tuple[float, float], facts: dict[str, Any], is_good: bool
) -> None:
    story = Story(read_at=19.0)
    story.fire(story.job(every(10)), 10, reason="blackout")
    note(story, 5.0, span, **facts)
    assert story.broken == (set() if is_good else {"S35"})


@pytest.mark.parametrize(
    ("set_at", "span", "mode", "is_good"),
    [
        (5.0, (9, 15), "skip", False),
        (9.0, (9, 15), "skip", True),  # it was hardly set
        (5.0, (9, 15), "hold", True),
        (5.0, (9, 10), "skip", True),
        (5.0, (11, 15), "skip", True),
    ],
)
def test_a_fire_that_falls_due_in_a_skipping_blackout_is_skipped(
    set_at: float, span: tuple[float, float], mode: str, is_good: bool
) -> None:
    story = Story(read_at=19.0)
    story.fire(story.job(every(10)), 10, "waiting")
    note(story, set_at, span, mode=mode)
    assert ("S35" in story.broken) is not is_good


def test_only_fires_are_skipped() -> None:
    story = Story()
    story.submit(story.job(), 10.0, reason="blackout")
    note(story, 5.0, (9, 15), mode="skip")
    assert "S35" in story.broken


@pytest.mark.parametrize(
    ("faults", "is_good"),
    [
        ([(6, 7)], False),
        ([(6, 7), (12, 15)], True),  # it began before the servers had got over the one before (seed 4023)
        ([(6, 7), (13.1, 15)], False),
        ([(12, 15)], False),
    ],
)
def test_a_server_may_hear_of_a_blackout_after_several_faults(
    faults: list[tuple[float, float]], is_good: bool
) -> None:
    story = Story(read_at=29.0)
    story.fire(story.job(every(10)), 20, "waiting")
    note(story, 5.0, (9, 40), mode="skip")
    for begin, end in faults:
        story.fault(begin, end)
    assert ("S35" not in story.broken) is is_good
