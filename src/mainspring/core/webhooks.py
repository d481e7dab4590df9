"""Signatures of webhooks, as the specification Standard Webhooks has them: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import datetime

from mainspring.errors import InvalidInput

KEY_PREFIX = "whsec_"
SHORTEST_KEY = 24
LONGEST_KEY = 64
ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"


def read_keys(text: str, field: str) -> tuple[bytes, ...]:
    """Return the signing keys in a secret: one, or several with blanks between while receivers change over.

    Args:
        field: what the error is to name.

    Raises:
        InvalidInput: one of them is no key. The message does not show it.
    """
    keys = tuple(_read_key(word, field) for word in text.split())
    if not keys:
        raise InvalidInput(field, "is empty")
    return keys


def _read_key(word: str, field: str) -> bytes:
    message = (
        f"is no signing key; write {KEY_PREFIX} and {SHORTEST_KEY} to {LONGEST_KEY} bytes in base64, "
        "as `openssl rand -base64 32` makes them"
    )
    if not word.startswith(KEY_PREFIX) or not word.isascii():
        raise InvalidInput(field, message)
    encoded = word.removeprefix(KEY_PREFIX).rstrip("=")
    try:
        key = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        raise InvalidInput(field, message) from None
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise InvalidInput(field, message)
    return key


def sign(keys: Iterable[bytes], message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the header fields that go with a body.

    Args:
        keys: one signature is made with each of them; a receiver accepts if one is right.
        message_id: the same each time that the message is sent.
        at: when it is sent. Receivers refuse what is some minutes old.
    """
    seconds = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), seconds.encode(), body))
    signatures = (b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return {**identify(message_id, at), SIGNATURE_HEADER: " ".join(f"v1,{one}" for one in signatures)}


def identify(message_id: str, at: datetime) -> dict[str, str]:
    """Return the header fields of a message that is not signed."""
    return {ID_HEADER: message_id, TIMESTAMP_HEADER: str(int(at.timestamp()))}
