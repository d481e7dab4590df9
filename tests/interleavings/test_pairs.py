"""Every pair of the PostgreSQL store's writing verbs, in every order of their statements (design 8).

`INTERLEAVINGS=all` plays every order; otherwise a pair with more than a few has a sample drawn, always the same one.
Each end is held against invariants, and with results and tables against the ends of the two serial orders. A verb that
passes over locked rows may besides find nothing.
"""

import asyncio
import itertools
import os
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mainspring.ports.store_types import ApplyResult, CancelResult, ChangeResult, EditResult, FireStatus
from tests.interleavings.bench import Bench, Orders, Outcome, Tables, open_bench
from tests.interleavings.cases import FIRST_NEW, VERBS, Scene, Verb
from tests.interleavings.gate import Played
from tests.postgres import temporary_database
from tests.postgres_databases import template_database

ALL = os.environ.get("INTERLEAVINGS") == "all"
RELATED, UNRELATED = 12, 3
"""Orders drawn, where there are more, for pairs that touch the same kind of rows and for those that do not."""

PIECEMEAL = {
    frozenset(
        {"claim_batch", "hand_back"}
    ): "requests of one call are claims one after the other, not at one instant",
    frozenset({"claim_batch", "lose"}): "the same",
}
"""Pairs whose results need not be those of a serial order, and why; the invariants hold for them as for all."""

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(0 if ALL else 60)]

PAIRS = list(itertools.combinations_with_replacement(VERBS, 2))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def bench(postgres_server: str, runner: asyncio.Runner) -> Iterator[Bench]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        opened = open_bench(dsn)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda name: name)
def test_pair(bench: Bench, runner: asyncio.Runner, first: str, second: str) -> None:
    played, possible = runner.run(judge_pair(bench, VERBS[first], VERBS[second]))
    print(f"{first} and {second}: {played} orders played of {possible} at most")


async def judge_pair(bench: Bench, first: Verb, second: Verb) -> tuple[int, int]:
    verbs = first, second
    allowed: list[Outcome] = []
    serial = [await bench.play(verbs, order) for order in ("A" * 30 + "B" * 30, "B" * 30 + "A" * 30)]
    for played, tables in serial:
        judge(bench.scene, verbs, played, tables)
        allowed.append(bench.outcome(played.results, tables))
    allowed += await outcomes_of_bystanders(bench, verbs)
    most = [max(played.counts[side] for played, _ in serial) for side in (0, 1)]
    is_serial = frozenset({first.name, second.name}) not in PIECEMEAL
    limit = None if ALL else RELATED if first.touches & second.touches else UNRELATED
    orders = Orders(f"{first.name}-{second.name}", (most[0], most[1]), limit=limit)
    count = len(serial)
    for order in orders:
        played, tables = await bench.play(verbs, order)
        orders.note(order, played)
        count += 1
        judge(bench.scene, verbs, played, tables)
        outcome = bench.outcome(played.results, tables)
        if is_serial and outcome not in allowed:
            pytest.fail(explain(played, outcome, allowed))
    return count, orders.possible


async def outcomes_of_bystanders(bench: Bench, verbs: tuple[Verb, Verb]) -> list[Outcome]:
    """A verb that passes over locked rows may find nothing, though both serial orders would let it find some."""
    found = []
    for side, verb in enumerate(verbs):
        if verb.idle is not None:
            other = verbs[1 - side]
            played, tables = await bench.play((other,), "")
            [result] = played.results
            results = (result, verb.idle) if side else (verb.idle, result)
            found.append(bench.outcome(results, tables))
    return found


def explain(played: Played, outcome: Outcome, allowed: list[Outcome]) -> str:
    lines = [f"{played.trace}: not what a serial order brings", *played.script, f"results {outcome[0]}"]
    for other in allowed:
        lines.append(f"unlike {other[0]}")
        for (table, mine), (_, theirs) in zip(outcome[1:], other[1:], strict=True):
            lines += [f"  {table} has {row}" for row in mine if row not in theirs]
            lines += [f"  {table} lacks {row}" for row in theirs if row not in mine]
    return "\n".join(lines)


