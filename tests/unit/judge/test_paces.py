"""S20 for catch-up: no faster than its job says, and not too many live at a time. S27 knows that a pace takes time."""

from __future__ import annotations

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import FireRangeKind
from mainspring.core.pacing import CatchUpRule
from mainspring.core.rates import parse_rate
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, every, grace

RULE = CatchUpRule(rate=parse_rate("2/s"), max_live=3)


def late_job(story: Story, rule: CatchUpRule = RULE) -> JobId:
    return story.job(every(1), catch_up=rule, misfire=grace(1, "fire_all"))


def catch_up(story: Story, job_id: JobId, steps: dict[float, int]) -> None:
    """Make up for the fires from 1 s on, so many at each instant, of an outage that ended at 20 s."""
    fires = sum(steps.values())
    fire_range_id = story.fire_range(job_id, FireRangeKind.CATCH_UP, 1, fires, "misfire", when=20)
    second = 0
    for when, count in steps.items():
        for _ in range(count):
            second += 1
            story.fire(
                job_id,
                second,
                late=when - second,
                due_at=at(when),
                fire_range_id=fire_range_id,
            )


def broken(story: Story) -> list[str]:
    """What S20 says about paces."""
    assert story.broken is not None  # which puts the events in order
    return [line for line in story.told.splitlines() if "its rate allows" in line or "may be" in line]


@pytest.fixture
def story() -> Story:
    return Story(read_at=120.0)


@pytest.mark.parametrize("steps", [{21: 2, 22: 2, 23: 2}, {21: 1, 21.5: 2, 22: 1, 40: 2}])
def test_catch_up_at_its_pace_is_good(story: Story, steps: dict[float, int]) -> None:
    catch_up(story, late_job(story), steps)
    assert broken(story) == []


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({21: 3}, "made 3 runs, 1.000 more than its rate allows"),
        ({21: 2, 21.4: 2}, "made 2 runs, 1.200 more than its rate allows"),
        ({21: 2, 40: 3}, "made 3 runs, 1.000 more than its rate allows"),
    ],
)
def test_too_fast_a_catch_up_is_accused(story: Story, steps: dict[float, int], why: str) -> None:
    catch_up(story, late_job(story), steps)
    assert "S20" in story.broken
    assert any(why in line for line in broken(story))


def test_the_fastest_of_its_versions_counts(story: Story) -> None:
    job_id = late_job(story)
    story.edit(job_id, 20.5, catch_up=CatchUpRule(rate=parse_rate("4/s"), max_live=4))
    catch_up(story, job_id, {21: 4})
    assert broken(story) == []


def test_a_job_that_leaves_it_to_the_server_is_not_judged(story: Story) -> None:
    catch_up(story, late_job(story, CatchUpRule()), {21: 15})
    assert broken(story) == []


def test_too_many_live_runs_are_accused(story: Story) -> None:
    catch_up(story, late_job(story, CatchUpRule(rate=parse_rate("9/s"), max_live=3)), {21: 4})
    assert any("4 of its runs are live, and 3 may be" in line for line in broken(story))
