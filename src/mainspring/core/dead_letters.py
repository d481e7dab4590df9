"""Dead letters: runs that FAILED for good, until somebody has them run again or discards them."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

from mainspring.core.ciphertexts import encrypted_group
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Run
from mainspring.core.values import value

LAST_RUN = RunId(2**63 - 1)
"""No run has a higher id."""
LONGEST_GROUP = 200
"""Characters of an error that its group is known by."""

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_HEX = r"0x[0-9a-fA-F]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}"
_NUMBER = r"(?<![0-9])[0-9]+(?:[.,:][0-9]+)*"
_TELLING = r"(?<!status )(?<!code )(?<!signal )(?<!Errno )"
"""What a number follows that tells one failure from another: that of an HTTP answer, of an exit, of a system call."""
_VARYING = re.compile(rf"{_UUID}|\b(?:{_HEX})\b|{_TELLING}{_NUMBER}")


STEP_SETTLED = "step"
"""Why the run of a step is settled from the beginning: what may run again is its workflow."""


class Settlement(StrEnum):
    """How a dead letter was settled."""

    REDRIVEN = "redriven"
    """Another run repeats it."""
    DISCARDED = "discarded"
    """It is not to run again."""


@value(kw_only=True)
class SettledLetter:
    """What became of a dead letter.

    Attributes:
        reason: why it was discarded; None if it was redriven.
        redriven_as: the run that repeats it; None if it was discarded.
    """

    settlement: Settlement
    at: datetime
    reason: str | None = None
    redriven_as: RunId | None = None


@value(kw_only=True)
class DeadRun:
    """A run that FAILED, without its payload, result and output.

    Attributes:
        error_group: what `group_of` makes of its error; None if an earlier release recorded it.
        settled: None while it is open.
    """

    run: Run
    error_group: str | None
    settled: SettledLetter | None


@value(kw_only=True)
class DeadFilter:
    """Which dead letters of a tenant are meant: those that agree with every field that is not None.

    Attributes:
        error: a text that occurs in the error.
        error_group: the exact group of the error.
        since, until: when they failed: at or after the one, and before the other.
        run_ids: only some of these.
        is_settled: those that are settled, not the open ones.
    """

    job_id: JobId | None = None
    queue: str | None = None
    reason: str | None = None
    error: str | None = None
    error_group: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    run_ids: tuple[RunId, ...] | None = None
    is_settled: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether it asks for all that there is."""
        return self == DeadFilter(is_settled=self.is_settled)

    @property
    def reach(self) -> tuple[RunId, RunId]:
        """The lowest and the highest run that it may mean."""
        if not self.run_ids:
            return RunId(0), LAST_RUN
        return min(self.run_ids), max(self.run_ids)

    def admits(self, run: Run, error_group: str | None, *, is_settled: bool) -> bool:
        """Say whether a dead letter of the tenant is among those that are meant."""
        assert run.finished_at is not None, "a dead letter has ended"
        return (
            self.is_settled is is_settled
            and self.job_id in {None, run.job_id}
            and self.queue in {None, run.lane.queue}
            and self.reason in {None, run.reason}
            and (self.error is None or self.error in (run.error or ""))
            and self.error_group in {None, error_group}
            and (self.since is None or run.finished_at >= self.since)
            and (self.until is None or run.finished_at < self.until)
            and (self.run_ids is None or run.id in self.run_ids)
        )


@value(kw_only=True)
class DeadGroup:
    """Open dead letters of one job that failed alike.

    Attributes:
        count: how many there are.
        first_at, last_at: when the first and the last of them failed.
        newest: the one with the highest id.
    """

    job_id: JobId
    error_group: str | None
    count: int
    first_at: datetime
    last_at: datetime
    newest: RunId


def group_of(error: str | None) -> str:
    """Return what an error has in common with others like it: the line that says most, its numbers and ids as `#`.

    Of a traceback that is the last line, of anything else the first. An encrypted error brings its group along.
    """
    group = encrypted_group(error) if error is not None else None
    if group is not None:
        return group
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return ""
    telling = lines[-1] if lines[0].startswith("Traceback ") else lines[0]
    return _VARYING.sub("#", telling[: 2 * LONGEST_GROUP])[:LONGEST_GROUP]
