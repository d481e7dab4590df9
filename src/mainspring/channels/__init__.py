"""Channels, which carry alerts to people: webhook, Slack, e-mail, Alertmanager."""
