"""Waits."""

from __future__ import annotations

import asyncio


async def pause(seconds: float) -> None:
    """Wait so long on the clock of the running loop."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()
