"""What a run writes while it runs: how it is cut to a bounded size, and read again from the parts that were kept.

The output of an attempt is one text in UTF-8. Every part of it is named by its place: the number of bytes before it.
What is left out shows as a gap between two places.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable

from mainspring.core.fields import kind
from mainspring.core.text import storable
from mainspring.core.values import value
from mainspring.errors import InvalidInput

PIECE = 64 * 1024
"""The most bytes of one part, before it is compressed."""
_MOST_DEFLATED = PIECE + 1024
"""The most bytes of a part that is compressed: noise grows by some."""
TAIL = 64 * 1024
"""How many of the newest bytes are kept of an output that is longer than its limit."""
MOST_PLACE = 2**53
"""The largest place: the largest whole number that every JSON reader takes."""
MAX_MESSAGE = 200
"""The most characters of a message beside a progress."""
HIDDEN_PART = "[a part that cannot be decrypted]\n"

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors, and moves of the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@value()
class LogPart:
    """A part of what an attempt wrote.

    Attributes:
        start: its place.
        size: how many bytes it has.
        data: its bytes, deflated; empty if they cannot be decrypted.
    """

    start: int
    size: int
    data: bytes

    @property
    def end(self) -> int:
        """The place after it."""
        return self.start + self.size


@value()
class RunProgress:
    """How far an attempt says it is.

    Attributes:
        total: None if it does not know how much there is to do.
    """

    done: float
    total: float | None = None
    message: str | None = None


@value()
class LogText:
    """What a reader gets of an attempt's output.

    Attributes:
        start: the place of its first byte, or of what was left out there.
        end: the place after it, from which a reader goes on.
    """

    text: str
    start: int
    end: int


def strip_controls(text: str) -> str:
    """Return a text without the codes that steer a terminal. Each line ends with a line feed."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def make_progress(done: object, total: object = None, message: object = None) -> RunProgress:
    """Check what a job says of its progress.

    Raises:
        InvalidInput: a number is none, negative or not finite, or the message is no text.
    """
    if message is not None and not isinstance(message, str):
        raise InvalidInput("message", f"must be text, not {kind(message)}")
    shown = None if message is None else _one_line(message)
    return RunProgress(
        _read_amount(done, "done"), None if total is None else _read_amount(total, "total"), shown or None
    )


def _one_line(message: str) -> str:
    plain = strip_controls(message[: 10 * MAX_MESSAGE])
    return storable(" ".join(plain.split())[:MAX_MESSAGE])


def _read_amount(amount: object, field: str) -> float:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise InvalidInput(field, f"must be a number, not {kind(amount)}")
    try:
        number = float(amount)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise InvalidInput(field, "must be a finite number, at least 0")
    return number


def deflate(data: bytes) -> bytes:
    """Compress a part; the least effort takes the most of what there is to gain."""
    return zlib.compress(data, 1)


def inflate(part: LogPart) -> bytes:
    """Return the bytes of a part, or a mark that it cannot be read."""
    if not part.data:
        return HIDDEN_PART.encode()
    try:
        return zlib.decompressobj().decompress(part.data, part.size)
    except zlib.error:
        return b"[a part that cannot be read]\n"


def check_part(part: LogPart, field: str) -> None:
    """Check that a part is what it says, before it is kept.

    Raises:
        InvalidInput: it is too long, or no zlib stream of its size.
    """
    if not 1 <= part.size <= PIECE:
        raise InvalidInput(f"{field}.size", f"must be from 1 to {PIECE}")
    if not 0 <= part.start <= MOST_PLACE - PIECE:
        raise InvalidInput(f"{field}.start", f"must be from 0 to {MOST_PLACE - PIECE}")
    if len(part.data) > _MOST_DEFLATED:
        raise InvalidInput(
            f"{field}.data", f"has {len(part.data):,} bytes, at most {_MOST_DEFLATED:,} are kept"
        )
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(part.data, part.size + 1)
    except zlib.error as error:
        raise InvalidInput(f"{field}.data", f"is no zlib stream: {error}") from None
    if len(text) != part.size or not stream.eof:
        raise InvalidInput(f"{field}.data", f"holds {len(text)} bytes, not the {part.size} of its size")
    if stream.unused_data:
        raise InvalidInput(f"{field}.data", "goes on behind its zlib stream")


def left_out(count: int) -> str:
    """Return the mark of bytes that were left out."""
    return f"\n[… {count:,} bytes left out …]\n"


def join_parts(parts: Iterable[LogPart], start: int) -> LogText:
    """Return the text of parts, in the order of their places, from a place on.

    What comes before that place, or again, is left out; a gap shows as a mark.
    """
    pieces: list[str] = []
    pending: list[bytes] = []
    end = start
    for part in parts:
        if part.end <= end:
            continue
        if part.start > end:
            pieces.append(_decode(pending) + left_out(part.start - end))
            pending = []
        data = inflate(part)
        pending.append(data[end - part.start :] if part.start < end else data)
        end = part.end
    return LogText("".join(pieces) + strip_controls(_decode(pending)), start, end)


def _decode(pending: list[bytes]) -> str:
    return strip_controls(b"".join(pending).decode("utf-8", "replace"))


def text_from(text: str, start: int) -> LogText:
    """Return a whole output from a place on."""
    data = text.encode("utf-8", "replace")
    return LogText(strip_controls(data[start:].decode("utf-8", "replace")), start, max(start, len(data)))
