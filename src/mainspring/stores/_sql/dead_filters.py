"""The stored form of a filter of dead letters: one JSON text, the same in both dialects."""

from __future__ import annotations

import msgspec

from mainspring.core.dead_letters import DeadFilter

_decoder = msgspec.json.Decoder(DeadFilter)


def encode_dead_filter(wanted: DeadFilter) -> str:
    """Return a filter as JSON text."""
    return msgspec.json.encode(wanted).decode()


def decode_dead_filter(text: str) -> DeadFilter:
    """Return the filter of a JSON text."""
    return _decoder.decode(text)
