"""Verbs that share nothing need not be played together: what they touch proves that no order can matter.

Each verb is played alone on the scene, and PostgreSQL's own table of locks tells what it touched (`gate.Touched`). If
neither of two verbs changes or locks what the other one reads, changes or locks, then whatever the order, each finds
the rows that it finds alone, so it sends the same statements, waits for nothing and leaves the same rows. The end of
every order is then the scene with the changes of both. `test_apart.py` holds this against real plays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.interleavings.bench import TABLES, Bench, Tables
from tests.interleavings.cases import Verb
from tests.interleavings.gate import Played, Touched
from tests.interleavings.invariants import Verbs, judge


@dataclass(frozen=True, slots=True)
class Alone:
    """What came of a verb that was alone.

    Attributes:
        touched: what it read and changed; with empty caches and with full ones.
        has_failed: a statement failed on the way, so that not all of what was touched is known.
    """

    result: Any
    tables: Tables
    touched: Touched
    has_failed: bool

    def disturbs(self, other: Alone) -> bool:
        """Return whether an order of the two could matter."""
        is_known = not self.has_failed and not other.has_failed
        return not is_known or self.touched.disturbs(other.touched) or other.touched.disturbs(self.touched)


async def play_alone(bench: Bench, verb: Verb) -> Alone:
    """Return what comes of a verb alone; each is played once for a bench."""
    if verb.name not in bench.alone:
        touched = Touched()
        bench.forget_all()
        first, _ = await bench.play((verb,), "", touched=touched)
        played, tables = await bench.play((verb,), "", touched=touched)
        changed = {table for table in TABLES if tables[table] != bench.kept(table)}
        assert changed <= touched.changes, f"{verb.name} changed what it did not lock"
        has_failed = bool(first.errors or played.errors)
        bench.alone[verb.name] = Alone(played.results[0], tables, touched, has_failed)
    alone: Alone = bench.alone[verb.name]
    return alone


def merge(bench: Bench, one: Alone, other: Alone) -> Tables:
    """Return the tables as they are once two verbs that share nothing have ended."""
    tables = {}
    for table in TABLES:
        changed = [each for each in (one, other) if each.tables[table] != bench.kept(table)]
        assert len(changed) <= 1
        tables[table] = changed[0].tables[table] if changed else bench.kept(table)
    return tables


async def are_apart(bench: Bench, verbs: Verbs) -> bool:
    """Return whether no order of two verbs can matter."""
    one, other = [await play_alone(bench, verb) for verb in verbs]
    return not one.disturbs(other)


async def judge_apart(bench: Bench, verbs: Verbs) -> Tables:
    """Hold the one end that two verbs have which share nothing against the invariants, and return its tables."""
    one, other = [await play_alone(bench, verb) for verb in verbs]
    tables = merge(bench, one, other)
    for ended in ("AB", "BA"):
        played = Played(trace="apart", ended=ended, results=(one.result, other.result))
        judge(bench.scene, verbs, played, tables)
    return tables
