"""Decides which of many like events get a line in the log, and counts the others."""

from __future__ import annotations

from collections import Counter

from mainspring.core.values import value

LINES = 5
"""Lines about one subject in a period."""
TOTAL = 50
"""Lines about all subjects in a period."""
PERIOD = 10.0
"""Seconds for which lines are counted."""
MOST_SUBJECTS = 20
"""Subjects of which it is told one by one how much was left out; of the others, together."""


@value()
class Unwritten:
    """Events that got no line.

    Attributes:
        subject: what they are about, such as a job's name; None stands for further subjects together.
        events: how many there were of each kind.
    """

    subject: str | None
    events: dict[str, int]


class LineBudget:
    """Gives the first events of each subject a line, in each period, and counts the rest.

    So ten thousand failures in a second are a few lines and a number. Every event has either a line or a place in a
    count.

    Args:
        begun: when the first period begins, in monotonic seconds, like all times here.
    """

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._lines: Counter[str] = Counter()
        self._written = 0
        self._left_out: dict[str, Counter[str]] = {}
        self._others: Counter[str] = Counter()

    @property
    def has_left_out(self) -> bool:
        """Whether events of this period got no line."""
        return bool(self._left_out)

    def take(self, subject: str, kind: str, at: float) -> bool:
        """Return whether an event gets a line; if not, it is counted."""
        if at - self._begun >= PERIOD and not self._left_out:
            self._begin(at)
        if self._lines[subject] < LINES and self._written < TOTAL:
            self._lines[subject] += 1
            self._written += 1
            return True
        if subject in self._left_out or len(self._left_out) < MOST_SUBJECTS:
            self._left_out.setdefault(subject, Counter())[kind] += 1
        else:
            self._others[kind] += 1
        return False

    def rest(self, at: float) -> float:
        """Return the seconds until the period is over."""
        return max(self._begun + PERIOD - at, 0.0)

    def settle(self, at: float) -> list[Unwritten]:
        """End the period, and return what got no line in it."""
        left = [Unwritten(subject, dict(kinds)) for subject, kinds in self._left_out.items()]
        if self._others:
            left.append(Unwritten(None, dict(self._others)))
        self._begin(at)
        return left

    def _begin(self, at: float) -> None:
        self._begun = at
        self._lines.clear()
        self._written = 0
        self._left_out = {}
        self._others = Counter()
