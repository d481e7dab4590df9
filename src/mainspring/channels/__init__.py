"""Channels, which carry alerts to people: webhook, Slack, e-mail, Alertmanager."""

from mainspring.channels.senders import Senders

__all__ = ["Senders"]