# -- invariants ------------------------------------------------------------------------------------------------


def judge(scene: Scene, verbs: tuple[Verb, Verb], played: Played, tables: Tables) -> None:
    """Hold the end against what must be true whatever the order."""
    try:
        judge_runs(scene, tables)
        judge_clocks(scene, verbs, played, tables)
        for verb, result in zip(verbs, played.results, strict=True):
            judge_result(scene, verb, result, tables)
        judge_ends(verbs, played)
        deadlocks = [error for error in played.errors if isinstance(error, asyncpg.DeadlockDetectedError)]
        assert not deadlocks, deadlocks
    except AssertionError as error:
        error.add_note("\n".join([f"trace {played.trace}", *played.script, f"results {played.results}"]))
        raise


def rows_of(tables: Tables, run_id: int) -> list[dict[str, Any]]:
    return [
        row for table in ("run", "run_history", "dead_run") for row in tables[table] if row["id"] == run_id
    ]


def the_run(tables: Tables, run_id: int) -> dict[str, Any]:
    [row] = rows_of(tables, run_id)
    return row


def judge_runs(scene: Scene, tables: Tables) -> None:
    ids = [row["id"] for table in ("run", "run_history", "dead_run") for row in tables[table]]
    assert len(ids) == len(set(ids)), "a run stands in two tables"
    assert {scene.waiting, scene.held.run_id, scene.suspect} <= set(ids), "a run is gone"
    lanes = {lane["id"] for lane in tables["lane"]}
    assert all(row["lane_id"] in lanes for row in tables["run"]), "a live run has no lane"
    assert the_run(tables, scene.held.run_id)["token"] >= scene.held.token
    kept = [(row["run_id"], row["token"]) for row in tables["attempt"]]
    assert len(kept) == len(set(kept)), "an attempt ended twice"
    fires = [
        (row["job_id"], row["fire_at"])
        for table in ("run", "run_history", "dead_run")
        for row in tables[table]
        if row["kind"] == "scheduled"
    ]
    assert len(fires) == len(set(fires)), "one instant fired twice"
    sessions = [row["session_id"] for row in tables["run"] if row["session_id"] is not None]
    alone = [row["session_id"] for row in tables["run"] if row["is_alone"]]
    assert all(sessions.count(session) == 1 for session in alone), "a session has more than its run alone"
    keyed = {row["run_id"] for row in tables["idempotency"]}
    assert keyed <= set(ids), "a key names a run that does not exist"


def judge_clocks(scene: Scene, verbs: tuple[Verb, Verb], played: Played, tables: Tables) -> None:
    clocks = {clock["job_id"]: clock for clock in tables["job_clock"]}
    for job in tables["job"]:
        clock = clocks.pop(job["id"], None)
        assert (clock is None) == (job["deleted_at"] is not None), "clock and job disagree"
        open_spans = [span for span in tables["span"] if span["job_id"] == job["id"] and span["is_open"]]
        gaps = [span for span in open_spans if span["kind"] == "gap"]
        if clock is None:
            assert not open_spans, "a deleted job has an open span"
            continue
        if job["is_paused"]:
            assert clock["next_fire_at"] is None
        assert len(gaps) == job["is_paused"], "open gaps and pause disagree"
        if clock["fired_through"] is not None and clock["next_fire_at"] is not None:
            assert clock["fired_through"] < clock["next_fire_at"]
        versions = [row["version"] for row in tables["job_version"] if row["job_id"] == job["id"]]
        assert sorted(versions) == list(range(1, job["version"] + 1))
    assert not clocks, "a clock has no job"
    changes: dict[str, int] = {}
    for verb, result in zip(verbs, played.results, strict=True):
        jobs = {
            "edit": [scene.job],
            "rename": [scene.job],
            "pause": [scene.job],
            "rename_other": [scene.quiet],
            "pause_quiet": [scene.quiet],
            "resume": [scene.paused],
            "edit_batch": [scene.paused, scene.quiet, scene.job],
        }.get(verb.name, [])
        for changed, answer in zip(jobs, result if jobs else [], strict=True):
            took = answer in {EditResult.EDITED, ChangeResult.DONE}
            changes[str(changed.id)] = changes.get(str(changed.id), 0) + took
    # The second pause is DONE without effect.
    both_paused = verbs[0] is verbs[1] and verbs[0].name.startswith("pause")
    for known in (scene.job, scene.quiet, scene.paused):
        for clock in tables["job_clock"]:
            if clock["job_id"] == str(known.id):
                raised = clock["revision"] - known.revision
                assert raised == changes.get(str(known.id), 0) - both_paused * (raised == 1)


