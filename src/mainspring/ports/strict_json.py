"""JSON text of any value that has some, as msgspec writes it, but never something else in its place."""

from __future__ import annotations

import msgspec

from mainspring.core.fields import encode_payload
from mainspring.core.results import keep, leave_out


def encode_json(value: object) -> bytes:
    """Return a value as JSON text. Unlike msgspec, it turns NaN and the infinities neither into null nor into keys.

    Raises:
        ValueError: it holds NaN or an infinity, also as a key, or text that is not Unicode.
        TypeError: it holds an object of a type that JSON has nothing for.
        RecursionError: it is nested too deep.
    """
    text = msgspec.json.encode(value)
    if b"null" in text or b'nan":' in text or b'inf":' in text:  # they may stand for such a number
        encode_payload(msgspec.to_builtins(value, enc_hook=_leave_out))
    return text


def keep_unread(text: bytes) -> bytes:
    """Return a result of unknown origin as it may be kept: it may be no JSON at all, and then a mark stands for it."""
    kept = keep(text)
    if kept is not text:
        return kept
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return leave_out(f"the result is not JSON in UTF-8: {error}")
    return text.strip()  # a mark begins with a space, and nothing else does


def _leave_out(raw: object) -> None:
    """Take the place of a `msgspec.Raw`, the only type that has JSON but no builtin: it is JSON already."""
    assert isinstance(raw, msgspec.Raw)
