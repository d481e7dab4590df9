"""Plays verbs in many orders and holds each end against the invariants and the ends of the serial orders."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.interleavings.apart import play_alone
from tests.interleavings.bench import Bench, Orders, Outcome
from tests.interleavings.cases import Verb
from tests.interleavings.gate import Played
from tests.interleavings.invariants import Verbs, judge

ALL = os.environ.get("INTERLEAVINGS") == "all"
LONG = 50
"""More statements than any verb sends."""


async def judge_verbs(
    bench: Bench, verbs: Verbs, *, limit: int | None, is_serial: bool = True
) -> tuple[int, int]:
    """Play so many orders, or all (None); return how many were played, and how many there are at most.

    Args:
        is_serial: whether each end has to be that of a serial order, too.
    """
    allowed: list[Outcome] = []
    most = [0] * len(verbs)
    count = 0
    for order in _serial_orders(verbs):
        played, tables = await bench.play(verbs, order)
        judge(bench.scene, verbs, played, tables)
        allowed.append(bench.outcome(played.results, tables))
        most = [max(pair) for pair in zip(most, played.counts, strict=True)]
        count += 1
    allowed += await _outcomes_of_bystanders(bench, verbs)
    orders = Orders("-".join(verb.name for verb in verbs), tuple(most), limit=limit)
    for order in orders:
        played, tables = await bench.play(verbs, order)
        orders.note(order, played)
        count += 1
        judge(bench.scene, verbs, played, tables)
        outcome = bench.outcome(played.results, tables)
        if is_serial and outcome not in allowed:
            pytest.fail(explain(played, outcome, allowed))
    return count, orders.possible


def _serial_orders(verbs: Verbs) -> Iterator[str]:
    for letters in itertools.permutations("ABC"[: len(verbs)]):
        yield "".join(letter * LONG for letter in letters)


async def _outcomes_of_bystanders(bench: Bench, verbs: Verbs) -> list[Outcome]:
    """A verb that passes over locked rows may find nothing, though every serial order would let it find some."""
    found = []
    sides = range(len(verbs))
    may_idle = [side for side in sides if verbs[side].idle is not None]
    for size in range(1, len(may_idle) + 1):
        for idle in itertools.combinations(may_idle, size):
            others: list[tuple[int, Verb]] = [(side, verbs[side]) for side in sides if side not in idle]
            if len(others) == 1:
                [(busy, verb)] = others
                alone = await play_alone(bench, verb)
                answers = [alone.result if side == busy else verbs[side].idle for side in sides]
                found.append(bench.outcome(tuple(answers), alone.tables))
                continue
            for order in _serial_orders(tuple(verb for _, verb in others)):
                results = {side: verbs[side].idle for side in idle}
                played, tables = await bench.play(tuple(verb for _, verb in others), order)
                results |= dict(zip((side for side, _ in others), played.results, strict=True))
                found.append(bench.outcome(tuple(results[side] for side in sides), tables))
    return found


def explain(played: Played, outcome: Outcome, allowed: list[Outcome]) -> str:
    lines = [f"{played.trace}: not what a serial order brings", *played.script, f"results {outcome[0]}"]
    for other in allowed:
        lines.append(f"unlike {other[0]}")
        for (table, mine), (_, theirs) in zip(outcome[1:], other[1:], strict=True):
            lines += [f"  {table} has {row}" for row in mine if row not in theirs]
            lines += [f"  {table} lacks {row}" for row in theirs if row not in mine]
    return "\n".join(lines)
