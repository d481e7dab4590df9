"""Sends what attempts write while they run, so that it can be followed, and outlasts a worker that is killed.

An attempt that ends within the first period sends nothing: its report has its output. The others send parts, once a
period, or sooner if they write much.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import structlog

from mainspring.core.ids import SessionId
from mainspring.core.log_cut import LogCut
from mainspring.core.run_logs import PIECE, LogPart, RunProgress, deflate, strip_controls
from mainspring.ports.clock import Waiter
from mainspring.ports.executor import AttemptContext
from mainspring.ports.gateway import LogReport, LogResult, WorkerGateway
from mainspring.worker.leases import LeaseKey
from mainspring.worker.outages import OUTAGES, log_failure

_log = structlog.get_logger(__name__)
_MOST_UNCUT = 16 * PIECE
_MOST_PARTS = 8
"""Parts of an attempt in one report: not compressed at all, they still fit in a request."""
_MUCH = 4 * PIECE
"""Bytes that are compressed in a thread, and not on the loop."""
_AWAKE_TICKS = 20
"""Half periods without any output after which the loop sleeps until there is some."""
_LONG = 3600.0
_LAST_SECONDS = 5.0
"""How long the report of an attempt waits for its last output, at most."""


class LiveLog:
    """The output of one attempt on its way. Its job may write from any thread.

    Attributes:
        session_id: the session that holds the lease.
        due_at: when it is sent next, in monotonic seconds; None until the loop has seen it.
        has_sent: whether anything of it was sent, or is being sent.
        is_refused: whether nobody takes any of it.
    """

    def __init__(self, key: LeaseKey, session_id: SessionId, limit: int, hurry: Callable[[], object]) -> None:
        self.key: LeaseKey = key
        self.session_id: SessionId = session_id
        self.due_at: float | None = None
        self.has_sent: bool = False
        self.is_refused: bool = False
        self._hurry = hurry
        self._lock = threading.Lock()
        self._cut = LogCut(limit)
        self._texts: list[str] = []
        self._size = 0
        self._progress: RunProgress | None = None
        self._ready: deque[tuple[int, bytes]] = deque()  # does not fit in what was taken
        self._forget: tuple[int, int] | None = None
        self._waiting: LogReport | None = None  # was taken, and not answered yet

    @property
    def is_full(self) -> bool:
        """Whether so much was written that it is not to wait any longer."""
        return self._size >= PIECE or bool(self._ready)

    @property
    def has_more(self) -> bool:
        """Whether what was taken last was answered, and there is more to send."""
        return bool(self._ready) and self._waiting is None

    @property
    def size(self) -> int:
        """How many characters wait."""
        return self._size

    def write(self, text: str) -> None:
        """Take in what the attempt has written."""
        if self.is_refused:
            return
        with self._lock:
            before, self._size = self._size, self._size + len(text)
            self._texts.append(text)
            if self._size > _MOST_UNCUT:
                self._digest()
        if before < PIECE <= before + len(text):
            self._hurry()

    def skip(self, count: int) -> None:
        """Note bytes that were written and are gone."""
        with self._lock:
            self._digest()
            self._cut.skip(count)

    def tell(self, progress: RunProgress) -> None:
        """Note how far the attempt says it is."""
        self._progress = progress

    def _digest(self) -> None:
        text, self._texts, self._size = "".join(self._texts), [], 0
        self._cut.add(strip_controls(text).encode("utf-8", "replace"))

    def take(self) -> LogReport | None:
        """Return what to send: first what was not answered, then what is new; None if there is nothing."""
        if self._waiting is not None:
            return self._waiting
        if not self._ready:
            with self._lock:
                self._digest()
                taken = self._cut.take()
            self._ready.extend(taken.pieces)
            self._forget = taken.forget
        progress, self._progress = self._progress, None
        if not self._ready and progress is None:
            return None
        pieces = [self._ready.popleft() for _ in range(min(len(self._ready), _MOST_PARTS))]
        parts = tuple(LogPart(start, len(data), deflate(data)) for start, data in pieces)
        forget = None if self._ready else self._forget  # once what takes its place is there
        self._waiting = LogReport(*self.key, parts, forget, progress)
        self.has_sent = True
        return self._waiting

    def settle(self, result: LogResult) -> None:
        """Note how what was taken was answered."""
        self._waiting = None
        if result is not LogResult.KEPT:
            self.refuse()

    def refuse(self) -> None:
        """Keep nothing more: nobody takes it."""
        self.is_refused = True
        self._waiting = None
        with self._lock:
            self._texts, self._size, self._cut = [], 0, LogCut(0)
        self._ready.clear()


class LogShipper:
    """The loop that sends what attempts write.

    Args:
        period: the seconds between two parts of an attempt that writes little.
        limit: the most bytes that are kept of an attempt; see `core.log_cut`.
        monotonic: the worker's monotonic clock.

    Attributes:
        limit: the same.
        open_logs: the attempts that have written something, until their reports.
        refused: attempts of which the server takes no output any more, because their leases are lost.
    """

    def __init__(
        self,
        gateway: WorkerGateway,
        *,
        period: float,
        limit: int,
        waiter: Waiter,
        monotonic: Callable[[], float],
    ) -> None:
        self._gateway = gateway
        self._period = period
        self.limit: int = limit
        self.refused: int = 0
        self._waiter = waiter
        self._monotonic = monotonic
        self.open_logs: dict[LeaseKey, LiveLog] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending = asyncio.Lock()
        self._is_awake = False
        self._is_stopping = False

    def open(self, context: AttemptContext) -> LiveLog:
        """Return where an attempt's output goes. Its job may ask from any thread."""
        key = (context.run_id, context.token)
        log = self.open_logs.setdefault(key, LiveLog(key, context.session_id, self.limit, self._wake))
        if not self._is_awake:
            self._is_awake = True
            self._wake()
        return log

    def _wake(self) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._waiter.signal)
            except RuntimeError:  # the worker's loop is closed
                self._is_awake = False

    def forget(self, key: LeaseKey) -> None:
        """Drop the output of an attempt whose lease is lost."""
        self.open_logs.pop(key, None)

    def end(self, key: LeaseKey) -> None:
        """Note that an attempt has ended. If nothing of it was sent, its report has all."""
        log = self.open_logs.get(key)
        if log is not None and (log.is_refused or not log.has_sent):
            del self.open_logs[key]

    def stop(self) -> None:
        """Make the loop end."""
        self._is_stopping = True
        self._waiter.signal()

    async def run(self) -> None:
        """Send until `stop`."""
        self._loop = asyncio.get_running_loop()
        ticks = 0
        while not self._is_stopping:
            has_more = False
            if self.open_logs:
                ticks = 0
                has_more = await self._send_due(self._monotonic())
            elif ticks >= _AWAKE_TICKS or not self._is_awake:
                self._is_awake = False
                if not self.open_logs:  # an attempt may have opened one right before
                    await self._waiter.wait(_LONG)
                ticks = 0
                continue
            await self._waiter.wait(0.0 if has_more else self._period / 2)
            ticks += 1

    async def _send_due(self, now: float) -> bool:
        """Send what is due. Return whether there is more that need not wait."""
        due = []
        for log in list(self.open_logs.values()):
            if log.due_at is None:
                log.due_at = now + self._period / 2
            if not log.is_refused and (log.is_full or now >= log.due_at):
                log.due_at = now + self._period
                due.append(log)
        if due:
            async with self._sending:
                await self._send(due)
        return any(log.has_more for log in due)

    async def finish(self, keys: Iterable[LeaseKey]) -> None:
        """Send the last output of attempts that have ended and are about to be reported."""
        if not self.open_logs:
            return
        logs = [self.open_logs[key] for key in keys if key in self.open_logs]
        if not logs:
            return
        try:
            async with asyncio.timeout(_LAST_SECONDS), self._sending:
                left = [log for log in logs if not log.is_refused]
                while left:
                    await self._send(left)
                    left = [log for log in left if log.has_more and not log.is_refused]
        except TimeoutError:
            _log.warning("last_output_not_sent", attempts=len(logs))
        for log in logs:
            self.open_logs.pop(log.key, None)

    async def _send(self, logs: Sequence[LiveLog]) -> None:
        """Send what there is of these attempts."""
        if sum(log.size for log in logs) > _MUCH:
            taken = await asyncio.to_thread(lambda: [log.take() for log in logs])
        else:
            taken = [log.take() for log in logs]
        by_session: dict[SessionId, list[tuple[LiveLog, LogReport]]] = {}
        for log, report in zip(logs, taken, strict=True):
            if report is not None:
                by_session.setdefault(log.session_id, []).append((log, report))
        for session_id, pairs in by_session.items():
            await self._send_for(session_id, pairs)

    async def _send_for(self, session_id: SessionId, pairs: Sequence[tuple[LiveLog, LogReport]]) -> None:
        try:
            results = await self._gateway.log(session_id, tuple(report for _, report in pairs))
            if len(results) != len(pairs):
                raise RuntimeError(f"{len(pairs)} log reports gave {len(results)} results")
        except OUTAGES as error:
            log_failure("output_not_sent", error, attempts=len(pairs))  # it is sent again
            return
        except Exception as error:  # noqa: BLE001 - a worker survives whatever the answer is
            log_failure("output_refused", error, attempts=len(pairs))
            for log, _ in pairs:
                log.refuse()
            return
        for (log, _), result in zip(pairs, results, strict=True):
            log.settle(result)
            self.refused += result is LogResult.STALE
