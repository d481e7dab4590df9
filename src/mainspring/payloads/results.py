"""Results of functions as JSON text."""

from __future__ import annotations

import msgspec

from mainspring.payloads.hooks import encode_other
from mainspring.ports.strict_json import encode_json


def encode_result(result: object) -> bytes:
    """Return a result as JSON text.

    Raises:
        ValueError, TypeError, RecursionError: as `encode_json` raises them.
    """
    try:
        return encode_json(result)
    except TypeError:  # costs the usual result nothing
        return encode_json(msgspec.to_builtins(result, str_keys=True, enc_hook=encode_other))
