"""What a worker knows about its session: the id, the beat period, and when the session was last confirmed."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.ids import SessionId
from mainspring.core.liveness import PERIODS_OF_SILENCE
from mainspring.ports.gateway import Session

_FIRST_PERIOD = 10.0


class WorkerSession:
    """The session, as state that the worker's loops share.

    The heartbeat opens, confirms and closes it. Claiming counts the answers.

    Args:
        monotonic: this process's monotonic clock, in seconds.

    Attributes:
        id: the open session; None while there is none.
        beat_period: seconds between two heartbeats.
        answered: the number of the last claim whose answer has arrived; 0 before the first.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.id: SessionId | None = None
        self.beat_period: float = _FIRST_PERIOD
        self.answered: int = 0
        self._monotonic = monotonic
        self._confirmed_at = 0.0

    def open(self, session: Session, *, asked_at: float) -> None:
        """Store a session that was granted to a request sent at `asked_at` (monotonic seconds)."""
        self.id = session.id
        self.beat_period = session.beat_period.total_seconds()
        self.answered = 0
        self._confirmed_at = asked_at

    def confirm(self, *, asked_at: float) -> None:
        """Note that a heartbeat sent at `asked_at` (monotonic seconds) found the session alive."""
        self._confirmed_at = asked_at

    def close(self) -> None:
        """Forget the session: it is dead, or the worker has left."""
        self.id = None

    def may_be_lost(self) -> bool:
        """Return whether this process was silent for so long that it may have been declared dead.

        After the whole process was paused (a suspended host, SIGSTOP), an answer that was waiting to be read must not
        start work that another worker has got in the meantime. No judge decides sooner than this method, because it
        counts the silence from the moment when the last confirmed heartbeat was sent.
        """
        return self._monotonic() - self._confirmed_at >= PERIODS_OF_SILENCE * self.beat_period

    def is_surely_live(self) -> bool:
        """Return the opposite. Any thread may ask."""
        return not self.may_be_lost()

    def now(self) -> float:
        """Return this process's monotonic clock in seconds."""
        return self._monotonic()
