"""Maps: steps that run once for each of many items. A flow keeps how many, never the items.

Items start in their order, and end in any. Which of them have ended is kept as a lowest item that has not, and a bit
for each from there on. So mail that comes again counts once, and the state stays small however many items there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.workflows.taken import has_item

MOST_ITEMS = 10_000
"""Items of a map, unless a server says otherwise."""


@value(kw_only=True)
class StepMap:
    """For which items a step runs.

    Attributes:
        over: the items, as JSON texts in UTF-8; or an expression that makes a list of them.
        max_parallel: how many of its runs are live at once, at most; None is no limit.
        tolerate: how many items may fail without making the step fail: a number, or from 0.0 to 1.0 a part of all.
    """

    over: tuple[bytes, ...] | str
    max_parallel: int | None = None
    tolerate: int | float = 0


@value()
class MapState:
    """How far a map has come.

    Attributes:
        count: of its items.
        started: how many items have a run: those below it.
        succeeded, failed, skipped: how many of these have ended so. Cancelled ones have failed.
        floor: the lowest item that has not ended.
        ended: which items from `floor` on have ended: a bit for each, the lowest first.
    """

    count: int
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    floor: int = 0
    ended: bytes = b""

    @classmethod
    def restore(
        cls, count: int, started: int, succeeded: int, failed: int, skipped: int, floor: int, ended: bytes
    ) -> MapState:
        """Return the state that these kept parts are.

        Raises:
            ValueError: they are none.
        """
        state = cls(count, started, succeeded, failed, skipped, floor, ended)
        bits = int.from_bytes(ended, "little")
        told = succeeded + failed + skipped
        if min(succeeded, failed, skipped, floor) < 0 or told != floor + bits.bit_count() or bits & 1:
            raise ValueError("its counters do not fit the items that have ended")
        if not floor + bits.bit_length() <= started <= count:
            raise ValueError("items have ended that did not start")
        return state

    @property
    def live(self) -> int:
        """How many runs have not ended."""
        return self.started - self.succeeded - self.failed - self.skipped

    def take_ends(self, ends: Iterable[tuple[int, RunState]]) -> MapState:
        """Return it with the ends of these items. Those that are known, or did not start, change nothing."""
        bits, floor = int.from_bytes(self.ended, "little"), self.floor
        counts = {
            RunState.SUCCEEDED: self.succeeded,
            RunState.FAILED: self.failed,
            RunState.SKIPPED: self.skipped,
        }
        for item, state in ends:
            if floor <= item < self.started and not bits >> (item - floor) & 1:
                bits |= 1 << (item - floor)
                counts[RunState.FAILED if state is RunState.CANCELLED else state] += 1
        ended_below = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ended_below
        return MapState(
            self.count,
            self.started,
            counts[RunState.SUCCEEDED],
            counts[RunState.FAILED],
            counts[RunState.SKIPPED],
            floor + ended_below,
            bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
        )

    def start(self, how_many: int) -> MapState:
        """Return it with so many more items started."""
        return MapState(
            self.count,
            self.started + how_many,
            self.succeeded,
            self.failed,
            self.skipped,
            self.floor,
            self.ended,
        )

    def start_around(self, how_many: int, taken: bytes) -> tuple[MapState, list[int]]:
        """Return it with so many more items started, and these. Those that it comes to and are taken over succeed.

        Args:
            taken: as `core.workflows.taken` packs items.
        """
        items: list[int] = []
        passed: list[tuple[int, RunState]] = []
        item = self.started
        while item < self.count:
            if has_item(taken, item):
                passed.append((item, RunState.SUCCEEDED))
            elif len(items) < how_many:
                items.append(item)
            else:
                break
            item += 1
        return self.start(item - self.started).take_ends(passed), items


def is_exceeded(own: StepMap, state: MapState) -> bool:
    """Say whether more items have failed than may."""
    return state.failed > most_failures(own, state.count)


def most_failures(own: StepMap, count: int) -> int:
    """Return how many of so many items may fail."""
    return int(count * own.tolerate + _ROUNDING) if isinstance(own.tolerate, float) else own.tolerate


_ROUNDING = 1e-9
"""So that 0.29 of 100 is 29."""


def count_startable(own: StepMap, state: MapState) -> int:
    """Return how many items may start now."""
    if is_exceeded(own, state):
        return 0
    left = state.count - state.started
    return left if own.max_parallel is None else min(left, own.max_parallel - state.live)
