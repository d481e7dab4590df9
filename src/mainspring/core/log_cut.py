"""Cuts what an attempt writes to a bounded size; see `core.run_logs`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mainspring.core.run_logs import PIECE, TAIL
from mainspring.core.values import value


@value()
class Taken:
    """What there is to keep of an output since the last time.

    Attributes:
        forget: the places from and to which what was kept is not kept any longer; None if all of it stays.
    """

    pieces: tuple[tuple[int, bytes], ...]
    forget: tuple[int, int] | None = None


NOTHING_TAKEN = Taken(())


class LogCut:
    """Cuts what an attempt writes: the first half of the limit is kept, and of all after it the newest 64 KiB.

    Args:
        limit: the most bytes that are kept of an attempt, but for those newest ones.

    Attributes:
        end: how many bytes were written.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._first: list[tuple[int, bytes]] = []
        self._newest: deque[tuple[int, bytes]] = deque()
        self._newest_size = 0
        self._kept: deque[tuple[int, int]] = (
            deque()
        )  # of the newest: places and ends of what was taken before
        self._is_full = False
        self._first_end = 0
        self.end: int = 0

    def add(self, data: bytes) -> None:
        """Take in what was written."""
        if not self._is_full:
            room = self._half - self.end
            head = data if len(data) <= room else data[: _whole(data, room)]
            if head:
                self._first.append((self.end, head))
                self.end += len(head)
                data = data[len(head) :]
            if data:
                self._is_full, self._first_end = True, self.end
        if data:
            self._newest.append((self.end, data))
            self._newest_size += len(data)
            self.end += len(data)
            self._shorten()

    def skip(self, count: int) -> None:
        """Note that bytes were written that nobody has."""
        if count > 0:
            self.end += count
            if not self._is_full and self.end >= self._half:
                self._is_full, self._first_end = True, self.end

    def _shorten(self) -> None:
        while self._newest and self._newest_size - len(self._newest[0][1]) >= TAIL:
            self._newest_size -= len(self._newest.popleft()[1])
        if self._newest_size > TAIL:
            start, data = self._newest[0]
            cut = self._newest_size - TAIL
            while cut < len(data) and data[cut] & 0xC0 == 0x80:  # not within a character
                cut += 1
            self._newest[0] = start + cut, data[cut:]
            self._newest_size -= cut

    def take(self) -> Taken:
        """Return what is new, in parts, and what need not be kept any longer because of it."""
        if not self._first and not self._newest:
            return NOTHING_TAKEN
        pieces = [*_pieces_of(self._first), *_pieces_of(self._newest)]
        newest = [(start, start + len(data)) for start, data in pieces if self._is_newest(start)]
        self._first, self._newest, self._newest_size = [], deque(), 0
        forget_from = self._kept[0][0] if self._kept else None
        while self._kept and self._kept[0][1] <= self.end - TAIL:
            self._kept.popleft()
        self._kept.extend(newest)
        forget_to = self._kept[0][0] if self._kept else None
        if forget_from is None or forget_to is None or forget_from == forget_to:
            return Taken(tuple(pieces))
        return Taken(tuple(pieces), (forget_from, forget_to))

    def _is_newest(self, start: int) -> bool:
        return self._is_full and start >= self._first_end


def _whole(data: bytes, size: int) -> int:
    """Return the largest size up to this one that ends with a whole character."""
    size = max(size, 0)
    while size and data[size] & 0xC0 == 0x80:
        size -= 1
    return size


def _pieces_of(written: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join what follows each other, and cut it into parts."""
    joined: list[tuple[int, list[bytes], int]] = []
    for start, data in written:
        if joined and joined[-1][2] == start:
            place, parts, _ = joined[-1]
            parts.append(data)
            joined[-1] = place, parts, start + len(data)
        else:
            joined.append((start, [data], start + len(data)))
    pieces = []
    for start, parts, _ in joined:
        place, data = start, b"".join(parts)
        while data:
            size = len(data) if len(data) <= PIECE else _whole(data, PIECE)
            pieces.append((place, data[:size]))
            place, data = place + size, data[size:]
    return pieces
