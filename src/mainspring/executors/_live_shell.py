"""What a command writes while it runs, on its way from the supervisor to where it is followed."""

from __future__ import annotations

import codecs

from mainspring.core.secrets import PieceMask
from mainspring.egress.secrets import Revealer
from mainspring.ports.executor import AttemptContext, OpenLog

_HEAD = 1 + 16 + 8  # the mark of a frame, what was dropped before it, and its size


class LiveShell:
    """Reads the frames of a supervisor (`_shell_supervisor.live`), and passes on what stands in them."""

    def __init__(self, context: AttemptContext, revealer: Revealer) -> None:
        self._context = context
        self._revealer = revealer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._log: OpenLog | None = None
        self._pieces = PieceMask()

    def read_frames(self, data: bytearray) -> None:
        """Take the whole frames out of what has arrived."""
        while len(data) >= _HEAD and data[:1] == b"L":
            dropped, size = int(data[1:17], 16), int(data[17:_HEAD], 16)
            if len(data) < _HEAD + size:
                return
            if dropped:
                self.end()
                self._decoder.reset()
                self._skip(dropped)
            self._pass_on(self._decoder.decode(bytes(data[_HEAD : _HEAD + size])))
            del data[: _HEAD + size]

    def end(self) -> None:
        """Pass on what is left."""
        self._pass_on(self._decoder.decode(b"", final=True))
        self._write(self._revealer.hide_rest(self._pieces))

    def _skip(self, dropped: int) -> None:
        log = self._open()
        if log is not None:
            log.skip(dropped)

    def _pass_on(self, text: str) -> None:
        if text:
            self._write(self._revealer.hide_piece(text, self._pieces))

    def _write(self, text: str) -> None:
        log = self._open() if text else None
        if log is not None:
            log.write(text)

    def _open(self) -> OpenLog | None:
        if self._log is None:
            self._log = self._context.open_log()
        return self._log
