"""Keeps what a function prints, for its run, and passes it on to where it would have gone.

`sys.stdout` and `sys.stderr` are replaced once for each process. What is written within an attempt is also kept with
that attempt, which a context variable tells. So concurrent attempts never mix, in tasks and in threads that run in a
copy of the context (`asyncio.to_thread`). A function that writes nothing pays nothing: the variable is read when
something is written.

`logging` comes along where it writes to these streams: by default, and with any `StreamHandler`, at the levels and in
the form that the user has set.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TextIO

from mainspring.executors._text import OUTPUT_LIMIT, join_cut
from mainspring.ports.executor import OpenLog
from mainspring.signals import find_attempt

_HALF = OUTPUT_LIMIT // 2


class Kept:
    """The output of one attempt, in bounded memory: its begin, and its end.

    Args:
        live: takes all of it, too, to send it while the attempt runs; None if nobody does.
    """

    __slots__ = ("_dropped", "_head", "_head_size", "_live", "_lock", "_tail", "_tail_size")

    def __init__(self, live: OpenLog | None = None) -> None:
        self._live = live
        self._lock = threading.Lock()  # a function may print from several threads
        self._head: list[str] = []
        self._head_size = 0
        self._tail: list[str] = []
        self._tail_size = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Take text in."""
        if self._live is not None:
            self._live.write(text)
        with self._lock:
            room = _HALF - self._head_size
            if room > 0:
                self._head.append(text[:room])
                self._head_size += len(self._head[-1])
                text = text[room:]
            if text:
                self._tail.append(text)
                self._tail_size += len(text)
                if self._tail_size > 2 * _HALF:
                    self._shorten()

    def skip(self, count: int) -> None:
        """Note that so many characters were left out before what is written next."""
        with self._lock:
            self._dropped += count

    def _shorten(self) -> None:
        tail = "".join(self._tail)
        self._dropped += len(tail) - _HALF
        self._tail = [tail[-_HALF:]]
        self._tail_size = _HALF

    def read(self, limit: int = OUTPUT_LIMIT) -> str:
        """Return what was kept, at most about `limit` characters, with a mark where something was left out."""
        half = limit // 2
        with self._lock:
            head, tail = "".join(self._head), "".join(self._tail)
            if not self._dropped and len(head) + len(tail) <= limit:
                return head + tail
            dropped = self._dropped + max(len(head) - half, 0) + max(len(tail) - half, 0)
            return join_cut(head[:half], tail[-half:], dropped, "characters")


_of_batch: ContextVar[Kept | None] = ContextVar("mainspring_output_of_batch", default=None)


def enter_batch() -> Kept:
    """Keep what is written in the current context, for a call of many attempts."""
    kept = Kept()
    _of_batch.set(kept)
    return kept


def _find() -> Kept | None:
    """Return where the output of the running code is kept; None outside an attempt."""
    attempt = find_attempt()
    if attempt is None:
        return _of_batch.get()
    kept: Kept | None = attempt.kept
    if kept is None:
        kept = attempt.kept = Kept(attempt.open_log())  # type: ignore[misc]
    return kept


class _Bytes(io.BufferedIOBase):
    """The binary side of a stream."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Pass bytes on, and keep them as text."""
        view = bytes(data)
        kept = _find()
        if kept is not None:
            kept.write(view.decode("utf-8", "replace"))
        self._stream.flush()
        target = self._stream.target
        written: int = target.buffer.write(view)
        target.buffer.flush()
        return written

    def flush(self) -> None:
        """Flush the real stream."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor of the real stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Say whether the real stream is a terminal."""
        return self._stream.isatty()

    def close(self) -> None:
        """Do nothing: the process needs the stream."""


class OutputStream(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr`.

    Attributes:
        target: the real stream.
    """

    def __init__(self, target: TextIO) -> None:
        self.target = target
        self._bytes = _Bytes(self)

    @property
    def buffer(self) -> _Bytes:
        """The binary side."""
        return self._bytes

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the real stream."""
        return self.target.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """That of the real stream."""
        return self.target.errors

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str, /) -> int:
        """Pass text on, and keep it if it is an attempt's."""
        kept = _find()
        if kept is not None:
            kept.write(text)
        try:
            return self.target.write(text)
        except (BrokenPipeError, ValueError):
            if kept is None:
                raise
            return len(text)  # nobody reads the stream any more, which is no failure of the job

    def writelines(self, lines: Iterable[str], /) -> None:  # type: ignore[override]
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the real stream."""
        try:
            self.target.flush()
        except (BrokenPipeError, ValueError):
            if _find() is None:
                raise

    def fileno(self) -> int:
        """Return the descriptor of the real stream: what is written there directly is not kept."""
        return self.target.fileno()

    def isatty(self) -> bool:
        """Say whether the real stream is a terminal."""
        return self.target.isatty()

    def close(self) -> None:
        """Do nothing: the process needs the stream."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)


class _Installed:
    """How often the streams were asked for, and what they stand for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.streams: dict[str, OutputStream] = {}


_installed = _Installed()
_NAMES = ("stdout", "stderr")


def install() -> None:
    """Have output kept from now on. Each call needs one of `uninstall`."""
    with _installed.lock:
        _installed.users += 1
        if _installed.users > 1:
            return
        for name in _NAMES:
            real = getattr(sys, name)
            if real is None:  # a process without a console
                continue
            stream = OutputStream(real)
            _installed.streams[name] = stream
            setattr(sys, name, stream)
            _redirect(real, stream)


def uninstall() -> None:
    """Put the real streams back, once nobody needs the others any more."""
    with _installed.lock:
        _installed.users -= 1
        if _installed.users:
            return
        for name, stream in _installed.streams.items():
            if getattr(sys, name) is stream:  # else someone has put another one there since
                setattr(sys, name, stream.target)
            _redirect(stream, stream.target)
        _installed.streams.clear()


def _redirect(old: Any, new: Any) -> None:
    """Have the handlers of `logging` that write to a stream write to another one."""
    for handler in _handlers():
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)


def _handlers() -> Iterator[logging.Handler]:
    yield from logging.root.handlers
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers
