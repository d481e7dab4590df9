"""Messages for Slack, and for services that take the same: Mattermost, Rocket.Chat."""

from __future__ import annotations

import json
from typing import Any

from mainspring.channels.posting import Poster
from mainspring.core.channel_settings import SlackChannel
from mainspring.core.notifications import AlertFacts, Message
from mainspring.egress.secrets import Revealer

MOST_TEXT = 3000
"""Characters of a text, which is Slack's limit for a block. Escapes count as they are written."""
MOST_HEADING = 150
_LONGEST_WORDS = 300
_SPARE = 40
"""Characters kept for the last line, which says how many alerts are not described."""
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_BREAK = "\u200b"
"""A space without width: after it, Mattermost and Rocket.Chat read neither a mention nor the link of Markdown."""


class SlackSender:
    """Posts messages to incoming webhooks."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster

    async def send(self, config: SlackChannel, message: Message, revealer: Revealer) -> None:
        """Post a message; see `ports.channel.Sender`."""
        body = json.dumps(write_slack(message), ensure_ascii=False).encode()
        await self._poster.post(revealer.fill(config.url), body, {}, revealer)


def write_slack(message: Message) -> dict[str, Any]:
    """Return the body for Slack. Nothing in it mentions people or links elsewhere, whatever names and errors hold."""
    heading = _one_line(message.title, MOST_HEADING)
    bold = f"*{_escape(heading)}*\n"
    lines = _write_lines(message, MOST_TEXT - len(bold))
    return {
        "text": bold + lines,  # in notifications; and services that know no blocks show it alone
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": heading, "emoji": False}},
            {"type": "section", "text": {"type": "mrkdwn", "text": lines, "verbatim": True}},
        ],
    }


def _write_lines(message: Message, most: int) -> str:
    """Return a line for each alert, as many as there is room for, and one that counts the others."""
    lines = [f"tenant {_escape(message.tenant)}, severity {message.severity}"]
    left = most - len(lines[0]) - _SPARE
    described = 0
    for alert in message.alerts:
        line = _write_line(alert)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
        described += 1
    others = message.count - described
    return "\n".join([*lines, f"… and {others} more"] if others else lines)


def _write_line(alert: AlertFacts) -> str:
    subject = _escape(_one_line(alert.subject, _LONGEST_WORDS))
    summary = _escape(_one_line(alert.summary, _LONGEST_WORDS))
    link = "" if alert.url is None else f" <{_escape(alert.url).replace('|', '%7C')}|open>"
    return f"• {subject}: {summary}{link}"


def _one_line(text: str, most: int) -> str:
    """Return a text as one line in which Markdown has no mention and no link, at most so long."""
    line = " ".join(text.split()).replace("@", f"@{_BREAK}").replace("](", f"]{_BREAK}(")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
