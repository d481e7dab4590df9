"""Text that executors return: capped, and fit for every store."""

from __future__ import annotations

from datetime import timedelta

ERROR_LIMIT = 2_000
"""The most characters of an error message."""

OUTPUT_LIMIT = 64 * 1024
"""The most bytes (or characters) of captured output that are kept."""


def clean(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Return text that any store can hold: no NUL, no lone surrogates, at most about `limit` characters.

    A longer text keeps its head and tail.
    """
    if len(text) > limit:
        text = join_cut(text[: limit // 2], text[-(limit // 2) :], len(text) - limit // 2 * 2, "characters")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode("utf-8")


def decode(data: bytes) -> str:
    """Decode captured bytes as UTF-8. Replace what is not UTF-8."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def join_cut(head: str, tail: str, dropped: int, unit: str = "bytes") -> str:
    """Join the ends of a text whose middle was dropped."""
    if not dropped:
        return head + tail
    return f"{head}\n[… {dropped:,} {unit} left out …]\n{tail}"


def seconds(duration: timedelta) -> str:
    """Write a duration for people: `0.5 s`, `30 s`."""
    return f"{duration.total_seconds():g} s"
