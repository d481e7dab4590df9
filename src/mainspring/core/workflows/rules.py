"""The rules of steps: what becomes of a step, by how many of its parents have ended, and how.

A verdict other than `WAIT` is final: whatever the open parents end as, it stays the same. So no verdict depends on the
order in which parents end. Once no parent is open, no rule waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum

from mainspring.core.values import value


class StepRule(StrEnum):
    """What a step asks of its parents.

    - `all_success`: all have succeeded.
    - `all_done`: all have ended.
    - `none_failed`: all have ended, and none has failed.
    - `none_failed_min_one_success`: the same, and one has succeeded at least.
    - `one_success`: one has succeeded.
    - `one_failed`: one has failed.
    - `all_failed`: all have failed.
    - `none_skipped`: all have ended, and none was skipped.
    """

    ALL_SUCCESS = "all_success"
    ALL_DONE = "all_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ALL_FAILED = "all_failed"
    NONE_SKIPPED = "none_skipped"

    @property
    def needs_parents(self) -> bool:
        """Whether it asks for the end of some parent: without one, it says nothing that its step could mean."""
        return self in _NEED_PARENTS


_NEED_PARENTS = frozenset(
    {
        StepRule.NONE_FAILED_MIN_ONE_SUCCESS,
        StepRule.ONE_SUCCESS,
        StepRule.ONE_FAILED,
        StepRule.ALL_FAILED,
    }
)


class StepVerdict(Enum):
    """What becomes of a step that waits for its parents."""

    WAIT = "wait"
    RUN = "run"
    SKIP = "skip"
    UPSTREAM_FAILED = "upstream_failed"


@value()
class Parents:
    """How many of a step's parents have ended, and how.

    Attributes:
        failed: those that have failed or were cancelled, and those that did not run because of such a one.
        open: those that have not ended.
    """

    succeeded: int
    failed: int
    skipped: int
    open: int


_WAIT, _RUN, _SKIP, _UPSTREAM_FAILED = StepVerdict


def judge(rule: StepRule, parents: Parents) -> StepVerdict:
    """Return what becomes of a step with these parents."""
    return _JUDGES[rule](parents)


def _all_success(parents: Parents) -> StepVerdict:
    if parents.failed:
        return _UPSTREAM_FAILED
    if parents.open:
        return _WAIT
    return _SKIP if parents.skipped else _RUN


def _all_done(parents: Parents) -> StepVerdict:
    return _WAIT if parents.open else _RUN


def _none_failed(parents: Parents) -> StepVerdict:
    if parents.failed:
        return _UPSTREAM_FAILED
    return _WAIT if parents.open else _RUN


def _none_failed_min_one_success(parents: Parents) -> StepVerdict:
    if parents.failed:
        return _UPSTREAM_FAILED
    if parents.open:
        return _WAIT
    return _RUN if parents.succeeded else _SKIP


def _one_success(parents: Parents) -> StepVerdict:
    if parents.succeeded:
        return _RUN
    if parents.open:
        return _WAIT
    return _UPSTREAM_FAILED if parents.failed else _SKIP


def _one_failed(parents: Parents) -> StepVerdict:
    if parents.failed:
        return _RUN
    return _WAIT if parents.open else _SKIP


def _all_failed(parents: Parents) -> StepVerdict:
    if parents.succeeded or parents.skipped:
        return _SKIP
    return _WAIT if parents.open else _RUN


def _none_skipped(parents: Parents) -> StepVerdict:
    if parents.skipped:
        return _SKIP
    return _WAIT if parents.open else _RUN


_JUDGES: dict[StepRule, Callable[[Parents], StepVerdict]] = {
    StepRule.ALL_SUCCESS: _all_success,
    StepRule.ALL_DONE: _all_done,
    StepRule.NONE_FAILED: _none_failed,
    StepRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
    StepRule.ONE_SUCCESS: _one_success,
    StepRule.ONE_FAILED: _one_failed,
    StepRule.ALL_FAILED: _all_failed,
    StepRule.NONE_SKIPPED: _none_skipped,
}
