"""Planning, catch-up, ledger and preview of jobs whose fires move agree on the fires, whatever outages come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.calendars.preview import preview_fires
from mainspring.core.calendars.rolling import RolledTrigger
from mainspring.core.calendars.sieve import make_sieve
from mainspring.core.cron import Cron
from mainspring.core.ledger import balance_fires
from mainspring.core.model import Misfire, MisfireRule, Roll
from mainspring.core.triggers import Interval, Trigger
from tests.unit.core.calendars.test_sets import make
from tests.unit.core.test_planning import Account, make_job, plan_at

BERLIN = "Europe/Berlin"
START = datetime(2026, 3, 20, 6, tzinfo=UTC)
DAY = timedelta(days=1)
OPEN_HOURS = make(
    {
        "tz": BERLIN,
        "rules": [
            {"weekly": ["MON-FRI"], "from": "12:00", "to": "20:00"},
            {"weekly": ["SUN"], "from": "01:00", "to": "04:00"},
        ],
    }
)
OWN: list[Trigger] = [
    Cron("0 9,17 * * 6,0", BERLIN),
    Cron("30 2 * * *", BERLIN),
    Interval(timedelta(hours=25), START),
]


def fires_between(trigger: RolledTrigger, start: datetime, end: datetime) -> list[datetime]:
    """Move each of the job's own fires of some weeks around, and keep what comes after `start`, up to `end`."""
    moved: set[datetime] = set()
    fire = trigger.raw.next_after(start - 20 * DAY)
    while fire is not None and fire < end + 20 * DAY:
        if (target := trigger.moved(fire)) is not None:
            moved.add(target)
        fire = trigger.raw.next_after(fire)
    return sorted(each for each in moved if start < each <= end)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(OWN),
    st.sampled_from(list(Roll)),
    st.sampled_from(list(Misfire)),
    st.lists(st.sampled_from([1, 3, 26, 24 * 9]), min_size=1, max_size=5),
)
def test_all_that_reads_moved_fires_agrees(
    own: Trigger, roll: Roll, policy: Misfire, hours: list[int]
) -> None:
    trigger = RolledTrigger(own, make_sieve(own, (OPEN_HOURS,), (), roll))
    spec = make_job(trigger, MisfireRule(policy=policy, max_count=3))
    now, clock = START, trigger.next_after(START)
    accounted: list[datetime] = []
    for each in hours:
        now += timedelta(hours=each)
        while clock is not None and (plan := plan_at(spec, clock, now=now)) is not None:
            accounted += Account.of(trigger, plan).instants()
            clock = plan.next_fire_at
    expected = fires_between(trigger, START, now)
    assert accounted == expected
    assert [one.fire_at for one in preview_fires(trigger, START, len(expected))] == expected
    assert balance_fires(trigger, START, now, recorded=accounted).is_even
