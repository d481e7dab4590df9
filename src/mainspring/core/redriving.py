"""Which ended runs may be run again, and by what a store knows that one has been."""

from __future__ import annotations

from hashlib import sha256

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.states import RunState

REDRIVABLE = frozenset({RunState.FAILED, RunState.CANCELLED})
"""What did not do its work. A run that succeeded is not repeated: submit its job again."""


def redrive_key(run_id: RunId) -> str:
    """Return the key under which a run is redriven once. Nobody can submit it: callers' keys are printable."""
    return f"\x01redrive:{format_run_id(run_id)}"


def redrive_hash(payload: bytes | None, *, is_newest: bool) -> bytes:
    """Return what tells redrives of one run apart that ask for different things.

    Args:
        payload: the payload that was given with it, in its canonical form.
    """
    digest = sha256(b"newest" if is_newest else b"kept")
    digest.update(b"" if payload is None else b"|" + payload)
    return digest.digest()
