"""The one JSON form of a definition, kept in `job_version` and shown by the API (design 3.2, full forms)."""

from __future__ import annotations

import msgspec

from mainspring.core.definition import plain_from_spec, spec_from_plain
from mainspring.core.model import JobSpec


def encode_spec(spec: JobSpec) -> bytes:
    """Return the definition as JSON text in UTF-8."""
    return msgspec.json.encode(plain_from_spec(spec, msgspec.Raw))


def decode_spec(text: bytes | str) -> JobSpec:
    """Decode what `encode_spec` wrote."""
    return spec_from_plain(msgspec.json.decode(text))
