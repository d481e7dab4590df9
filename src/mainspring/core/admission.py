"""Decides which runs are admitted, and which are only recorded as skipped: keys, the job's version, overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from mainspring.core.values import value

OVERLAP = "overlap"
"""The reason of a run that is skipped because an earlier run of its job was live."""


@value()
class KnownKey:
    """An idempotency key that a run was submitted with."""

    request_hash: bytes
    expires_at: datetime


class SubmissionVerdict(StrEnum):
    """What becomes of a submission."""

    SUBMITTED = "submitted"
    DUPLICATE = "duplicate"
    KEY_MISMATCH = "key_mismatch"
    JOB_MISSING = "job_missing"
    JOB_CHANGED = "job_changed"


def admit(
    *,
    known: KnownKey | None,
    request_hash: bytes | None,
    newest_version: int | None,
    wanted_version: int | None,
    now: datetime,
) -> SubmissionVerdict:
    """Decide a submission. A known key that has not expired decides first, even if the job is gone.

    Args:
        known: what is known about the submission's key; None if it has no key, or an unused one.
        request_hash: the submission's hash; None without a key.
        newest_version: the job's newest version; None if the job does not exist.
        wanted_version: the version that has to be the newest; None accepts any.
    """
    if known is not None and known.expires_at > now:
        is_same = known.request_hash == request_hash
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
