"""Alerts: the rules that say what is worth telling, what they found, the channels that tell it, and silences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.fields import DAY
from mainspring.core.ids import RunId
from mainspring.core.kinds import Choice, Flag, Number, Word, Words
from mainspring.core.notifications import AlertState, Severity
from mainspring.core.options import Option, Options
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import Conflict

MOST_CHANNELS = 20
"""Channels that one rule, or one job, may tell."""
MOST_RULES_OF_TENANT = 100
MOST_CHANNELS_OF_TENANT = 50
MOST_SILENCES_OF_TENANT = 1000
"""Rules, channels, and silences that are not over, that one tenant may have; and those of the cluster together."""
GROUP_WAIT = timedelta(seconds=10)
REPEAT = timedelta(hours=4)


class RuleKind(StrEnum):
    """What a rule watches."""

    DEAD_LETTERS = "dead_letters"
    """More open dead letters in a queue than `threshold`."""
    NO_WORKERS = "no_workers"
    """Runs have been ready for `period`, and no live worker serves them; or live workers have fewer slots than
    `threshold`."""
    MISSED_RUN = "missed_run"
    """A fire is overdue by `period`; or the daily check of all ledgers found fires without a record."""
    WORKER_LOST = "worker_lost"
    """A worker was declared dead within `period`, and none of its name or host has come since."""
    STUCK_RUN = "stuck_run"
    """A run is `period` past its deadline, and has not ended."""
    TOKEN_EXPIRY = "token_expiry"  # noqa: S105 - the name of a rule
    """An access token expires within `period`, and none was made in its place."""
    SCHEDULER = "scheduler"
    """A shard has no owner, a server may own none, or a failover of the database lost runs within `period`."""
    OLDEST_READY = "oldest_ready"
    """The run of a queue that has been ready longest has been so for `period`."""
    MONITOR = "monitor"
    """A job that runs elsewhere is late or has failed, beyond the tolerance of its monitor."""
    START_LAG = "start_lag"
    """Of the runs of a queue that started within `period`, one of 100 started more than `threshold` seconds late."""
    DURATION_SPIKE = "duration_spike"
    """Attempts of a queue within `period` took `threshold` times as long as those of the day before, at the 95th
    percentile."""
    FAILURE_RATE = "failure_rate"
    """Of the runs of a queue that ended within `period`, more than `threshold` percent failed."""
    BUDGET = "budget"
    """An objective's error budget was used `threshold` times as fast as it allows: within `period`, and within the last
    twelfth of it."""
    FORECAST = "forecast"
    """Within a day, `threshold` percent of a queue's slots will be taken; or within `period`, the disk will be full."""
    DISK = "disk"
    """Less than `threshold` percent of the disk that the store is on are free."""


SHARED_KINDS = frozenset(
    {
        *(RuleKind.NO_WORKERS, RuleKind.WORKER_LOST, RuleKind.SCHEDULER, RuleKind.TOKEN_EXPIRY),
        *(RuleKind.DISK, RuleKind.FORECAST),
    }
)
"""Kinds about what all tenants share: only a rule for all of them may be of such a kind."""


@value(kw_only=True)
class AlertRule:
    """What is watched, and whom to tell.

    Attributes:
        tenant: whose things it watches; `*` are those of all tenants.
        queue: the one queue that it watches; None is every queue.
        threshold: a number that its kind judges by; None if it judges by none.
        period: a time that its kind judges by.
        hold: for how long it must be so before the alert fires.
        channels: names of channels, of its tenant or else of all tenants. Without any, its alerts are only listed.
        enabled: whether it is judged.
        is_default: every store has it, so it can be changed, but not deleted.
    """

    tenant: str
    name: str
    kind: RuleKind
    queue: str | None = None
    threshold: int | float | None = None
    period: timedelta | None = None
    hold: timedelta = timedelta(0)
    severity: Severity = Severity.WARNING
    channels: tuple[str, ...] = ()
    enabled: bool = True
    is_default: bool = False


RULE_OPTIONS = Options(
    Option(name="kind", kind=Choice(RuleKind), summary="What it watches.", example="dead_letters"),
    Option(
        name="queue",
        kind=Word(),
        default=None,
        is_nullable=True,
        summary="The one queue that it watches; every queue if it names none.",
        example="mail",
    ),
    Option(
        name="threshold",
        kind=Number(0, 1_000_000_000),
        default=None,
        is_nullable=True,
        summary="The number that it judges by, if its kind has one.",
        example=100,
    ),
    Option(
        name="period",
        kind=Duration(timedelta(seconds=1), 365 * DAY),
        default=None,
        is_nullable=True,
        summary="The time that it judges by, if its kind has one.",
        example="60s",
    ),
    Option(
        name="hold",
        kind=Duration(timedelta(0), DAY),
        default=timedelta(0),
        summary="For how long it must be so before the alert fires.",
        example="2m",
    ),
    Option(
        name="severity", kind=Choice(Severity), default=Severity.WARNING, summary="How bad its alerts are."
    ),
    Option(
        name="channels",
        kind=Words(MOST_CHANNELS, "channels"),
        default=(),
        summary="The channels that tell of its alerts; without any, alerts are only listed.",
        example=["ops"],
    ),
    Option(name="enabled", kind=Flag(), default=True, summary="Whether it is judged."),
)


