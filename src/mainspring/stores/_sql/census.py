"""The stored form of a census: one JSON text, the same in both dialects."""

from __future__ import annotations

import msgspec

from mainspring.core.census import Census

_decoder = msgspec.json.Decoder(Census)


def encode_census(census: Census) -> str:
    """Return a census as JSON text."""
    return msgspec.json.encode(census).decode()


def decode_census(text: str) -> Census:
    """Return the census of a JSON text."""
    return _decoder.decode(text)
