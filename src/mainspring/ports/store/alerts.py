"""Alerts: rules, channels and silences, what the watchdog has found, and the messages that tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.access import EndingToken
from mainspring.core.alerting import Undelivered, Verdict
from mainspring.core.alerts import Alert, AlertRule, Channel, Silence
from mainspring.core.audit import AuditEntry
from mainspring.core.ids import RunId, SessionId
from mainspring.core.notifications import AlertState, Message, MessageKind
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs

NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""When a message is due that was given up, while its alerts still count as told."""


class AlertsSaved(StrEnum):
    """What became of a verdict."""

    DONE = "done"
    FENCED = "fenced"
    """The caller does not own shard 0 any more."""
    OUTDATED = "outdated"
    """Another verdict was saved since the revision was read by which the caller decided."""


class AlertStore(Protocol):
    """Alerts.

    Rules and channels are few, and are read as a whole. What the watchdog and the notifier write is fenced: it needs
    the epoch of shard 0.
    """

    async def put_alert_rule(self, rule: AlertRule, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Store a rule in place of the one of its tenant and name. Return whether there was none."""
        ...

    async def add_alert_rules(self, rules: Sequence[AlertRule], *, epochs: Epochs) -> bool:
        """Add those of these rules that are missing. Return False, and add none, without the epoch of shard 0."""
        ...

    async def delete_alert_rule(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete a rule. Return whether there was one."""
        ...

    async def list_alert_rules(self) -> list[AlertRule]:
        """Return the rules of all tenants, by tenant and name."""
        ...

    async def put_channel(self, channel: Channel, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Store a channel, without its error, in place of the one of its name. Return whether there was none."""
        ...

    async def delete_channel(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete a channel, and the messages that it has not delivered. Return whether there was one."""
        ...

    async def list_channels(self) -> list[Channel]:
        """Return the channels of all tenants, by tenant and name."""
        ...

    async def add_silence(self, silence: Silence, *, audit: Sequence[AuditEntry] = ()) -> int:
        """Insert a silence, whose id is 0, and return its id."""
        ...

    async def end_silence(
        self, tenant: str, silence_id: int, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """End a silence that has not ended yet. Return whether there was one."""
        ...

    async def list_silences(self, *, ending_after: datetime) -> list[Silence]:
        """Return the silences of all tenants that end after an instant, in order of their ids."""
        ...

    async def list_open_alerts(self) -> list[Alert]:
        """Return the alerts of all tenants that are not RESOLVED, in order of their ids."""
        ...

    async def list_alerts(
        self,
        tenants: Sequence[str] | None,
        *,
        states: Sequence[AlertState],
        before: int | None = None,
        limit: int = 100,
    ) -> list[Alert]:
        """Return a page of the alerts of some tenants (of all if None) in one of these states, the newest first."""
        ...

    async def acknowledge_alert(
        self,
        tenants: Sequence[str],
        alert_id: int,
        *,
        by: str,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> Alert | None:
        """Note who looks after an alert, unless somebody does already; return it, or None if there is none."""
        ...

    async def read_alert_revision(self) -> int:
        """Return how many verdicts were saved. Read it before what a verdict is decided by."""
        ...

    async def save_alerts(
        self,
        verdict: Verdict,
        *,
        revision: int,
        epochs: Epochs,
        now: datetime,
        noticed: Sequence[RunId] = (),
    ) -> AlertsSaved:
        """Save what was decided about alerts, and the messages that tell of it, together.

        `revision` is as it was read before the rest. It is raised with the verdict, so a verdict that is committed
        late, after its caller gave it up and judged again, is OUTDATED, and tells nothing twice.

        `noticed` are failed runs that the alerts tell of: they are not unnoticed any more.

        That something still fires takes the place of such a message of the same channel and group that is not under
        way. An alert is left out that is new, but whose rule has an open one of that subject. Changes leave alone who
        acknowledged an alert. Nothing is saved unless it is DONE.
        """
        ...

    async def list_lost_sessions(self, *, since: datetime) -> list[LostSession]:
        """Return the sessions that were declared dead from an instant on, in order of their ids."""
        ...

    async def list_failovers(self, *, since: datetime) -> list[FailoverLoss]:
        """Return the failovers of the database that any process noticed from an instant on, in that order.

        It is empty for a store without database servers.
        """
        ...

    async def list_expiring_tokens(
        self, *, after: datetime, before: datetime, limit: int
    ) -> list[EndingToken]:
        """Return the tokens that end after an instant and before another, the first ones first.

        They end by their own time, or with that of an account whose provider was not asked for long (see
        `Identity.ends_at`). Sessions, tokens that were revoked or in whose place another was made, and those of
        disabled accounts are left out.
        """
        ...

    async def take_notifications(
        self,
        *,
        epochs: Epochs,
        now: datetime,
        again_at: datetime,
        limit: int,
        busy: Sequence[str] = (),
        busy_tenants: Sequence[str] = (),
    ) -> list[Notification]:
        """Take messages that are due, the oldest first, and return them.

        `busy` are the keys of channels, and `busy_tenants` tenants of channels, of which none is taken.

        Unless they are settled, they are due again at `again_at`. A message waits until those are settled that its
        channel was given before it for the same group. Returns none without the epoch of shard 0.
        """
        ...

    async def list_undelivered(self, *, limit: int) -> list[Undelivered]:
        """Return the messages that something fires that were given up, and those behind them, in order of their ids.

        They are those of some groups, at most `limit`. Until `save_alerts` has noted in the alerts that they were not
        told, nothing more of such a group is taken.
        """
        ...

    async def settle_notifications(
        self, settled: Sequence[SettledNotification], *, epochs: Epochs, now: datetime
    ) -> bool:
        """Note what became of messages that were taken, and the last error of their channels.

        What has been taken again since is left out. Nothing is kept of messages that something still fires, once they
        were delivered or given up. Return False, and note nothing, without the epoch of shard 0.
        """
        ...

    async def prune_alerts(self, *, before: datetime, limit: int, epochs: Epochs) -> int:
        """Remove what was over before an instant.

        That is alerts that were resolved, messages that were settled, silences that ended, and failovers. Return how
        many alerts and messages went.
        """
        ...


@value(kw_only=True)
class LostSession:
    """A worker's session that was declared dead."""

    id: SessionId
    worker: str
    host: str
    ended_at: datetime


@value(kw_only=True)
class FailoverLoss:
    """A failover as one process noticed it.

    Attributes:
        noticed_at: when it did, by the clock of the new server.
        runs_lost: how many of the runs that this process had acknowledged the new server does not have.
    """

    noticed_at: datetime
    runs_lost: int


@value(kw_only=True)
class Notification:
    """A message that was taken to be delivered.

    Attributes:
        channel: the channel's key.
        attempts: how often it has been taken.
        message: with the id of the notification.
        made_at: when it was made.
    """

    id: int
    channel: str
    attempts: int
    message: Message
    made_at: datetime


@value(kw_only=True)
class SettledNotification:
    """What became of a message.

    Attributes:
        again_at: when it is tried again; None if it is not.
        error: why it was not delivered; None if it was.
    """

    notification: Notification
    again_at: datetime | None = None
    error: str | None = None

    @property
    def next_at(self) -> datetime | None:
        """When the message is due again, if it is. One that something fires is never, until its alerts know of it."""
        is_lost = self.error is not None and self.again_at is None
        return NEVER if is_lost and self.notification.message.kind is MessageKind.FIRING else self.again_at
