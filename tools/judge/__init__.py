"""The judge: from a history of what was asked, done and recorded to the rules that it breaks.

Pure functions over data, the same for the simulator and for real processes. `judge` is the entry.
"""

from tools.judge.judge import RULES, judge
from tools.judge.model import (
    Change,
    ChangeKind,
    Effect,
    Event,
    Fault,
    Grant,
    History,
    Operation,
    Verdict,
    Violation,
)

__all__ = [
    "RULES",
    "Change",
    "ChangeKind",
    "Effect",
    "Event",
    "Fault",
    "Grant",
    "History",
    "Operation",
    "Verdict",
    "Violation",
    "judge",
]
