"""A screen that is drawn again and again, and the keys that are pressed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Sequence

_ENTER = "\x1b[?1049h\x1b[?25l"
"""The other page of the terminal, without a cursor: what was on the terminal is there again afterwards."""
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class LiveScreen:
    """A terminal whose whole page is drawn.

    Attributes:
        keys: the keys that were pressed. A change of the size counts as an empty one.
    """

    def __init__(self) -> None:
        self.keys: asyncio.Queue[str] = asyncio.Queue()

    def draw(self, lines: Sequence[str]) -> None:
        """Draw over what was there before, without a flicker."""
        text = "\r\n".join(f"{line}{_CLEAR_LINE}" for line in lines)
        sys.stdout.write(f"{_HOME}{text}{_CLEAR_BELOW}")
        sys.stdout.flush()

    async def key(self, seconds: float) -> str | None:
        """Wait for a key; None if none was pressed in time."""
        try:
            return await asyncio.wait_for(self.keys.get(), seconds)
        except TimeoutError:
            return None

    def read(self) -> None:
        """Take what was typed. A terminal that is gone counts as the key to quit."""
        try:
            typed = os.read(sys.stdin.fileno(), 64)
        except OSError:
            typed = b""
        for letter in typed.decode(errors="replace") or "q":
            self.keys.put_nowait(letter)


@contextlib.asynccontextmanager
async def live_screen() -> AsyncIterator[LiveScreen]:
    """Take the terminal until the block ends, however it ends."""
    screen, loop = LiveScreen(), asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, screen.read)
        loop.add_signal_handler(signal.SIGWINCH, screen.keys.put_nowait, "")
        loop.add_signal_handler(signal.SIGTERM, screen.keys.put_nowait, "q")
        sys.stdout.write(_ENTER)
        yield screen
    finally:
        loop.remove_reader(descriptor)
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGTERM)
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