@value(kw_only=True)
class Telling:
    """Whom an alert is told to, and what was told.

    Attributes:
        channels: the keys of the channels that are to be told of it; see `channel_key`.
        told: when each channel was last told that it fires.
        lost: when it turned out that a channel could not be told of it.
        tells_end: whether its end is told to those that were told of it.
        is_owed: it is told even if it is over before it was told.
    """

    channels: tuple[str, ...] = ()
    told: dict[str, datetime] = field(default_factory=dict)
    lost: dict[str, datetime] = field(default_factory=dict)
    tells_end: bool = True
    is_owed: bool = False


@value(kw_only=True)
class Alert:
    """Something that a rule found.

    Attributes:
        id: 0 before it is stored.
        tenant: whose thing it is about; `*` if all tenants share it.
        rule_tenant, rule: the rule's tenant and name.
        subject: what it is about, such as `queue:mail`.
        since: since when it has been so.
        fired_at: when it began to fire; None while it is pending.
        value: the number that was judged.
        summary: one sentence.
        run_id: the run that it is about, if it is about one.
    """

    id: int
    tenant: str
    rule_tenant: str
    rule: str
    subject: str
    state: AlertState
    severity: Severity
    since: datetime
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    value: float | None = None
    summary: str
    run_id: RunId | None = None
    telling: Telling = field(default_factory=Telling)
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None


@value(kw_only=True)
class Channel:
    """Where alerts are told.

    Attributes:
        tenant: whose it is; rules and jobs of every tenant may name one of `*`.
        group_wait: how long the first alert of a rule waits for others, so that they are told together.
        repeat: when what was told and still fires is told again.
        min_severity: what is less bad is not told here.
        enabled: whether it tells anything.
        last_error: why the last message could not be delivered; None after one that was.
    """

    tenant: str
    name: str
    config: ChannelConfig
    group_wait: timedelta = GROUP_WAIT
    repeat: timedelta = REPEAT
    min_severity: Severity = Severity.WARNING
    enabled: bool = True
    last_error: str | None = None
    failed_at: datetime | None = None

    @property
    def key(self) -> str:
        """Its name among the channels of all tenants."""
        return channel_key(self.tenant, self.name)


CHANNEL_SETTINGS = Options(
    Option(
        name="group_wait",
        kind=Duration(timedelta(0), DAY),
        default=GROUP_WAIT,
        summary="How long the first alert of a rule waits for others, so that one message tells them all.",
    ),
    Option(
        name="repeat",
        kind=Duration(timedelta(minutes=1), 30 * DAY),
        default=REPEAT,
        summary="When what was told and still fires is told again.",
    ),
    Option(
        name="min_severity",
        kind=Choice(Severity),
        default=Severity.WARNING,
        summary="What is less bad is not told here.",
    ),
    Option(name="enabled", kind=Flag(), default=True, summary="Whether it tells anything."),
)
"""What channels of all kinds have, beside `kind` and `config`."""


def channel_key(tenant: str, name: str) -> str:
    """Return a channel's name among those of all tenants. Neither part has a slash."""
    return f"{tenant}/{name}"


def find_channel(channels: Mapping[str, Channel], tenant: str, name: str) -> Channel | None:
    """Return the channel that a tenant means by a name: its own, or else one of all tenants."""
    return channels.get(channel_key(tenant, name)) or channels.get(channel_key(ALL_TENANTS, name))


@value(kw_only=True)
class Silence:
    """For a while, alerts that it matches are not told. They are listed, and the end of what was told is told.

    Attributes:
        tenant: whose alerts it silences, on that tenant's channels; `*` are those of all tenants, on every channel.
        rule: the name of the rule whose alerts it silences; None is every rule.
        subject: what they are about, with `*` for any text; None is everything.
    """

    id: int
    tenant: str
    rule: str | None
    subject: str | None
    from_at: datetime
    until_at: datetime
    reason: str
    made_by: str


def matches(pattern: str, text: str) -> bool:
    """Say whether a text is as a pattern says, in which `*` stands for any text, and everything else for itself."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    if not text.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(others[-1]) and text.endswith(others[-1])


class Silencing:
    """The silences that hold at one instant, by tenant, rule and subject."""

    def __init__(self, silences: Iterable[Silence], now: datetime) -> None:
        self._exact: set[tuple[str, str | None, str | None]] = set()
        self._patterns: dict[tuple[str, str | None], list[str]] = {}
        for one in silences:
            if not one.from_at <= now < one.until_at:
                continue
            if one.subject is not None and "*" in one.subject:
                self._patterns.setdefault((one.tenant, one.rule), []).append(one.subject)
            else:
                self._exact.add((one.tenant, one.rule, one.subject))

    def mutes(self, alert: Alert, channel: Channel | None = None) -> bool:
        """Say whether any silence mutes an alert, for a channel or at all. A tenant's mutes none of the cluster's."""
        if self._mutes(ALL_TENANTS, alert):
            return True
        is_shared = channel is not None and channel.tenant == ALL_TENANTS
        return not is_shared and self._mutes(alert.tenant, alert)

    def _mutes(self, tenant: str, alert: Alert) -> bool:
        for rule in (alert.rule, None):
            if (tenant, rule, None) in self._exact or (tenant, rule, alert.subject) in self._exact:
                return True
            if any(matches(pattern, alert.subject) for pattern in self._patterns.get((tenant, rule), ())):
                return True
        return False


def check_count(held: int, most: int, tenant: str, *, field: str, noun: str) -> None:
    """Refuse one more of what a tenant may have only so many of.

    Raises:
        Conflict: the tenant has as many as it may.
    """
    if held >= most:
        way = "end" if field == "silence" else "delete"
        owner = "the cluster" if tenant == ALL_TENANTS else f"tenant {tenant!r}"
        raise Conflict(field, f"{owner} has {held:,} of at most {most:,} {noun}; {way} some first")
