"""Typed ids and their text forms (design 3.2).

A job's id is a UUIDv7 whose last byte is its shard. A run's id is `sequence * 256 + shard`, so the id shows the
shard: that of its job, but for runs of workflows, which are spread over all shards. Outside the program, ids appear as
`job_` or `run_`, followed by Crockford base 32 in lower case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NewType
from uuid import UUID

SHARDS = 256
SPREAD = -1
"""In the place of a run's shard: one by its number, so that runs of one job are spread over all shards."""
DEFAULT_TENANT = "default"
"""The tenant of those who name none."""

JobId = NewType("JobId", UUID)
RunId = NewType("RunId", int)
SessionId = NewType("SessionId", int)
FireRangeId = NewType("FireRangeId", int)
BackfillId = NewType("BackfillId", UUID)
RedriveId = NewType("RedriveId", UUID)
LaneId = NewType("LaneId", int)
KeyId = NewType("KeyId", int)
ArtifactId = NewType("ArtifactId", int)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_VALUES |= {"o": 0, "i": 1, "l": 1}  # Crockford: letters that resemble digits are read as these digits
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
"""Two digits at a time, for speed: every claimed run's id is formatted."""
_PLAIN_DIGITS = (
    bytes(
        b"0123456789abcdefghijklmnopqrstuv"[_VALUES[chr(byte).lower()]]
        if chr(byte).lower() in _VALUES
        else 0x3F
        for byte in range(128)
    )
    + b"?" * 128
)
"""Maps our digits to those that `int` accepts, and everything else to a character that it refuses."""
_JOB_DIGITS = 26  # 128 bits
_RUN_DIGITS = 13  # 63 bits


def job_shard(job_id: JobId) -> int:
    """Return the shard (0 to 255) that a job belongs to: the last byte of its id."""
    return job_id.int & 0xFF


def run_shard(run_id: RunId) -> int:
    """Return the shard (0 to 255) that a run belongs to."""
    return run_id & 0xFF


def make_run_id(sequence: int, shard: int) -> RunId:
    """Build a run's id from the store's sequence and its shard, which may be `SPREAD`."""
    return RunId(sequence * SHARDS + (sequence % SHARDS if shard == SPREAD else shard))


def run_number(run_id: RunId) -> int:
    """Return a run's place in the sequence of all runs."""
    return run_id // SHARDS


def format_job_id(job_id: JobId) -> str:
    """Return the text form, `job_` and 26 characters."""
    return "job_" + _encode(job_id.int)


def format_run_id(run_id: RunId) -> str:
    """Return the text form, `run_` and 13 characters."""
    pairs, n = _PAIRS, run_id
    return (
        f"run_{_ALPHABET[n >> 60]}{pairs[n >> 50 & 1023]}{pairs[n >> 40 & 1023]}{pairs[n >> 30 & 1023]}"
        f"{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"
    )


def key_for_target(run_id: RunId, target_key: str | None) -> str:
    """Return the idempotency key for an attempt's target: the submitter's, or the run's id without one."""
    return format_run_id(run_id) if target_key is None else target_key


def parse_job_id(text: str) -> JobId:
    """Read `job_…`.

    Raises:
        ValueError: the text is not a job id.
    """
    return _parse_job_id(text)


@lru_cache(maxsize=4096)  # requests name the same jobs again and again
def _parse_job_id(text: str) -> JobId:
    return JobId(UUID(int=_decode(text, "job_", _JOB_DIGITS, 128)))


def make_backfill_id(fresh: UUID, job_id: JobId) -> BackfillId:
    """Build a backfill's id from a fresh UUIDv7; its last byte is the shard of its job."""
    return BackfillId(UUID(int=fresh.int >> 8 << 8 | job_shard(job_id)))


def format_backfill_id(backfill_id: BackfillId) -> str:
    """Return the text form, `backfill_` and 26 characters."""
    return "backfill_" + _encode(backfill_id.int)


def parse_backfill_id(text: str) -> BackfillId:
    """Read `backfill_…`.

    Raises:
        ValueError: the text is not a backfill's id.
    """
    return BackfillId(UUID(int=_decode(text, "backfill_", _JOB_DIGITS, 128)))


def format_redrive_id(redrive_id: RedriveId) -> str:
    """Return the text form, `redrive_` and 26 characters."""
    return "redrive_" + _encode(redrive_id.int)


def parse_redrive_id(text: str) -> RedriveId:
    """Read `redrive_…`.

    Raises:
        ValueError: the text is not a redrive's id.
    """
    return RedriveId(UUID(int=_decode(text, "redrive_", _JOB_DIGITS, 128)))


def format_event_id(fresh: UUID) -> str:
    """Return the id of an event that came without one: `evt_` and 26 characters."""
    return "evt_" + _encode(fresh.int)


def parse_run_id(text: str) -> RunId:
    """Read `run_…`.

    Raises:
        ValueError: the text is not a run id.
    """
    return RunId(_decode(text, "run_", _RUN_DIGITS, 63))


def format_artifact_id(artifact_id: ArtifactId) -> str:
    """Return the text form, `art_` and 13 characters."""
    return "art_" + format_run_id(RunId(artifact_id)).removeprefix("run_")


def parse_artifact_id(text: str) -> ArtifactId:
    """Read `art_…`.

    Raises:
        ValueError: the text is not an artifact's id.
    """
    return ArtifactId(_decode(text, "art_", _RUN_DIGITS, 63))


def looks_like_job_id(text: str) -> bool:
    """Say whether the text has the form of a job's id, even if no job can have that value."""
    return _has_form(text, "job_", _JOB_DIGITS)


def looks_like_run_id(text: str) -> bool:
    """Say whether the text has the form of a run's id, even if no run can have that value."""
    return _has_form(text, "run_", _RUN_DIGITS)


def _has_form(text: str, prefix: str, digits: int) -> bool:
    # Ids are ASCII; lower() turns some other letters, such as the Kelvin sign, into ASCII ones.
    if not text.startswith(prefix) or len(text) != len(prefix) + digits or not text.isascii():
        return False
    return set(text.removeprefix(prefix).lower()) <= _VALUES.keys()


def _encode(n: int) -> str:
    """Return 26 digits for a number of 128 bits; spelt out, as every answer about a job has one."""
    pairs, low = _PAIRS, n & (1 << 60) - 1
    n >>= 60
    return (
        f"{pairs[n >> 60]}{pairs[n >> 50 & 1023]}{pairs[n >> 40 & 1023]}{pairs[n >> 30 & 1023]}"
        f"{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"
        f"{pairs[low >> 50]}{pairs[low >> 40 & 1023]}{pairs[low >> 30 & 1023]}"
        f"{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )


def _decode(text: str, prefix: str, digits: int, bits: int) -> int:
    body = text.removeprefix(prefix)
    # With the prefix, the text is longer than its digits. `_has_form` is not used: it examines each character.
    if len(body) != digits or len(text) == digits or not text.isascii():
        raise ValueError(_unlike(text, prefix, digits))
    try:
        value = int(body.encode().translate(_PLAIN_DIGITS), 32)
    except ValueError:
        raise ValueError(_unlike(text, prefix, digits)) from None
    if value >> bits:
        raise ValueError(f"{text!r} is out of range")
    return value


def _unlike(text: str, prefix: str, digits: int) -> str:
    return f"{text[:60]!r} is not an id of the form {prefix} and {digits} characters"
