"""Monitors: they watch jobs that run elsewhere and say so by pings, and know when one is missing.

What a monitor knows changes only with a ping. That one is missing follows from what it knew and the time, so nothing
has to be written for it, and no process has to live for it. See `judge_monitor`.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from mainspring.core.fields import DAY, check_known, read_mapping, show
from mainspring.core.kinds import Whole
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration
from mainspring.core.triggers import TRIGGERS, AfterEnd, AtStart, OnEvent, Trigger, parts_of
from mainspring.core.triggers.base import WINDOW_NAMES
from mainspring.core.triggers.reading import HEADS, read_trigger
from mainspring.core.values import value
from mainspring.errors import InvalidInput

KEY_BYTES = 20
_KEY = re.compile(r"[a-z2-7]{32}", re.ASCII)
MOST_MONITORS_OF_TENANT = 500
MOST_RECENT = 20
"""Pings that a monitor remembers."""


class MonitorState(StrEnum):
    """What is known of the job that a monitor watches."""

    NEW = "NEW"
    """It has not said anything yet."""
    UP = "UP"
    """It has done what it should, as far as is known."""
    RUNNING = "RUNNING"
    """It has said that it begins, and not yet that it has ended."""
    LATE = "LATE"
    """It should have said something by now."""
    FAILED = "FAILED"
    """It has said that it failed."""


class PingKind(StrEnum):
    """What a ping says."""

    SUCCESS = "success"
    START = "start"
    EXTEND = "extend"
    FAIL = "fail"


@value()
class Ping:
    """What a job elsewhere has said.

    Attributes:
        exit_code: how it ended, where it says so.
    """

    kind: PingKind
    at: datetime
    exit_code: int | None = None


@value(kw_only=True)
class MonitorPlan:
    """When a job elsewhere should say something.

    Attributes:
        trigger: when it should begin.
        start_grace: how much later, or earlier, its ping may come.
        run_grace: how long it may take from its start to its end.
        tolerance: from which failure in a row on it is told; a missing ping is a failure, too.
    """

    trigger: Trigger
    start_grace: timedelta = timedelta(minutes=5)
    run_grace: timedelta = timedelta(hours=1)
    tolerance: int = 1


@value(kw_only=True)
class MonitorFacts:
    """What a monitor knows.

    Attributes:
        failures: how many there were since the last success.
        failed_at: when the failure was that made it LATE or FAILED; None in other states, but for a run that began
            since.
        expected_at: the first fire that no ping has answered yet; None if there is no further one.
        answered_at: the last fire that a ping has answered.
        ends_by: until when the run that has begun should say that it ended.
        started_at: when that run began.
        pinged_at: the last ping.
        succeeded_at: the last success.
        recent: the last pings, the newest first.
    """

    state: MonitorState = MonitorState.NEW
    failures: int = 0
    failed_at: datetime | None = None
    expected_at: datetime | None = None
    answered_at: datetime | None = None
    ends_by: datetime | None = None
    started_at: datetime | None = None
    pinged_at: datetime | None = None
    succeeded_at: datetime | None = None
    recent: tuple[Ping, ...] = field(default_factory=tuple)


@value(kw_only=True)
class Monitor:
    """A monitor with what it knows.

    Attributes:
        made_at: when it was made or changed; only fires after it are expected.
    """

    tenant: str
    name: str
    plan: MonitorPlan
    facts: MonitorFacts
    made_at: datetime

    @property
    def is_broken(self) -> bool:
        """Whether it has failed as often as it may, and has not succeeded since."""
        return self.facts.failures >= self.plan.tolerance

    @property
    def due_at(self) -> datetime | None:
        """From when on `judge_monitor` may find a failure; None if it cannot."""
        if self.is_broken:
            return self.facts.failed_at
        return self._deadline

    @property
    def _deadline(self) -> datetime | None:
        facts = self.facts
        if facts.state is MonitorState.RUNNING:
            return facts.ends_by
        return None if facts.expected_at is None else facts.expected_at + self.plan.start_grace


MONITOR_OPTIONS = Options(
    Option(
        name="start_grace",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        default=timedelta(minutes=5),
        summary="How much later than its time, or earlier, the job's ping may come.",
        example="10m",
    ),
    Option(
        name="run_grace",
        kind=Duration(timedelta(seconds=1), 30 * DAY),
        default=timedelta(hours=1),
        summary="How long the job may take from its start to its end, or until it asks for more time.",
        example="2h",
    ),
    Option(
        name="tolerance",
        kind=Whole(1, 100),
        default=1,
        summary="From which failure in a row on an alert fires; a missing ping is a failure, too.",
    ),
)
"""What is set for a monitor, beside its trigger."""


def timing_fields() -> frozenset[str]:
    """Return the names of the fields of a body that say when a job begins."""
    return frozenset({*HEADS, *TRIGGERS.heads, *TRIGGERS.companions, *WINDOW_NAMES})


def write_key(secret: bytes) -> str:
    """Return the text of a key, which the address of a monitor's pings ends with.

    Args:
        secret: `KEY_BYTES` random bytes.
    """
    return b32encode(secret).decode().lower()


def hash_key(text: str) -> bytes | None:
    """Return what the store keeps of a key; None if a text has not the form of one."""
    return hashlib.sha256(text.encode()).digest() if _KEY.fullmatch(text) else None


def make_monitor(
    tenant: str, name: str, body: object, *, now: datetime, old: Monitor | None = None
) -> Monitor:
    """Return the monitor that a body describes: a trigger as a job has it, and the options of monitors.

    Args:
        old: the monitor that it takes the place of, whose pings it remembers.

    Raises:
        InvalidInput: a field is wrong, or there is no trigger.
    """
    given = read_mapping(body, "body")
    timing = timing_fields()
    check_known(given, {*timing, *MONITOR_OPTIONS.by_form})
    old_trigger = None if old is None else old.plan.trigger
    words = {field: value for field, value in given.items() if field in timing}
    trigger = read_trigger(words, base=None, old=old_trigger, now=now, key=f"{tenant}/{name}")
    if trigger is None:
        raise InvalidInput("trigger", f"is missing; give one of {', '.join([*TRIGGERS.heads, *HEADS])}")
    if any(isinstance(part, AfterEnd | AtStart | OnEvent) for part in parts_of(trigger)):
        raise InvalidInput(
            "trigger", "a monitor needs instants: an interval, a cron expression, or one instant"
        )
    rest = {field: value for field, value in given.items() if field not in timing}
    plan = MonitorPlan(trigger=trigger, **MONITOR_OPTIONS.read_all(rest, str))
    facts = MonitorFacts(expected_at=trigger.next_after(now))
    if old is not None:
        kept = old.facts
        facts = replace(
            facts,
            state=MonitorState.UP if kept.pinged_at is not None else MonitorState.NEW,
            pinged_at=kept.pinged_at,
            succeeded_at=kept.succeeded_at,
            recent=kept.recent,
        )
    return Monitor(tenant=tenant, name=name, plan=plan, facts=facts, made_at=now)


def take_ping(monitor: Monitor, ping: Ping) -> Monitor:
    """Return a monitor that has heard a ping. What was missing before counts."""
    monitor = judge_monitor(monitor, ping.at)
    facts = replace(monitor.facts, pinged_at=ping.at, recent=(ping, *monitor.facts.recent)[:MOST_RECENT])
    begins = ping.kind is PingKind.START or (
        ping.kind is PingKind.EXTEND and facts.state is not MonitorState.RUNNING
    )
    ends_run = facts.state is MonitorState.RUNNING and not begins
    if ping.kind is not PingKind.EXTEND or begins:
        facts = _answer(facts, monitor.plan, ping.at, is_end=ends_run)
    match ping.kind:
        case PingKind.START | PingKind.EXTEND:
            facts = replace(
                facts,
                state=MonitorState.RUNNING,
                started_at=ping.at if begins else facts.started_at,
                ends_by=ping.at + monitor.plan.run_grace,
            )
        case PingKind.SUCCESS:
            facts = replace(
                facts, state=MonitorState.UP, failures=0, failed_at=None, ends_by=None, succeeded_at=ping.at
            )
        case PingKind.FAIL:
            facts = _fail(facts, monitor.plan, ping.at, MonitorState.FAILED)
    return replace(monitor, facts=facts)


def judge_monitor(monitor: Monitor, now: datetime) -> Monitor:
    """Return a monitor with the failures that are known now because no ping has come in time.

    After the failure that is told, nothing further is expected before the next ping.
    """
    plan = monitor.plan
    while not monitor.is_broken or monitor.facts.state is MonitorState.RUNNING:
        deadline = monitor._deadline
        if deadline is None or now <= deadline:
            break
        facts = monitor.facts
        if facts.state is not MonitorState.RUNNING:
            expected_at = facts.expected_at
            assert expected_at is not None, "there is a deadline"
            facts = replace(facts, expected_at=plan.trigger.next_after(expected_at), answered_at=expected_at)
        monitor = replace(monitor, facts=_fail(facts, plan, deadline, MonitorState.LATE))
    return monitor


def _fail(facts: MonitorFacts, plan: MonitorPlan, at: datetime, state: MonitorState) -> MonitorFacts:
    """Count a failure; the state is told once there are as many as are told."""
    failures = facts.failures + 1
    is_told = failures >= plan.tolerance
    return replace(
        facts,
        state=state if is_told else MonitorState.UP,
        failures=failures,
        failed_at=(facts.failed_at or at) if is_told else None,
        ends_by=None,
    )


def _answer(facts: MonitorFacts, plan: MonitorPlan, at: datetime, *, is_end: bool) -> MonitorFacts:
    """Let a ping answer the fire that it is about.

    One that comes early by no more than the grace answers the fire that is to come, unless it ends a run: its start has
    answered already. None answers a fire before the one that was answered last is over.
    """
    expected_at = facts.expected_at
    if expected_at is None:
        return facts
    if at >= expected_at:
        answered_at = plan.trigger.previous_before(at + timedelta(microseconds=1)) or expected_at
        return replace(facts, expected_at=plan.trigger.next_after(at), answered_at=answered_at)
    is_early = at >= expected_at - plan.start_grace and (facts.answered_at is None or at >= facts.answered_at)
    if is_early and not is_end:
        return replace(facts, expected_at=plan.trigger.next_after(expected_at), answered_at=expected_at)
    return facts


def explain_monitor(monitor: Monitor, now: datetime) -> str:
    """Return in one sentence why a monitor that was judged is broken."""
    facts = monitor.facts
    count = f", the {facts.failures}. failure in a row" if facts.failures > 1 else ""
    last = facts.recent[0] if facts.recent else None
    if facts.state is MonitorState.FAILED and last is not None:
        code = "" if last.exit_code is None else f" with exit code {last.exit_code}"
        return f"{monitor.name} failed{code}{count}"
    if facts.state is MonitorState.RUNNING:
        return f"{monitor.name} runs again after a failure, and has not succeeded yet"
    since = facts.pinged_at
    heard = "it has never pinged" if since is None else f"its last ping was {_show(now - since)} ago"
    return f"{monitor.name} is late: {heard}{count}"


def _show(duration: timedelta) -> str:
    step = timedelta(minutes=1) if duration >= timedelta(hours=1) else timedelta(seconds=1)
    return show(duration - duration % step)


def read_exit_code(text: str) -> int | None:
    """Return an exit code of 0 to 255; None if a text is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        return None
    code = int(text)
    return code if code <= 255 else None


def ping_of_exit(code: int, at: datetime) -> Ping:
    """Return what an exit code says."""
    return Ping(PingKind.FAIL if code else PingKind.SUCCESS, at, code)


def plain_from_plan(plan: MonitorPlan) -> Mapping[str, Any]:
    """Return the options of a plan as they are kept and shown, without its trigger."""
    plain: dict[str, Any] = {}
    MONITOR_OPTIONS.store_into(plain, plan)
    return plain
