"""Every pair of the PostgreSQL store's writing verbs, in every order of their statements (design 8).

`INTERLEAVINGS=all` plays every order; otherwise a pair with more than a few has a sample drawn, always the same one.
Each end is held against invariants, and with results and tables against the ends of the two serial orders. A verb that
passes over locked rows may besides find nothing. Verbs that share nothing are not played together: see `apart.py`.
"""

import asyncio
import itertools

import pytest

from tests.interleavings.apart import are_apart, judge_apart
from tests.interleavings.bench import Bench
from tests.interleavings.cases import VERBS
from tests.interleavings.search import ALL, judge_verbs

RELATED, UNRELATED = 12, 3
"""Orders drawn, where there are more, for pairs that touch the same kind of rows and for those that do not."""

PIECEMEAL = {
    frozenset(
        {"claim_batch", "hand_back"}
    ): "requests of one call are claims one after the other, not at one instant",
    **dict.fromkeys(
        (frozenset({"claim_batch", other}) for other in ("lose", "apply_batch", "apply_backwards")),
        "the same: each of these makes a run ready again",
    ),
    **dict.fromkeys(
        (
            frozenset({claim, submit})
            for claim in ("claim", "claim_again", "claim_first", "claim_batch", "speculative_claim")
            for submit in ("submit_replacing", "submit_once_batch")
        ),
        "passes over the run that is getting another payload, which waits for the next claim",
    ),
    frozenset({"claim_batches_first", "claim_batches_second"}): (
        "passes over the line that the other one decides about, and asks again soon"
    ),
    frozenset({"claim_batch", "speculative_claim"}): (
        "each passes over what the other one holds, so a run may wait for the next claim"
    ),
    **dict.fromkeys(
        (
            frozenset({straight, other})
            for straight in ("submit_straight", "submit_straight_first")
            for other in (
                "fire_batch",
                "fire_cancelling",
                "fire_outlined_batch",
                "advance",
                "advance_backfill",
            )
        ),
        "neither sees the other's run: what is not committed yet is not ready, and holds up no fire",
    ),
    **dict.fromkeys(
        (
            frozenset({straight, "edit_into_line"})
            for straight in ("submit_straight", "submit_straight_first")
        ),
        "neither sees the other: a run of the definition before may start beside the line that begins",
    ),
    **dict.fromkeys(
        (
            frozenset({one, other})
            for one in ("preempt", "preempt_backwards")
            for other in (
                *("submit_beside_held", "submit_once_batch", "write_logs"),
                *("keep_steps", "keep_steps_backwards", "keep_steps_late"),
            )
        ),
        "passes over a run at which the other one looks; the next period makes up for it",
    ),
    frozenset({"fail_step", "turn_anew"}): (
        "reads the mail before the step fails; by the time that it cancels the step, that has ended"
    ),
    **dict.fromkeys(
        (
            frozenset({"take_batch", other})
            for other in (
                *("take", "fire", "fire_batch", "fire_cancelling"),
                *("fire_outlined", "fire_outlined_batch", "advance", "advance_backfill"),
                *("turn_flow", "turn_anew", "end_flow"),
            )
        ),
        "passes over the one shard that the other one holds, and takes the other",
    ),
}
"""Pairs whose results need not be those of a serial order, and why; the invariants hold for them as for all."""

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(0 if ALL else 60)]

PAIRS = list(itertools.combinations_with_replacement(VERBS, 2))


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda name: name)
def test_pair(bench: Bench, runner: asyncio.Runner, first: str, second: str) -> None:
    verbs = VERBS[first], VERBS[second]
    if not ALL and runner.run(are_apart(bench, verbs)):
        runner.run(judge_apart(bench, verbs))
        print(f"{first} and {second}: share nothing")
        return
    limit = None if ALL else RELATED if verbs[0].touches & verbs[1].touches else UNRELATED
    is_serial = frozenset({first, second}) not in PIECEMEAL
    played, possible = runner.run(judge_verbs(bench, verbs, limit=limit, is_serial=is_serial))
    print(f"{first} and {second}: {played} orders played of {possible} at most")
