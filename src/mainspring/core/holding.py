"""Decides which waiting runs get a place under their limits. All stores ask it, within the transaction of a claim.

A place is held by what an index entry and the run's row say together, so nothing has to be given back at an end.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from mainspring.core.ids import KeyId, RunId
from mainspring.core.limits import Hold
from mainspring.core.rates import Bucket
from mainspring.core.values import value

MOST_COMPARED = 64
"""Up to this cap, entries are always compared with their runs. Above it they are only counted, which takes a twentieth
of the time, and compared once there seems to be no room."""


class LineStop(NamedTuple):
    """Why a line gave less than it could have.

    Attributes:
        key_id: the key that has no room, or that somebody else is deciding about.
        is_busy: the latter: try again soon.
        until: when it has room again, as far as that is known; None: when a run with this key ends.
    """

    key_id: KeyId
    is_busy: bool = False
    until: datetime | None = None


@value()
class Candidate:
    """A waiting run that may be started. Without keys there is room for it.

    Attributes:
        keys: what it needs places under: its own keys, then those of the caps of its lane.
        line: what it waits in, in order. Once a run of a line is stopped, those behind it wait too.
    """

    run_id: RunId
    keys: tuple[KeyId, ...]
    line: Hashable


@value(kw_only=True)
class KeyState:
    """A key as it is under its lock.

    Attributes:
        max_running: the most runs at a time; None is no cap.
        held: how many places are taken.
        holders: with `hold: run`, the runs that have them.
        under_way: how many of the holders are RUNNING. The cap may have been lowered below what is held.
        retry_at: when the first of the holders that wait is ready, if none is ready now.
        bucket: the permits; None if there is no rate.
    """

    max_running: int | None = None
    hold: Hold = Hold.ATTEMPT
    held: int = 0
    holders: Collection[RunId] = frozenset()
    under_way: int = 0
    retry_at: datetime | None = None
    bucket: Bucket | None = None

    @property
    def is_compared_at_once(self) -> bool:
        """Whether entries are compared with their runs before anything is decided."""
        return self.hold is Hold.RUN or (self.max_running is not None and self.max_running <= MOST_COMPARED)

    @property
    def is_full(self) -> bool:
        """Whether no further run has room."""
        return self.max_running is not None and self.held >= self.max_running


@dataclass(slots=True)
class KeyAdmission:
    """What was decided.

    Attributes:
        taken: the runs that start, by their places among the candidates, in order.
        holds: the places that they take: key and run.
        kept: the places that they have had since an earlier attempt. A place counts by the token of the attempt that is
            under way, so it moves on to the new one: the limit may be changed to `hold: attempt` meanwhile.
        buckets: the buckets that changed, by key.
        stopped: by line: which key stopped its first run that did not start.
    """

    taken: list[int] = field(default_factory=list)
    holds: list[tuple[KeyId, RunId]] = field(default_factory=list)
    kept: list[tuple[KeyId, RunId]] = field(default_factory=list)
    buckets: dict[KeyId, Bucket] = field(default_factory=dict)
    stopped: dict[Hashable, KeyId] = field(default_factory=dict)

    def stop_of(self, line: Hashable, keys: Mapping[KeyId, KeyState], now: datetime) -> LineStop | None:
        """Say why a line was stopped, and until when; None if it was not."""
        key_id = self.stopped.get(line)
        if key_id is None:
            return None
        state = keys.get(key_id)
        if state is None:
            return LineStop(key_id, is_busy=True)
        bucket = self.buckets.get(key_id, state.bucket)
        permit_at = None if bucket is None else bucket.at(now).next_permit_at()
        return LineStop(key_id, until=permit_at or state.retry_at)


def admit_to_keys(
    candidates: Sequence[Candidate], keys: Mapping[KeyId, KeyState], limit: int, now: datetime
) -> KeyAdmission:
    """Decide which candidates start: as many as there is room for under all their keys, in their order.

    Once a run of a line is stopped, those behind it wait too.

    Args:
        candidates: in order of preference. But runs that kept a place when their attempt ended come first: the others
            may be waiting for that place.
        keys: those that are locked. A run with another key waits: somebody else is deciding about it.
        limit: the most runs to start.
    """
    admission = KeyAdmission()
    rooms = {key_id: _Room(state, now) for key_id, state in keys.items()}
    for place in sorted(range(len(candidates)), key=lambda place: not _is_holder(candidates[place], keys)):
        candidate = candidates[place]
        if len(admission.taken) >= limit:
            break
        if candidate.line in admission.stopped:
            continue
        stop = next(
            (one for one in candidate.keys if one not in rooms or not rooms[one].fits(candidate.run_id)), None
        )
        if stop is not None:
            admission.stopped[candidate.line] = stop
            continue
        admission.taken.append(place)
        for key_id in candidate.keys:
            is_new = rooms[key_id].take(candidate.run_id)
            (admission.holds if is_new else admission.kept).append((key_id, candidate.run_id))
    admission.buckets = {
        key_id: room.bucket for key_id, room in rooms.items() if room.bucket is not None and room.taken
    }
    return admission


def _is_holder(candidate: Candidate, keys: Mapping[KeyId, KeyState]) -> bool:
    return any(key_id in keys and candidate.run_id in keys[key_id].holders for key_id in candidate.keys)


class _Room:
    """What is left of a key."""

    __slots__ = ("_free", "_holders", "_left", "bucket", "taken")

    def __init__(self, state: KeyState, now: datetime) -> None:
        self._holders = frozenset(state.holders)
        self._left = None if state.max_running is None else state.max_running - state.held
        self._free = None if state.max_running is None else state.max_running - state.under_way
        self.bucket = None if state.bucket is None else state.bucket.at(now)
        self.taken = 0

    def fits(self, run_id: RunId) -> bool:
        if self.bucket is not None and self.bucket.permits < 1:
            return False
        if self._left is None or self._free is None:
            return True
        return self._free > 0 and (self._left > 0 or run_id in self._holders)

    def take(self, run_id: RunId) -> bool:
        """Let a run start. Return whether it needs a new place."""
        self.taken += 1
        if self.bucket is not None:
            self.bucket = self.bucket.take(1)
        if self._free is not None:
            self._free -= 1
        if run_id in self._holders:
            return False
        if self._left is not None:
            self._left -= 1
        return True
