"""Says of an attempt that did not succeed what the log tells of it: how bad it is, and what comes next."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.ids import format_run_id
from mainspring.core.model import JobSpec
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import RunState
from mainspring.core.times import write_instant
from mainspring.core.values import value


class LineKind(StrEnum):
    """What has become of an attempt, or of a run."""

    ATTEMPT_FAILED = "attempt_failed"
    """It is tried again."""
    ATTEMPT_LOST = "attempt_lost"
    """Its worker died, and another one gets the run."""
    RUN_FAILED = "run_failed"
    """The run is a dead letter."""


@value()
class AttemptLine:
    """A line of the log.

    Attributes:
        error: the first and the last line of the error.
        following: what comes next.
    """

    kind: LineKind
    error: str
    following: str


def line_of(end: Transition, spec: JobSpec, attempt: int) -> AttemptLine | None:
    """Return what the log tells of the end of an attempt; None if that is nothing.

    Args:
        attempt: its number, from 1.
    """
    error = brief(end.error)
    if end.to is RunState.FAILED:
        run = format_run_id(end.run_id)
        why = "" if end.reason is None else f" ({end.reason})"
        return AttemptLine(
            LineKind.RUN_FAILED,
            error,
            f"kept as a dead letter{why}; `mainspring run retry {run}` runs it again",
        )
    if end.outcome is AttemptOutcome.LOST and end.to is RunState.PENDING:
        return AttemptLine(LineKind.ATTEMPT_LOST, error, "another worker gets the run at once, alone")
    if end.to is RunState.RETRYING and end.counts_attempt and end.ready_at is not None:
        at = write_instant(end.ready_at)
        most = spec.retry.max_retries
        of = f" of {most}" if attempt <= most else ""  # a rule may allow more
        return AttemptLine(LineKind.ATTEMPT_FAILED, error, f"retry {attempt}{of} at {at}")
    return None


def brief(error: str | None) -> str:
    """Return the first and the last line of an error that say anything.

    The first has the type of an exception, and often the last is only an address at which to read on. Of a traceback,
    the last one says it all.
    """
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    ends = lines if len(lines) < 3 else [lines[0], "…", lines[-1]]
    if lines and lines[0].startswith("Traceback "):
        ends = lines[-1:]
    return " ".join(line[:240] for line in ends)
