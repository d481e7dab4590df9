"""Calls on alerts, their rules, channels and silences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.sdk.lists import text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.alerts import (
    AlertPage,
    AlertRuleList,
    AlertRuleView,
    AlertView,
    ChannelList,
    ChannelView,
    SilenceList,
    SilenceView,
    TriedView,
)
from mainspring.wire.views import Deleted


class AlertCalls(Transport):
    """A part of `AsyncClient`. With the scope `cluster`, a call is about what all tenants share."""

    async def list_alerts(
        self, *, state: str = "open", scope: str = "tenant", before: int | None = None, limit: int = 100
    ) -> AlertPage:
        """Return a page of alerts, the newest first: those that are `open`, `firing` or `resolved`.

        With the scope `cluster`, it is those of all tenants.
        """
        query: dict[str, str | int | None] = {
            "state": state,
            "scope": scope,
            "before": before,
            "limit": limit,
        }
        return await self.call(operations.LIST_ALERTS, query=query)

    async def acknowledge_alert(self, alert_id: int | str) -> AlertView:
        """Note that the caller looks after an alert, unless another does already."""
        return await self.call(operations.ACKNOWLEDGE_ALERT, str(alert_id))

    async def list_alert_rules(self, *, scope: str = "tenant") -> AlertRuleList:
        """Return all rules of alerts, by name."""
        return await self.call(operations.LIST_ALERT_RULES, query={"scope": scope})

    async def get_alert_rule(self, name: str, *, scope: str = "tenant") -> AlertRuleView:
        """Return a rule of alerts."""
        return await self.call(operations.GET_ALERT_RULE, name, query={"scope": scope})

    async def put_alert_rule(
        self, name: str, body: Mapping[str, Any], *, scope: str = "tenant"
    ) -> AlertRuleView:
        """Set a rule of alerts: `kind`, `queue`, `threshold`, `period`, `hold`, `severity`, `channels`, `enabled`."""
        return await self.call(operations.UPSERT_ALERT_RULE, name, query={"scope": scope}, body=body)

    async def delete_alert_rule(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a rule of alerts; its alerts end."""
        return await self.call(operations.DELETE_ALERT_RULE, name, query={"scope": scope})

    async def list_channels(self, *, scope: str = "tenant") -> ChannelList:
        """Return all channels, by name."""
        return await self.call(operations.LIST_CHANNELS, query={"scope": scope})

    async def get_channel(self, name: str, *, scope: str = "tenant") -> ChannelView:
        """Return a channel, without what may be secret in its address."""
        return await self.call(operations.GET_CHANNEL, name, query={"scope": scope})

    async def put_channel(self, name: str, body: Mapping[str, Any], *, scope: str = "tenant") -> ChannelView:
        """Set a channel: `kind`, `config`, `group_wait`, `repeat`, `min_severity`, `enabled`."""
        return await self.call(operations.UPSERT_CHANNEL, name, query={"scope": scope}, body=body)

    async def delete_channel(self, name: str, *, scope: str = "tenant") -> Deleted:
        """Delete a channel, and what it has not delivered yet."""
        return await self.call(operations.DELETE_CHANNEL, name, query={"scope": scope})

    async def test_channel(self, name: str, *, scope: str = "tenant") -> TriedView:
        """Deliver a message that says it is a test, and say what became of it."""
        return await self.call(operations.TEST_CHANNEL, name, query={"scope": scope})

    async def list_silences(self, *, scope: str = "tenant") -> SilenceList:
        """Return the silences that have not ended."""
        return await self.call(operations.LIST_SILENCES, query={"scope": scope})

    async def add_silence(
        self,
        period: str | float | timedelta,
        reason: str,
        *,
        rule: str | None = None,
        subject: str | None = None,
        from_time: datetime | str | None = None,
        scope: str = "tenant",
    ) -> SilenceView:
        """Tell nothing of some alerts for a while: of all, or of those of a `rule` or about a `subject`."""
        body = {
            "period": period.total_seconds() if isinstance(period, timedelta) else period,
            "reason": reason,
            "rule": rule,
            "subject": subject,
            "from_time": text_of(from_time),
        }
        return await self.call(operations.ADD_SILENCE, query={"scope": scope}, body=body)

    async def end_silence(self, silence_id: int | str, *, scope: str = "tenant") -> Deleted:
        """End a silence now. What still fires is told at once."""
        return await self.call(operations.END_SILENCE, str(silence_id), query={"scope": scope})
