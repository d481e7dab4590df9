"""Makes text that any store can hold."""

from __future__ import annotations

from typing import overload


@overload
def storable(text: str) -> str: ...
@overload
def storable(text: None) -> None: ...
@overload
def storable(text: str | None) -> str | None: ...
def storable(text: str | None) -> str | None:
    """Return the text with NUL and lone surrogates, which PostgreSQL and UTF-8 cannot hold, replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
