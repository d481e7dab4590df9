"""The SDK's event loop in its own thread. Calls run there, so callers may have an event loop or not."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
_PATIENCE = 5.0


class Portal:
    """Runs coroutines on its own loop. The thread starts with the first one.

    A forked process gets its own loop.

    Args:
        on_close: called on that loop before it ends.
        patience: how many seconds `close` waits for that.
        name: the name of the thread.
    """

    def __init__(
        self, on_close: Work[None], *, patience: float = _PATIENCE, name: str = "mainspring-sdk"
    ) -> None:
        self._on_close = on_close
        self._patience = patience
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def call(self, work: Work[T]) -> T:
        """Run work on the loop while the calling thread waits."""
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the wait was interrupted; if the work has ended, this has no effect
            raise

    async def call_async(self, work: Work[T]) -> T:
        """Run work on the loop while the calling task waits. Cancelling the task cancels the work."""
        return await asyncio.wrap_future(self._submit(work))

    def close(self) -> None:
        """End the loop and its thread. A later call starts new ones."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        closing = asyncio.run_coroutine_threadsafe(self._on_close(), loop)
        with contextlib.suppress(Exception):
            closing.result(self._patience)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        atexit.unregister(self.close)

    def _submit(self, work: Work[T]) -> Future[T]:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = self._start()
            return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=_run, args=(loop,), name=self._name, daemon=True)
        self._thread.start()
        atexit.register(self.close)
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
