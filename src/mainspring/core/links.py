"""Where a server shows what an alert is about: links that lead to its API, and to nothing that it does not have."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.ids import format_run_id
from mainspring.core.notifications import AlertFacts, Message

_RUN = "/api/v1/runs/{}"
_SUBJECTS = {"job": "/api/v1/jobs?name={}", "monitor": "/api/v1/monitors/{}"}
"""By what a subject begins with, before its colon."""
_PLAIN = frozenset("-._~")


def link_message(message: Message, public_url: str | None) -> Message:
    """Return a message whose alerts have links, where there is something to show.

    Args:
        public_url: where people reach the server, without a slash at the end; None: they are told of no link.
    """
    if public_url is None:
        return message
    return replace(message, alerts=tuple(replace(one, url=_link(one, public_url)) for one in message.alerts))


def _link(alert: AlertFacts, public_url: str) -> str | None:
    """Return the link to the run that an alert is about, or else to its job or monitor."""
    if alert.run_id is not None:
        return public_url + _RUN.format(format_run_id(alert.run_id))
    kind, _, name = alert.subject.partition(":")
    path = _SUBJECTS.get(kind)
    return None if path is None or not name else public_url + path.format(_quote(name))


def _quote(name: str) -> str:
    """Return a name as it stands in a URL (RFC 3986, 2.3)."""
    return "".join(
        letter
        if letter.isascii() and (letter.isalnum() or letter in _PLAIN)
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in name
    )
