"""What runs write, as it is followed over HTTP: events of the server-sent kind."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mainspring.core.run_logs import MOST_PLACE
from mainspring.errors import InvalidInput
from mainspring.ports.store.run_logs import KeptProgress
from mainspring.wire.views import Instant

EVENT_STREAM = "text/event-stream"
OFFSET_HEADER = "Mainspring-Log-Offset"
"""The header of an answer that says from where to read on."""
KEEP_ALIVE = b":\n\n"
_MARK = re.compile(r"([0-9]{1,10})\.([0-9]{1,16})", re.ASCII)
_encode = msgspec.json.Encoder().encode


class LogEvent(Struct, kw_only=True, omit_defaults=True):
    """An event `log` of a followed run: what it has written since the last one. The event `end` has its status."""

    attempt: Annotated[int, Meta(description="The number of the attempt that has written it.")] = 0
    text: Annotated[str, Meta(description="What it has written.")] = ""
    status: Annotated[str | None, Meta(description="The run's, in the event `end`.")] = None


class ProgressView(Struct, kw_only=True):
    """How far the run's last attempt said it was."""

    done: Annotated[float, Meta(description="How much is done.")]
    total: Annotated[float | None, Meta(description="How much there is to do; null if it does not know.")]
    message: Annotated[str | None, Meta(description="What it says beside it.")]
    at: Annotated[Instant, Meta(description="When it was told.")]


def view_progress(told: KeptProgress) -> ProgressView:
    """Show how far a run is."""
    progress = told.progress
    return ProgressView(done=progress.done, total=progress.total, message=progress.message, at=told.at)


def write_event(name: str, mark: tuple[int, int], event: LogEvent) -> bytes:
    """Write an event, with an id from which a reader can go on."""
    return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (*mark, name.encode(), _encode(event))


def read_mark(text: str, field: str) -> tuple[int, int]:
    """Read the id of an event.

    Raises:
        InvalidInput: it is none.
    """
    found = _MARK.fullmatch(text)
    if found is None or int(found[2]) > MOST_PLACE or int(found[1]) >= 2**31:
        raise InvalidInput(field, "must be the id of an event of this stream, like 3.1024")
    return int(found[1]), int(found[2])
