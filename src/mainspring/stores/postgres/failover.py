"""Finds out which server is the right one after a failover, and what the failover has lost (ADR 0014).

PostgreSQL counts promotions: each begins a new timeline. A process remembers the newest timeline that it has seen,
and refuses every server that is behind it. It also remembers which runs were acknowledged lately, so that after a
promotion it can report which are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.values import value
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.events import EventResult
from mainspring.ports.store.runs import SubmitResult
from mainspring.ports.store.schedule import FireResult

_REMEMBERED = 50_000
"""The most results that are kept. What a failover loses is among the last."""
_LOOKS_REMEMBERED = 12
"""For how many checks results are kept: one minute. After that, a run may have been purged from the history."""


class WrongServer(StoreUnavailable):
    """The server must not be used: it is a standby, was left behind by a failover, or belongs to another system."""


@value()
class Standing:
    """The timeline and position of a server.

    Attributes:
        system: the identifier of the PostgreSQL cluster that it is a copy of.
        timeline: grows with each promotion.
        position: how much WAL it has written, in bytes.
        replayed: the position up to which it replayed WAL, as a standby or in recovery; None if it did neither since
            its start.
        seen_at: when it reported this, by its own clock.
    """

    system: int
    timeline: int
    position: int
    replayed: int | None
    seen_at: datetime

    @property
    def begins_at(self) -> int:
        """The position up to which this server surely has the same WAL as the one before it."""
        return self.position if self.replayed is None else self.replayed


@value()
class Failover:
    """A promotion that a process has noticed.

    Attributes:
        before: the old server at the last check.
        after: the new server.
    """

    before: Standing
    after: Standing

    @property
    def missing_wal(self) -> int:
        """How many bytes of WAL, at least, the old server had and the new one lacks."""
        return max(self.before.position - self.after.begins_at, 0)


class Lineage:
    """The newest server that this process has seen."""

    def __init__(self) -> None:
        self.newest: Standing | None = None

    def admit(self, found: Standing, *, since: Standing | None) -> Failover | None:
        """Accept a server, or refuse it.

        Args:
            since: the value of `newest` before the server was asked.

        Returns:
            The failover, if the server's history differs from that of `since`. Only one caller gets it.

        Raises:
            WrongServer: it was left behind by a failover, or belongs to another system.
        """
        newest = self.newest
        self.check(found)
        is_other = newest is not None and found.timeline > newest.timeline
        # A server that came back with less was not durable, or was restored from a copy of its disk.
        went_back = newest is not None and since is newest and found.position < newest.position
        if newest is None or is_other or went_back or found.position > newest.position:
            self.newest = found
        return Failover(newest, found) if newest is not None and (is_other or went_back) else None

    def check(self, found: Standing) -> None:
        """Refuse a server that is not of the newest timeline seen.

        Raises:
            WrongServer: it was left behind by a failover, or belongs to another system.
        """
        newest = self.newest
        if newest is None:
            return
        if found.system != newest.system:
            raise WrongServer(
                f"the server belongs to another PostgreSQL system ({found.system}, not {newest.system}); if that is"
                " meant, restart this process"
            )
        if found.timeline < newest.timeline:
            raise WrongServer(
                f"the server was left behind by a failover: it is on timeline {found.timeline}, and timeline"
                f" {newest.timeline} was seen; stop it, or make it a standby"
            )


class Recent:
    """The runs that were acknowledged lately, submitted or fired.

    Noting a call costs only one append of results that exist anyway. They are read only after a failover.
    """

    def __init__(self) -> None:
        self._notes: deque[
            tuple[datetime, Sequence[SubmitResult] | Sequence[FireResult] | Sequence[EventResult]]
        ] = deque()
        self._count = 0
        self._at_looks: deque[int] = deque()
        self._noted = 0
        self._dropped = 0
        self._outdated = 0  # of all that was noted: how much need no longer be kept

    @property
    def is_complete(self) -> bool:
        """Whether everything since the oldest of the last checks is kept: nothing was dropped for lack of room."""
        return self._dropped <= self._outdated

    def note(
        self, now: datetime, results: Sequence[SubmitResult] | Sequence[FireResult] | Sequence[EventResult]
    ) -> None:
        """Remember the results of a call that inserted runs at `now`."""
        self._notes.append((now, results))
        self._noted += 1
        self._count += len(results)
        while self._count > _REMEMBERED:
            self._drop()

    def turn(self) -> None:
        """Count a check, and forget what is older than the last few checks."""
        self._at_looks.append(self._noted)
        if len(self._at_looks) > _LOOKS_REMEMBERED:
            self._outdated = self._at_looks.popleft()
            while self._dropped < self._outdated:
                self._drop()

    def _drop(self) -> None:
        _, results = self._notes.popleft()
        self._dropped += 1
        self._count -= len(results)

    def told(self) -> Iterator[tuple[int, datetime]]:
        """Yield the remembered runs, each with the instant of its creation."""
        for now, results in list(self._notes):
            for result in results:
                for run_id in _ids_of(result):
                    yield run_id, now


def _ids_of(result: SubmitResult | FireResult | EventResult) -> Sequence[int]:
    if isinstance(result, FireResult | EventResult):
        return result.run_ids
    # A repeated submission names a run that was created earlier.
    is_new = result.status is SubmissionVerdict.SUBMITTED
    return (result.run_id,) if is_new and result.run_id is not None else ()
