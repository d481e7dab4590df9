"""Spans on their way out of the process: a bounded queue, of which a thread takes what it can send."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

from mainspring.core.tracing import make_trace, with_span
from mainspring.ports.telemetry import Measure
from mainspring.ports.tracing import Span

MOST_QUEUED = 2048
"""Spans that wait, at most; what comes after them is dropped."""
MOST_SENT = 512
"""Spans of one request, at most."""


class SpanQueue:
    """Spans that wait to be sent. Any thread may put some in; one takes them out.

    Attributes:
        goal: set while there are enough for a request.
    """

    def __init__(self) -> None:
        self._spans: deque[object] = deque()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("sent", "dropped", "failed"), 0)
        self.goal: threading.Event = threading.Event()

    def measures(self) -> Iterator[Measure]:
        """Yield what became of spans."""
        for outcome, count in self._counts.items():
            yield Measure("spans_total", count, (outcome,))

    def put(self, span: object) -> None:
        """Add a span, or drop it if too many wait."""
        with self._lock:
            if len(self._spans) >= MOST_QUEUED:
                self._counts["dropped"] += 1
                return
            self._spans.append(span)
            is_enough = len(self._spans) >= MOST_SENT
        if is_enough:
            self.goal.set()

    def take(self) -> list[object]:
        """Return what the next request is to have, the oldest first."""
        with self._lock:
            return [self._spans.popleft() for _ in range(min(len(self._spans), MOST_SENT))]

    def note(self, outcome: str, count: int) -> None:
        """Count what became of spans that were taken: `sent` or `failed`."""
        with self._lock:
            self._counts[outcome] += count

    def drop_all(self) -> None:
        """Give up what still waits."""
        with self._lock:
            self._counts["dropped"] += len(self._spans)
            self._spans.clear()


class QueueTracer:
    """Makes ids at random, and puts spans into a queue.

    Args:
        random: returns so many random bytes.
        time: returns the host's time, in nanoseconds since 1970.
    """

    def __init__(self, queue: SpanQueue, *, random: Callable[[int], bytes], time: Callable[[], int]) -> None:
        self._queue = queue
        self._random = random
        self._time = time

    def new_trace(self) -> bytes:
        """See `Tracer`."""
        return make_trace(self._random(16), self._random(8))

    def new_span(self, trace: bytes) -> bytes:
        """See `Tracer`."""
        return with_span(trace, self._random(8))

    def now(self) -> int:
        """See `Tracer`."""
        return self._time()

    def record(self, span: Span) -> None:
        """See `Tracer`."""
        self._queue.put(span)
