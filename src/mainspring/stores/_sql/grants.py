"""The stored form of an account's grants: one JSON text, the same in both dialects."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.core.rights import AccessRole

_decoder = msgspec.json.Decoder(dict[str, AccessRole])


def encode_grants(grants: Mapping[str, AccessRole]) -> str:
    """Return roles by tenant as JSON text."""
    return msgspec.json.encode(dict(grants)).decode()


def decode_grants(text: str) -> dict[str, AccessRole]:
    """Return the roles by tenant of a JSON text."""
    return _decoder.decode(text)
