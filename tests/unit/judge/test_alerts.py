"""O1 to O3: what failed is told, nothing is told that did not happen, and what was told ends once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.notify import NotifyRule
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story
from tools.judge import AlertStory, AlertTold

NOTIFY = NotifyRule(to=("ops",))
ALERT = AlertStory(
    id=7, tenant="default", rule="job_failed", subject="job:job", since=at(10), resolved_at=at(20)
)
FIRING = AlertTold(at=at(11), id="ntf_1", kind="firing", alert_ids=(7,))
RESOLVED = AlertTold(at=at(21), id="ntf_2", kind="resolved", alert_ids=(7,))


def tell(
    *told: AlertTold, alert: AlertStory | None = ALERT, noticed: float | None = 10, **notify: Any
) -> Story:
    """Let a run of a watched job fail for good, and say what watchdog and channel made of it."""
    story = Story()
    job_id = story.job(notify=notify.get("notify", NOTIFY))
    run_id = story.submit(job_id, 1, "failed", "spent")
    name = story.history.changes[0].spec.name
    story.history.judges_alerts = True
    story.history.alerts = [] if alert is None else [replace(alert, subject=f"job:{name}")]
    story.history.told = list(told)
    story.history.noticed = {} if noticed is None else {run_id: at(noticed)}
    return story


def test_a_failure_that_is_told_once_and_ended_once() -> None:
    assert tell(FIRING, RESOLVED).broken == set()


def test_a_message_may_come_twice_with_one_id() -> None:
    assert tell(FIRING, FIRING, RESOLVED, RESOLVED).broken == set()


def test_an_alert_that_goes_on_has_no_end_to_tell() -> None:
    assert tell(FIRING, alert=replace(ALERT, resolved_at=None)).broken == set()


def test_an_end_that_is_not_to_be_told() -> None:
    assert tell(FIRING, alert=replace(ALERT, tells_end=False)).broken == set()


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (tell(FIRING, RESOLVED, noticed=None), {"O1", "O2"}),
        (tell(RESOLVED), {"O1", "O3"}),
        (tell(alert=None), {"O1"}),
        (tell(FIRING, RESOLVED, noticed=30), {"O1", "O2"}),
        (tell(replace(FIRING, at=at(0.5)), RESOLVED), {"O2"}),
        (tell(FIRING, RESOLVED, replace(FIRING, id="ntf_3", alert_ids=(8,))), {"O2"}),
        (tell(FIRING, RESOLVED, replace(FIRING, id="ntf_3")), {"O3"}),
        (tell(FIRING, RESOLVED, replace(RESOLVED, id="ntf_3")), {"O3"}),
        (tell(FIRING), {"O3"}),
        (tell(FIRING, replace(RESOLVED, at=at(10.5))), {"O3"}),
        (tell(FIRING, RESOLVED, alert=replace(ALERT, resolved_at=None)), {"O3"}),
    ],
)
def test_what_is_wrong_is_found(story: Story, broken: set[str]) -> None:
    assert story.broken == broken


def test_jobs_that_tell_nothing_owe_nothing() -> None:
    assert tell(alert=None, noticed=None, notify=None).broken == set()


def test_of_deleted_jobs_nothing_is_owed() -> None:
    story = tell(alert=None, noticed=None)
    story.delete(story.history.changes[0].job_id, 30)
    assert story.broken == set()


def test_where_no_alerts_are_judged_nothing_is_owed() -> None:
    story = tell(alert=None, noticed=None)
    story.history.judges_alerts = False
    assert story.broken == set()
