"""How many fires the schedules of jobs give, hour by hour, counted with bounded work."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from mainspring.core.calendars.joined import has_no_rule, own_trigger
from mainspring.core.model import Job
from mainspring.core.triggers import Trigger, UnknownTrigger
from mainspring.core.usage import UsageStep

MOST_JOBS = 5_000
"""Jobs that are looked at; of more, the past has to tell what the others do."""
MOST_STEPS = 50_000
"""Fires that are gone through in all. It is some tenths of a second."""
MOST_IN_HOUR = 60
"""Fires of a job that are gone through in one hour. Of what fires more often, the rest comes at the same rate."""
_HOUR = timedelta(hours=1)
_TICK = timedelta(microseconds=1)


class PlannedFires:
    """The fires of this hour and of those to come, by queue.

    Args:
        hours: how many, with this one.

    Attributes:
        is_whole: whether all jobs were looked at.
        steps: how many fires were gone through.
    """

    def __init__(self, now: datetime, hours: int) -> None:
        self._now = now
        self._start = UsageStep.HOUR.start_of(now)
        self._hours = hours
        self._fires: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * hours)
        self._unplanned: set[str] = set()
        self._jobs = 0
        self.is_whole: bool = True
        self.steps: int = 0

    @property
    def has_room(self) -> bool:
        """Whether more jobs may be looked at."""
        return self._jobs < MOST_JOBS and self.steps < MOST_STEPS

    @property
    def queues(self) -> frozenset[str]:
        """The queues that fires are planned for."""
        return frozenset(self._fires)

    def knows_all(self, queue: str) -> bool:
        """Say whether these are all fires that the queue gets."""
        return self.is_whole and queue not in self._unplanned

    def fires(self, queue: str, hour: int) -> float:
        """Return how many fires are planned for an hour from now."""
        return self._fires[queue][hour] if queue in self._fires else 0.0

    def leave_out(self, job: Job) -> None:
        """Note a job whose fires cannot be told."""
        self._jobs += 1
        self._unplanned.add(job.spec.queue)

    def add(self, job: Job, trigger: Trigger | None) -> None:
        """Count the fires of a job.

        Args:
            trigger: its own, with its calendars.
        """
        if trigger is None or (job.next_fire_at is None and not has_no_rule(trigger)) or job.is_paused:
            self._jobs += 1  # without a trigger, paused or finished: it will not fire
        elif has_no_rule(trigger) or isinstance(own_trigger(trigger), UnknownTrigger):
            self.leave_out(job)
        else:
            self._jobs += 1
            self._count(job, trigger)

    def _count(self, job: Job, trigger: Trigger) -> None:
        """Go through the fires of a job, from the beginning of this hour on."""
        left = job.fires_left
        fires = self._fires[job.spec.queue]
        at = trigger.next_after(self._start - _TICK)
        while at is not None and left != 0:
            hour = (at - self._start) // _HOUR
            if hour >= self._hours:
                break
            end = self._start + (hour + 1) * _HOUR
            first, last, count = at, at, 0
            while at is not None and at < end and count < MOST_IN_HOUR and left != 0:
                last, count = at, count + 1
                if left is not None and at > self._now:
                    left -= 1
                at = trigger.next_after(at)
            self.steps += count
            fires[hour] += count
            if at is not None and at < end and left != 0:
                more = (end - last) / (last - first) * (count - 1)
                fires[hour] += more if left is None else min(more, left)
                left = None if left is None else max(left - int(more), 0)
                at = trigger.next_after(end - _TICK)
