"""Which ended runs may be run again, and by what a store knows that one has been."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeAlias

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.states import RunState

REDRIVABLE = frozenset({RunState.FAILED, RunState.CANCELLED})
"""What did not do its work. A run that succeeded is not repeated: submit its job again."""


def redrive_key(run_id: RunId) -> str:
    """Return the key under which a run is redriven once. Nobody can submit it: callers' keys are printable."""
    return f"\x01redrive:{format_run_id(run_id)}"


FROM_FAILED, FROM_START = "failed", "start"
"""Where a workflow is taken up again: where it failed, or at its first steps."""
RedriveFrom: TypeAlias = str | tuple[str, ...]
"""One of these words; or the names of steps that run again though they succeeded, and with them all that follows."""


def redrive_hash(payload: bytes | None, *, is_newest: bool, begin: RedriveFrom = FROM_FAILED) -> bytes:
    """Return what tells redrives of one run apart that ask for different things.

    Args:
        payload: the payload that was given with it, in its canonical form.
        begin: where a workflow is taken up again.
    """
    digest = sha256(b"newest" if is_newest else b"kept")
    digest.update(b"" if payload is None else b"|" + payload)
    if begin != FROM_FAILED:
        names = [begin] if isinstance(begin, str) else ["", *sorted(set(begin))]
        digest.update("|".join(["", "from", *names]).encode())
    return digest.digest()
