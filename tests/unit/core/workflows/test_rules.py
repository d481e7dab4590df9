"""The rules of steps, by the table of the design, over all ends of up to five parents in all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from mainspring.core.workflows.rules import Parents, StepRule, StepVerdict, judge

WAIT, RUN, SKIP, UPSTREAM_FAILED = StepVerdict
Column = Callable[[int, int, int, int, int], bool]


def never(n: int, s: int, f: int, k: int, o: int) -> bool:
    return False


# The table as it was designed: when a step runs, is skipped, or has failed upstream. What fits nowhere waits.
TABLE: dict[StepRule, tuple[Column, Column, Column]] = {
    StepRule.ALL_SUCCESS: (
        lambda n, s, f, k, o: s == n,
        lambda n, s, f, k, o: o == f == 0 and k > 0,
        lambda n, s, f, k, o: f > 0,
    ),
    StepRule.ALL_DONE: (lambda n, s, f, k, o: o == 0, never, never),
    StepRule.NONE_FAILED: (lambda n, s, f, k, o: o == f == 0, never, lambda n, s, f, k, o: f > 0),
    StepRule.NONE_FAILED_MIN_ONE_SUCCESS: (
        lambda n, s, f, k, o: o == f == 0 and s > 0,
        lambda n, s, f, k, o: k == n,
        lambda n, s, f, k, o: f > 0,
    ),
    StepRule.ONE_SUCCESS: (
        lambda n, s, f, k, o: s > 0,
        lambda n, s, f, k, o: k == n,
        lambda n, s, f, k, o: o == s == 0 and f > 0,
    ),
    StepRule.ONE_FAILED: (lambda n, s, f, k, o: f > 0, lambda n, s, f, k, o: o == f == 0, never),
    StepRule.ALL_FAILED: (lambda n, s, f, k, o: f == n, lambda n, s, f, k, o: s + k > 0, never),
    StepRule.NONE_SKIPPED: (lambda n, s, f, k, o: o == k == 0, lambda n, s, f, k, o: k > 0, never),
}


def counts(most: int) -> Iterator[Parents]:
    """Yield all counts of up to so many parents, none among them."""
    for s, f, k, o in product(range(most + 1), repeat=4):
        if s + f + k + o <= most:
            yield Parents(s, f, k, o)


@pytest.mark.parametrize("rule", StepRule)
def test_verdict_is_that_of_the_table(rule: StepRule) -> None:
    for parents in counts(5):
        s, f, k, o = parents.succeeded, parents.failed, parents.skipped, parents.open
        columns = zip((RUN, SKIP, UPSTREAM_FAILED), TABLE[rule], strict=True)
        fitting = [verdict for verdict, column in columns if column(s + f + k + o, s, f, k, o)]
        assert len(fitting) <= 1, "the table says one thing"
        assert judge(rule, parents) is (fitting[0] if fitting else WAIT), (rule, parents)


@pytest.mark.parametrize("rule", StepRule)
def test_no_verdict_changes_whatever_ends_next(rule: StepRule) -> None:
    """From every verdict but WAIT, each further end leads to the same one: so the order of ends does not matter."""
    for parents in counts(5):
        verdict = judge(rule, parents)
        if verdict is WAIT or not parents.open:
            continue
        s, f, k, o = parents.succeeded, parents.failed, parents.skipped, parents.open - 1
        for later in (Parents(s + 1, f, k, o), Parents(s, f + 1, k, o), Parents(s, f, k + 1, o)):
            assert judge(rule, later) is verdict, (rule, parents, later)


def parents_of(ends: tuple[str, ...], still_open: int) -> Parents:
    return Parents(ends.count("s"), ends.count("f"), ends.count("k"), still_open)


@pytest.mark.parametrize("rule", StepRule)
def test_all_orders_of_ends_lead_to_one_verdict(rule: StepRule) -> None:
    verdicts: dict[tuple[int, int, int], StepVerdict] = {}
    for number in range(1, 6):
        for ends in product("sfk", repeat=number):
            reached = [judge(rule, parents_of(ends[:ended], number - ended)) for ended in range(number + 1)]
            final = next(verdict for verdict in reached if verdict is not WAIT)
            after = reached[reached.index(final) :]
            assert set(after) == {final}, (rule, ends)
            same = (ends.count("s"), ends.count("f"), ends.count("k"))
            assert verdicts.setdefault(same, final) is final, (rule, ends)


@pytest.mark.parametrize("rule", StepRule)
def test_none_waits_when_nothing_is_open(rule: StepRule) -> None:
    assert not [parents for parents in counts(8) if not parents.open and judge(rule, parents) is WAIT]


def test_rules_that_need_parents_are_those_that_would_not_simply_run_without() -> None:
    """`all_failed` would run without parents, too; but a step that asks for failures cannot mean that."""
    alone = Parents(0, 0, 0, 0)
    running = {rule for rule in StepRule if judge(rule, alone) is RUN}
    assert {rule for rule in StepRule if not rule.needs_parents} == running - {StepRule.ALL_FAILED}
