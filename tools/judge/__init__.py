"""The judge: reads a history of what was requested, done and recorded, and finds the rules that it breaks.

It consists of pure functions over data, the same for the simulator and for real processes. `judge` is the entry
point.
"""

from tools.judge.judge import RULES, judge
from tools.judge.model import (
    AlertStory,
    AlertTold,
    Asking,
    BackfillMove,
    BackfillStory,
    BlackoutChange,
    Bound,
    Capping,
    Change,
    ChangeKind,
    ClusterStart,
    Effect,
    Event,
    Fault,
    Grant,
    History,
    Life,
    Operation,
    Pausing,
    Permit,
    Replacement,
    StillWindow,
    Verdict,
    Violation,
)

__all__ = [
    "RULES",
    "AlertStory",
    "AlertTold",
    "Asking",
    "BackfillMove",
    "BackfillStory",
    "BlackoutChange",
    "Bound",
    "Capping",
    "Change",
    "ChangeKind",
    "ClusterStart",
    "Effect",
    "Event",
    "Fault",
    "Grant",
    "History",
    "Life",
    "Operation",
    "Pausing",
    "Permit",
    "Replacement",
    "StillWindow",
    "Verdict",
    "Violation",
    "judge",
]