def judge_result(  # noqa: PLR0912 -- one verb after the other
    scene: Scene, verb: Verb, result: Any, tables: Tables
) -> None:
    name = verb.name
    if name == "claim" or name.startswith("claim_"):
        for leased in (run for answer in result for run in answer.runs):
            row = the_run(tables, leased.run_id)
            assert row["token"] >= leased.token, "a token went back"
            if row["token"] == leased.token:
                assert row["state"] in {"RUNNING", "SUCCEEDED", "CANCELLED", "FAILED"}
            else:
                ends = [(end["run_id"], end["token"]) for end in tables["attempt"]]
                assert (leased.run_id, leased.token) in ends, "a lease ended without a record"
    held = the_run(tables, scene.held.run_id)
    if result == [ApplyResult.APPLIED]:
        if name == "succeed":
            assert (held["state"], held["token"]) == ("SUCCEEDED", scene.held.token)
        else:
            assert scene.held.token in {
                end["token"] for end in tables["attempt"] if end["run_id"] == scene.held.run_id
            }
            assert held["state"] != "SUCCEEDED"
    if name in {"cancel", "cancel_batch"}:
        runs = (scene.waiting, scene.held.run_id, scene.suspect)
        for run_id, answer in zip(runs, result, strict=False):
            row = the_run(tables, run_id)
            if answer is CancelResult.CANCELLED:
                assert row["state"] == "CANCELLED"
            if answer is CancelResult.REQUESTED and row in tables["run"]:
                assert row["cancel_requested_at"] is not None
                assert row["state"] == "RUNNING"
    if name.startswith("fire") or name == "advance":
        for answer in result:
            assert answer.status is FireStatus.FIRED or not answer.run_ids
            for run_id in answer.run_ids:
                assert run_id > FIRST_NEW
                the_run(tables, run_id)
    if name.startswith("submit"):
        for answer in result:
            if answer.run_id is not None and answer.run_id > FIRST_NEW:
                the_run(tables, answer.run_id)


def judge_ends(verbs: tuple[Verb, Verb], played: Played) -> None:
    """What two results cannot say of one another."""
    names = [verb.name for verb in verbs]
    results = dict(zip(names, played.results, strict=True))
    ends = {"succeed", "fail", "bury", "hand_back", "lose"} & results.keys()
    if len(ends) == 2 and ends != {
        "fail",
        "bury",
    }:  # one outcome under one token: the second passes for a repeat
        assert [results[name] for name in ends].count([ApplyResult.APPLIED]) <= 1, "two ends of one lease"
    if names[0] == names[1] and names[0] in {"fire", "fire_batch", "advance"}:
        for pair in zip(*played.results, strict=True):
            assert [answer.status for answer in pair].count(FireStatus.FIRED) <= 1, "one fire won twice"
    deletes = [name for name in names if name.startswith("delete")]
    fires = [name for name in names if name.startswith("fire")]
    if deletes and fires and played.ended[0] == "AB"[names.index(deletes[0])]:
        answers = results[fires[0]]
        assert results[deletes[0]] != [ChangeResult.DONE] or answers[-1].status is not FireStatus.FIRED
