"""Decides which runs are admitted, and which are only recorded as skipped: keys, the job's version, overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from mainspring.core.values import value

OVERLAP = "overlap"
"""The reason of a run that is skipped because an earlier run of its job was live."""


class SubmissionVerdict(StrEnum):
    """What becomes of a submission.

    `EXISTING` and those after it come from a job's rules of what runs once (`core.once`).
    """

    SUBMITTED = "submitted"
    DUPLICATE = "duplicate"
    KEY_MISMATCH = "key_mismatch"
    JOB_MISSING = "job_missing"
    JOB_CHANGED = "job_changed"
    EXISTING = "existing"
    REPLACED = "replaced"
    DEBOUNCED = "debounced"
    THROTTLED = "throttled"
    REJECTED = "rejected"
    SETTLED = "settled"
    """The dead letter that it repeats was discarded, or another run repeats it."""


HELD_BACK = (
    SubmissionVerdict.EXISTING,
    SubmissionVerdict.REPLACED,
    SubmissionVerdict.DEBOUNCED,
    SubmissionVerdict.THROTTLED,
    SubmissionVerdict.REJECTED,
)
"""Verdicts of submissions that make no run of their own, because of a rule of their job."""


@value()
class KnownKey:
    """An idempotency key that a run was submitted with, and what became of that submission."""

    request_hash: bytes
    expires_at: datetime
    verdict: SubmissionVerdict = SubmissionVerdict.SUBMITTED


def is_remembered(verdict: SubmissionVerdict) -> bool:
    """Say whether a submission uses up its idempotency key. One that is rejected leaves nothing behind."""
    return verdict is SubmissionVerdict.SUBMITTED or (
        verdict in HELD_BACK and verdict is not SubmissionVerdict.REJECTED
    )


def verdict_to_text(verdict: SubmissionVerdict) -> str | None:
    """Return what is stored beside an idempotency key: nothing in the usual case, as in rows of older releases."""
    return None if verdict is SubmissionVerdict.SUBMITTED else verdict.value


def verdict_of_text(text: str | None) -> SubmissionVerdict:
    """Read what `verdict_to_text` made."""
    return SubmissionVerdict.SUBMITTED if text is None else SubmissionVerdict(text)


def admit(
    *,
    known: KnownKey | None,
    request_hashes: Sequence[bytes],
    newest_version: int | None,
    wanted_version: int | None,
    now: datetime,
) -> SubmissionVerdict:
    """Decide a submission. A known key that has not expired decides first, even if the job is gone.

    Args:
        known: what is known about the submission's key; None if it has no key, or an unused one.
        request_hashes: whatever may be known of this very submission; empty without a key.
        newest_version: the job's newest version; None if the job does not exist.
        wanted_version: the version that has to be the newest; None accepts any.
    """
    if known is not None and known.expires_at > now:
        is_same = known.request_hash in request_hashes
        return SubmissionVerdict.DUPLICATE if is_same else SubmissionVerdict.KEY_MISMATCH
    if newest_version is None:
        return SubmissionVerdict.JOB_MISSING
    if wanted_version is not None and wanted_version != newest_version:
        return SubmissionVerdict.JOB_CHANGED
    return SubmissionVerdict.SUBMITTED


def skip_overlaps(reasons: Sequence[str | None], *, is_live: bool) -> list[str | None]:
    """Return why each of a job's new runs is skipped; None if it goes live. Only one run may be live at a time.

    Args:
        reasons: why each is to be skipped anyway; None if it is not.
        is_live: the job has a live run.
    """
    decided: list[str | None] = []
    for reason in reasons:
        if reason is None and is_live:
            decided.append(OVERLAP)
        else:
            decided.append(reason)
            is_live = is_live or reason is None
    return decided
