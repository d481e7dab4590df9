"""Runs that were claimed, and cannot be given out: what they need cannot be decrypted by this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.ciphertexts import NO_KEYS, has_encrypted, is_encrypted_bytes, why_unreadable
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import Transition, undecryptable
from mainspring.ports.store.claims import ClaimedRun

Specs = Mapping[tuple[JobId, int], JobSpec]


def has_unreadable(runs: Sequence[ClaimedRun], specs: Specs) -> bool:
    """Say whether there is a run among these that cannot be given out."""
    return any(has_encrypted(spec.target.params) for spec in specs.values()) or any(
        is_encrypted_bytes(run.payload) for run in runs
    )


def settle_unreadable(
    runs: Sequence[ClaimedRun], specs: Specs, session_id: SessionId, *, now: datetime
) -> dict[RunId, tuple[Transition, str]]:
    """Return what becomes of the runs that cannot be given out, and why.

    If a key is missing here, they go back: another process may have it. If something was changed, they have FAILED.
    """
    settled = {}
    for run in runs:
        params = specs[run.job_id, run.version].target.params
        if has_encrypted(params):
            why, is_key_missing = why_unreadable(params)
        elif is_encrypted_bytes(run.payload):  # what has keys gives out none that is encrypted
            why, is_key_missing = f"the payload is encrypted; {NO_KEYS}", True
        else:
            continue
        end = undecryptable(run.run_id, run.token, session_id, why, is_key_missing=is_key_missing, now=now)
        settled[run.run_id] = end, why
    return settled
