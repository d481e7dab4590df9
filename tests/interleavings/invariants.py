"""What must be true at the end of every order of any verbs."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import asyncpg

from mainspring.core.applying import CancelVerdict
from mainspring.core.checkpoints import CheckpointVerdict
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.schedule import FireStatus
from tests.interleavings.bench import Tables
from tests.interleavings.cases import FIRST_NEW, Scene, Verb
from tests.interleavings.gate import Played

Verbs = tuple[Verb, ...]


def judge(scene: Scene, verbs: Verbs, played: Played, tables: Tables) -> None:
    """Hold the end against what must be true whatever the order."""
    try:
        judge_runs(scene, tables)
        judge_flows(tables)
        judge_clocks(scene, verbs, played, tables)
        for verb, result in zip(verbs, played.results, strict=True):
            judge_result(scene, verb, result, tables)
        judge_ends(verbs, played)
        deadlocks = [error for error in played.errors if isinstance(error, asyncpg.DeadlockDetectedError)]
        assert not deadlocks, deadlocks
    except AssertionError as error:
        error.add_note("\n".join([f"trace {played.trace}", *played.script, f"results {played.results}"]))
        raise


ENDS = {"succeed", "fail", "bury", "hand_back", "lose"}


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
    assert {scene.waiting, scene.held.run_id, scene.other.run_id, scene.quarantined} <= set(ids), (
        "a run is gone"
    )
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
    alone = [row["session_id"] for row in tables["run"] if row["is_quarantined"]]
    assert all(sessions.count(session) == 1 for session in alone), "a session has more than its run alone"
    bounds = {row["id"]: row["held_from"] for row in tables["session"]}
    held = [row for row in tables["run"] if row["session_id"]]  # the engine's leases have no claim
    assert all(row["claim_number"] >= bounds[row["session_id"]] for row in held), (
        "a lease lies before its bound"
    )
    running = [row["id"] for row in tables["run"] if row["state"] == "RUNNING"]
    keyed_runs = [row for row in tables["run"] if row["key_id"] is not None and row["id"] in running]
    under_limit = [row["id"] for row in keyed_runs]
    of_limit = [row for row in keyed_runs if row["job_id"] == str(scene.limited.id)]
    assert len(of_limit) <= 1, "more runs are under way than the limit says"
    batches = Counter(
        (row["session_id"], row["claim_number"])
        for row in keyed_runs
        if row["job_id"] == str(scene.batched.id)
    )
    assert all(count <= 2 for count in batches.values()), "a batch has more runs than it may have"
    places = {(row["run_id"], row["token"]) for row in tables["key_hold"]}
    tokens = {row["id"]: row["token"] for row in tables["run"]}
    assert all((run_id, tokens[run_id]) in places for run_id in under_limit), "a run has no place"
    sections: dict[int, str] = {
        row["id"]: row["backfill_id"] for row in tables["fire_range"] if row["backfill_id"] is not None
    }
    made = [
        sections[row["fire_range_id"]]
        for table in ("run", "run_history", "dead_run")
        for row in tables[table]
        if row["fire_range_id"] in sections
    ]
    for backfill in tables["backfill"]:
        assert backfill["made"] == made.count(backfill["id"]), "a backfill has made other runs than it counts"
    open_backfills = [row for row in tables["backfill"] if row["state"] in {"open", "paused"}]
    assert len(open_backfills) <= 1, "two backfills are under way in one range"
    keyed = {row["run_id"] for row in tables["idempotency"]}
    assert keyed - {0} <= set(ids), "a key names a run that does not exist"


def judge_flows(tables: Tables) -> None:
    steps = [
        (row["flow_id"], row["step"])
        for table in ("run", "run_history", "dead_run")
        for row in tables[table]
        if row["flow_id"] is not None
    ]
    assert len(steps) == len(set(steps)), "a step has two runs"
    flows = {row["id"]: row for row in tables["flow"]}
    held = {row["id"] for row in tables["run"] if row["session_id"] == 0}
    assert flows.keys() == held, "flows and the engine's leases disagree"
    assert {row["flow_id"] for row in tables["flow_value"]} <= flows.keys(), "values are left of a flow"
    told = [(row["flow_id"], row["step"]) for row in tables["mail"] if row["step"] is not None]
    assert len(told) == len(set(told)), "an end was told twice"
    for flow_id, flow in flows.items():
        live = sum(row["flow_id"] == flow_id for row in tables["run"])
        assert flow["live"] == live + sum(told_to == flow_id for told_to, _ in told), "an end was not told"
    asked = [row["flow_id"] for row in tables["mail"] if row["what"] == "cancel"]
    for row in tables["run"]:
        if (
            row["session_id"] == 0
            and row["cancel_requested_at"] is not None
            and flows[row["id"]]["revision"] == 0
        ):
            assert asked.count(row["id"]) == 1, "a cancel was not told, or told twice"


def judge_clocks(scene: Scene, verbs: Verbs, played: Played, tables: Tables) -> None:
    clocks = {clock["job_id"]: clock for clock in tables["job_clock"]}
    for job in tables["job"]:
        clock = clocks.pop(job["id"], None)
        assert (clock is None) == (job["deleted_at"] is not None), "clock and job disagree"
        open_fire_ranges = [
            fire_range
            for fire_range in tables["fire_range"]
            if fire_range["job_id"] == job["id"] and fire_range["is_open"]
        ]
        gaps = [fire_range for fire_range in open_fire_ranges if fire_range["kind"] == "gap"]
        if clock is None:
            assert not open_fire_ranges, "a deleted job has an open fire range"
            continue
        if job["is_paused"]:
            assert clock["next_fire_at"] is None
        assert (clock["due_at"] is None) == (clock["next_fire_at"] is None)
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
            "edit_into_line": [scene.quiet],
            "edit_with_limit": [scene.quiet],
            "pause_quiet": [scene.quiet],
            "resume": [scene.paused],
            "edit_batch": [scene.paused, scene.quiet, scene.job],
            "edit_calendars": [scene.job],
            "replan": [scene.quiet, scene.job],
        }.get(verb.name, [])
        for changed, answer in zip(jobs, result if jobs else [], strict=True):
            took = answer is ChangeVerdict.DONE
            changes[str(changed.id)] = changes.get(str(changed.id), 0) + took
        for job_id in _raised_by_owners(scene, verb, result):
            changes[str(job_id)] = changes.get(str(job_id), 0) + 1
    # A second pause is DONE without effect.
    names = [verb.name for verb in verbs]
    idle_pauses = max(names.count(name) - 1 for name in ("pause", "pause_quiet", "resume"))
    for known in (scene.job, scene.quiet, scene.paused):
        for clock in tables["job_clock"]:
            if clock["job_id"] == str(known.id):
                raised = clock["revision"] - known.revision
                assert raised == changes.get(str(known.id), 0) - max(idle_pauses, 0) * (raised == 1)


def _raised_by_owners(scene: Scene, verb: Verb, result: Any) -> Iterator[JobId]:
    """Yield the jobs whose clocks an apply or an owner has raised, once for each time."""
    if verb.name == "own":
        yield from result.defined
    elif verb.name in _EDITED_BY_APPLY and result is not None:
        yield from (job.id for job in _EDITED_BY_APPLY[verb.name](scene))
        for owned in result:
            yield from owned.defined


_EDITED_BY_APPLY: dict[str, Callable[[Scene], Sequence[Job]]] = {
    "apply_jobs": lambda scene: [scene.job],
    "apply_crossing": lambda scene: [scene.quiet, scene.paused],
    "listen": lambda scene: [scene.quiet],
}


STEPS = {
    "keep_steps": ("held", "other", r"\x31"),
    "keep_steps_backwards": ("other", "held", r"\x32"),
    "keep_steps_late": ("held", "other", r"\x33"),
}
"""Of whose steps, and what they have come to."""


def judge_steps(scene: Scene, name: str, result: Any, tables: Tables) -> None:
    """What was kept stands, what is known is there, and a late holder keeps nothing."""
    *whose, value = STEPS[name]  # values are read as PostgreSQL writes bytes
    kept = {row["run_id"]: row for row in tables["checkpoint"]}
    for run, verdict in zip(whose, result, strict=True):
        row = kept.get(getattr(scene, run).run_id)
        if verdict is CheckpointVerdict.KEPT:
            assert row is not None
            assert (row["value"], row["token"]) == (value, getattr(scene, run).token)
        assert verdict is not CheckpointVerdict.KNOWN or row is not None
    assert name != "keep_steps_late" or result[0] is CheckpointVerdict.STALE


def judge_result(  # noqa: PLR0912 -- one verb after the other
    scene: Scene, verb: Verb, result: Any, tables: Tables
) -> None:
    name = verb.name
    if name == "claim" or name.startswith(("claim_", "submit_straight")):
        for leased in (run for answer in result for run in answer.runs):
            row = the_run(tables, leased.run_id)
            assert row["token"] >= leased.token, "a token went back"
            if row["token"] == leased.token:
                assert row["state"] in {"RUNNING", "SUCCEEDED", "CANCELLED", "FAILED"}
            else:
                ends = [(end["run_id"], end["token"]) for end in tables["attempt"]]
                assert (leased.run_id, leased.token) in ends, "a lease ended without a record"
    held = the_run(tables, scene.held.run_id)
    if result == [ApplyResult.APPLIED] and not name.endswith(("_limited", "_step")):
        if name == "succeed":
            assert (held["state"], held["token"]) == ("SUCCEEDED", scene.held.token)
        else:
            assert scene.held.token in {
                end["token"] for end in tables["attempt"] if end["run_id"] == scene.held.run_id
            }
            assert held["state"] != "SUCCEEDED"
    if name == "write_logs":
        kept = {(row["run_id"], row["token"]) for row in tables["log_chunk"]}
        told = {(row["run_id"], row["token"]) for row in tables["run_progress"]}
        leases = [(run.run_id, run.token) for run in (scene.other, scene.held)]
        assert kept == told == {lease for lease, is_held in zip(leases, result, strict=True) if is_held}
    if name in STEPS:
        judge_steps(scene, name, result, tables)
    if name in {"cancel", "cancel_batch"}:
        runs = (scene.waiting, scene.held.run_id, scene.quarantined, scene.other.run_id)
        for run_id, answer in zip(runs, result, strict=False):
            row = the_run(tables, run_id)
            if answer is CancelVerdict.CANCELLED:
                assert row["state"] == "CANCELLED"
            if answer is CancelVerdict.REQUESTED and row in tables["run"]:
                assert row["cancel_requested_at"] is not None
                assert row["state"] == "RUNNING"
    if name.startswith("fire") or name == "advance":
        for answer in result:
            assert answer.status is FireStatus.FIRED or not answer.run_ids
            for run_id in answer.run_ids:
                assert run_id > FIRST_NEW
                the_run(tables, run_id)
    if name.startswith("submit") and not name.startswith("submit_straight"):
        for answer in result:
            if answer.run_id is not None and answer.run_id > FIRST_NEW:
                the_run(tables, answer.run_id)


def judge_ends(verbs: Verbs, played: Played) -> None:
    """What two results cannot say of one another."""
    sides = [
        (verb.name, result, played.ended.index(letter))
        for verb, result, letter in zip(verbs, played.results, "ABC", strict=False)
    ]
    for (one, answer, ended), (other, reply, other_ended) in itertools.combinations(sides, 2):
        # One outcome under one token: the second passes for a repeat.
        if {one, other} <= ENDS and one != other and {one, other} != {"fail", "bury"}:
            assert [answer, reply].count([ApplyResult.APPLIED]) <= 1, "two ends of one lease"
        if one.startswith("fire") and other.startswith("fire"):  # each fires the scene's job last
            fired = [answer[-1].status, reply[-1].status]
            assert fired.count(FireStatus.FIRED) <= 1, "one fire won twice"
        if one == other and (one.startswith("fire") or one == "advance"):
            for pair in zip(answer, reply, strict=True):
                assert [item.status for item in pair].count(FireStatus.FIRED) <= 1, "one fire won twice"
        if one.startswith("delete") and other.startswith("fire") and ended < other_ended:
            _judge_fire_of_the_deleted(answer, reply)
        if other.startswith("delete") and one.startswith("fire") and other_ended < ended:
            _judge_fire_of_the_deleted(reply, answer)


def _judge_fire_of_the_deleted(deleted: Any, fired: Any) -> None:
    assert deleted != [ChangeVerdict.DONE] or fired[-1].status is not FireStatus.FIRED
