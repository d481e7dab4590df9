"""Which log lines a server writes, as the HTTP API shows and takes it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.ports.logs import LEVELS, LogState
from mainspring.wire.views import Instant

_LEVELS = ", ".join(f"`{level}`" for level in LEVELS)


class LoggingBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a server is to write for a while."""

    level: Annotated[str, Meta(description=f"The lowest level of lines that are written: {_LEVELS}.")]
    duration: Annotated[
        Any, Meta(description="How long, like `10m`, up to a day; then the usual level returns.")
    ] = "10m"


class LoggingView(Struct, kw_only=True):
    """Which log lines the server that answers writes."""

    level: Annotated[str, Meta(description="The lowest level of lines that are written.")]
    usual: Annotated[str, Meta(description="The level of its settings, to which it returns.")]
    until: Annotated[Instant | None, Meta(description="When it returns; null if it is the usual one.")]


def view_logging(state: LogState) -> LoggingView:
    """Show what is written now."""
    return LoggingView(level=state.level, usual=state.usual, until=state.until)
