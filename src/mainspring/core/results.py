"""What is kept of a result: all of it, or a mark that says why it was left out.

The work of an attempt that succeeded is done, whatever its result looks like. So a result that cannot be kept never
fails a run: a mark stands in its place. A mark is JSON that begins with a space, which no kept result does. It takes
no column of its own, and programs that do not know it show an object that speaks for itself.
"""

from __future__ import annotations

import json
from enum import StrEnum
from hashlib import sha256

from mainspring.core.fields import MAX_DEPTH, MAX_PAYLOAD, is_deep
from mainspring.core.text import storable
from mainspring.core.values import value

_NOTE_LIMIT = 500
_DIGEST = 64


class LeftOut(StrEnum):
    """Why a result was left out."""

    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    NOT_JSON = "not_json"


@value(kw_only=True)
class ResultMark:
    """What is kept in place of a result.

    Attributes:
        size: the bytes of its JSON text; None if it has none.
        sha256: the digest of that text, in hexadecimal digits.
        note: what was wrong with it, for people.
    """

    reason: LeftOut
    note: str
    size: int | None = None
    sha256: str | None = None


def keep(text: bytes, *, no_file: str | None = None) -> bytes:
    """Return a result as it may be kept: JSON text as it is, or a mark in its place.

    Args:
        no_file: why it could not be kept as a file, either; None if that was not tried.
    """
    size = len(text)
    if size > MAX_PAYLOAD:
        note = f"the result is {size:,} bytes of JSON; at most {MAX_PAYLOAD:,} can be kept"
        if no_file is not None:
            note += f", and it could not be kept as a file: {no_file}"
        return _marked(text, LeftOut.TOO_LARGE, note)
    if is_deep(text):
        return _marked(text, LeftOut.TOO_DEEP, f"the result is nested deeper than {MAX_DEPTH} levels")
    return text


def leave_out(note: str, reason: LeftOut = LeftOut.NOT_JSON) -> bytes:
    """Return the mark of a result that has no JSON form, or whose JSON form is not made."""
    return write_mark(ResultMark(reason=reason, note=note))


def write_mark(mark: ResultMark) -> bytes:
    """Return a mark as it is kept."""
    left_out = {
        "reason": mark.reason.value,
        "note": (storable(mark.note) or "")[:_NOTE_LIMIT],
        "size_bytes": mark.size,
        "sha256": None if mark.sha256 is None else mark.sha256[:_DIGEST],
    }
    return b" " + json.dumps({"result_left_out": left_out}).encode()


def read_mark(result: bytes | None) -> ResultMark | None:
    """Return the mark that is kept in place of a result; None if there is a result, or none at all."""
    if result is None or not result.startswith(b" "):
        return None
    left_out = json.loads(result)["result_left_out"]
    return ResultMark(
        reason=LeftOut(left_out["reason"]),
        note=left_out["note"],
        size=left_out["size_bytes"],
        sha256=left_out["sha256"],
    )


def _marked(text: bytes, reason: LeftOut, note: str) -> bytes:
    return write_mark(ResultMark(reason=reason, note=note, size=len(text), sha256=sha256(text).hexdigest()))
