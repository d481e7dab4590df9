"""Which server is the right one after a failover, and what the failover has cost (ADR 0014).

PostgreSQL counts promotions: each begins a new timeline. A process remembers the newest that it has seen, and refuses
every server that is behind it. What it was told lately is remembered as well, so that it can say after a promotion
what is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mainspring.errors import StoreUnavailable
from mainspring.ports.store.runs import SubmitResult, SubmitStatus
from mainspring.ports.store.schedule import FireResult

_REMEMBERED = 50_000
"""Results that are kept, at most: what a failover has cost lies at the end."""
_LOOKS_REMEMBERED = 12
"""Looks for which results are kept: a minute, after which a run may have been purged from the history."""


class WrongServer(StoreUnavailable):
    """The server is not one to work on: a standby, one that was left behind, or of another system."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a server stands.

    Attributes:
        system: which cluster it is a copy of.
        timeline: grows with each promotion.
        position: how many bytes of WAL it has written.
        replayed: up to which position it was a standby, or recovered; None where it was neither since its start.
        seen_at: by its own clock, when it said so.
    """

    system: int
    timeline: int
    position: int
    replayed: int | None
    seen_at: datetime

    @property
    def begins_at(self) -> int:
        """Up to which position this server surely shares what the one before it had."""
        return self.position if self.replayed is None else self.replayed


@dataclass(frozen=True, slots=True)
class Failover:
    """A promotion that a process has come to know of.

    Attributes:
        before: where the former server stood at the last look.
        after: the present server.
    """

    before: Standing
    after: Standing

    @property
    def missing_wal(self) -> int:
        """How many bytes of WAL, at least, the former server had and the present one has not."""
        return max(self.before.position - self.after.begins_at, 0)


class Lineage:
    """The newest server that this process has seen."""

    def __init__(self) -> None:
        self.newest: Standing | None = None

    def admit(self, found: Standing, *, since: Standing | None) -> Failover | None:
        """Accept a server, or refuse it.

        Args:
            since: `newest` before the server was asked.

        Returns:
            What happened, where the server's history is another one than that of `since`; to one caller only.

        Raises:
            WrongServer: it was left behind by a failover, or belongs to another system.
        """
        newest = self.newest
        self.check(found)
        is_other = newest is not None and found.timeline > newest.timeline
        # A server that came back with less: it was not durable, or was restored from a copy of its disk.
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
    """What callers were told lately: runs submitted and fired.

    Noting a call costs one append of what is there anyway; nothing is looked into before there was a failover.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[datetime, Sequence[SubmitResult] | Sequence[FireResult]]] = deque()
        self._count = 0
        self._at_looks: deque[int] = deque()
        self._noted = 0
        self._dropped = 0
        self._outdated = 0  # of all that was noted: what has to be kept no longer

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the last looks had to be dropped for want of room."""
        return self._dropped <= self._outdated

    def note(self, now: datetime, results: Sequence[SubmitResult] | Sequence[FireResult]) -> None:
        """Keep the results of a call that inserted runs at `now`."""
        self._notes.append((now, results))
        self._noted += 1
        self._count += len(results)
        while self._count > _REMEMBERED:
            self._drop()

    def turn(self) -> None:
        """Forget what is older than some looks."""
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
        """Give the runs that were told of, with the instant of their creation."""
        for now, results in list(self._notes):
            for result in results:
                for run_id in _ids_of(result):
                    yield run_id, now


def _ids_of(result: SubmitResult | FireResult) -> Sequence[int]:
    if isinstance(result, FireResult):
        return result.run_ids
    # A repeated submission tells of a run that was created earlier.
    is_new = result.status is SubmitStatus.SUBMITTED
    return (result.run_id,) if is_new and result.run_id is not None else ()
