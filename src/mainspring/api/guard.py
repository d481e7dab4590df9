"""Closes the loopback API to web pages: a browser on this machine must not be made to speak for a stranger.

There is no token yet, so whoever connects is trusted; a page that a browser has loaded from elsewhere connects too. Its
requests carry its origin, or (after its name was rebound to this machine) its own name as the host.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from mainspring.api.errors import BadBody
from mainspring.api.reading import AnyRequest
from mainspring.config.settings import is_loopback


async def refuse_strangers(request: AnyRequest) -> None:
    """Let a request pass only when it is addressed to, and comes from, this machine by name.

    Raises:
        BadBody: 403, the host or the origin is another's.
    """
    host = request.headers.get("host")
    if host is not None and not _is_here(f"//{host}"):
        raise BadBody(403, f"this API is for this machine only: the host {host[:80]!r} is not localhost")
    origin = request.headers.get("origin")
    if origin is not None and not _is_here(origin):
        raise BadBody(
            403, f"this API is not for web pages of others: the origin {origin[:80]!r} is not this machine"
        )


def _is_here(url: str) -> bool:
    try:
        name = urlsplit(url).hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
