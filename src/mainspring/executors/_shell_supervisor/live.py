"""Passes on what a command writes while it runs: in frames, before the reply, and only if it runs for a while."""

from __future__ import annotations

import socket

NEWEST = 64 * 1024
PAUSE = 0.25
"""Seconds between two frames, so that a command that writes often costs its worker little."""
_MOST = 256 * 1024
"""Bytes of one frame."""


class LiveOutput:
    """What was written and not passed on yet.

    If the worker does not read it, of all that comes after the first half of the limit only the newest bytes are kept.
    A frame is `L`, how many bytes were dropped before it and how many it has (16 and 8 hexadecimal digits), and these.

    Args:
        begin_at: from when on it is passed on, in monotonic seconds.
        limit: the most bytes that are kept of a command, but for the newest ones.
    """

    def __init__(self, control: socket.socket, begin_at: float, limit: int) -> None:
        self._control = control
        self._next_at = begin_at
        self._half = limit // 2
        self._seen = 0
        self._first = bytearray()  # of the first half, of which nothing is dropped
        self._newest = bytearray()
        self._dropped = 0  # right before the newest
        self._frame = b""  # what is left of the one that is being sent
        self._has_begun = False

    def add(self, data: bytes) -> None:
        """Take in what was written."""
        room = max(self._half - self._seen, 0)
        self._seen += len(data)
        self._first += data[:room]
        self._newest += data[room:]
        if len(self._newest) > _MOST:
            cut = len(self._newest) - NEWEST
            del self._newest[:cut]
            self._dropped += cut

    def next_at(self) -> float | None:
        """Return when to call `push`; None: not before more was written, or the worker has read."""
        return self._next_at if self._has_any and not self._frame else None

    @property
    def _has_any(self) -> bool:
        return bool(self._first or self._newest)

    @property
    def is_blocked(self) -> bool:
        """Whether the worker has not read what was sent."""
        return bool(self._frame)

    def push(self, now: float) -> None:
        """Send what there is and the worker takes, without waiting for it."""
        while self._frame or (self._has_any and now >= self._next_at):
            if not self._frame:
                self._frame = self._make_frame()
                if not self._has_any:
                    self._next_at = now + PAUSE
            try:
                sent = self._control.send(self._frame, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:  # the worker is gone, and the caller will see that
                self._frame = b""
                self._first.clear()
                self._newest.clear()
                return
            self._has_begun = True
            self._frame = self._frame[sent:]

    def rest(self) -> bytes:
        """Return what must be sent before the reply: nothing if nothing was sent before."""
        if not self._has_begun and not self._frame:
            return b""
        rest = [self._frame]
        while self._has_any:
            rest.append(self._make_frame())
        return b"".join(rest)

    def _make_frame(self) -> bytes:
        if self._first:
            data, dropped = bytes(self._first[:_MOST]), 0
            del self._first[:_MOST]
        else:
            data, dropped = bytes(self._newest), self._dropped
            self._newest.clear()
            self._dropped = 0
        return b"L%016x%08x" % (dropped, len(data)) + data
