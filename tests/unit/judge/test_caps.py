"""S14 and L10 for caps of queues, tenants and labels."""

from __future__ import annotations

import pytest

from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import Capping


def note(story: Story, when: float, most: int | None, scope: str = "queue", name: str = "default") -> None:
    """Note that a cap was set or unset at an instant."""
    story.history.events.sort(key=lambda event: event.at)
    place = sum(event.at <= at(when) for event in story.history.events)
    story.history.cappings.append(Capping(place=place, scope=scope, name=name, max_running=most))


def told(count: int = 2, *, when: float = 10.0) -> Story:
    """Runs that are made at 10, claimed at 10.1, and succeed at 10.6."""
    story = Story()
    job_id = story.job(labels=("gpu",))
    for _ in range(count):
        story.submit(job_id, when)
    return story


@pytest.mark.parametrize(
    ("scope", "name", "is_good"),
    [
        ("queue", "default", False),
        ("tenant", "default", False),
        ("label", "gpu", False),
        ("queue", "mail", True),
        ("label", "arm", True),
    ],
)
def test_a_start_beyond_a_cap_is_wrong(scope: str, name: str, is_good: bool) -> None:
    story = told()
    note(story, 9.0, 1, scope, name)
    assert story.broken == (set() if is_good else {"S14"})


@pytest.mark.parametrize(("most", "is_good"), [(1, False), (2, True), (None, True)])
def test_the_newest_cap_holds(most: int | None, is_good: bool) -> None:
    story = told()
    note(story, 8.0, 1)
    note(story, 9.0, most)
    assert story.broken == (set() if is_good else {"S14"})


def test_what_ran_before_goes_on_and_counts() -> None:
    story = told()
    note(story, 10.2, 1)
    assert story.broken == set()
    story.submit(story.job(), 10.3)
    assert story.broken == {"S14"}


def test_each_end_makes_room() -> None:
    story = told(1)
    story.submit(story.job(), 11.0)
    note(story, 9.0, 1)
    assert story.broken == set()


@pytest.mark.parametrize(("most", "is_good"), [(1, False), (None, False), (0, True)])
def test_a_lane_with_room_does_not_wait(most: int | None, is_good: bool) -> None:
    story = told(1)
    for index, event in enumerate(story.history.events):
        if event.what != "inserted":
            story.alter_event(index, at=event.at.replace(second=40))
    note(story, 9.0, 1)
    note(story, 9.1, most)
    story.submit(story.job(queue="other"), 25.0)
    note(story, 24.0, most, "queue", "other")
    found = story.broken
    assert ("L10" in found) is not is_good
