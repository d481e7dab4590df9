"""Chosen triples of writing verbs: where a third one can come between what two do to one another (design 8).

`INTERLEAVINGS=all` plays many more orders of each.
"""

import asyncio

import pytest

from tests.interleavings.bench import Bench
from tests.interleavings.cases import VERBS
from tests.interleavings.search import ALL, judge_verbs
from tests.interleavings.test_pairs import PIECEMEAL

SAMPLE, LARGE_SAMPLE = 20, 400

TRIPLES = (
    # one lease, three who end it or speak for it
    "succeed lose cancel_batch",
    "succeed hand_back cancel_batch",
    "fail lose beat",
    "hand_back expire_session claim",
    "lose expire_session beat",
    "lose claim cancel_batch",
    "succeed expire_session prune_sessions",
    "apply_batch apply_backwards cancel_batch",
    "apply_batch expire_session claim_batch",
    # one run, two who want it, and a third that takes it away
    "claim claim_first cancel",
    "claim claim_first expire_runs",
    "claim claim_again close_sessions",
    "claim_quarantined claim_first cancel_batch",
    "claim_quarantined beat expire_session",
    # one place under a limit, two who want it, and an end that makes room for another
    "claim_lined_up_first claim_lined_up_second end_limited",
    "claim_lined_up_first claim_lined_up_second lose_limited",
    "claim_lined_up_second end_limited prune_limits",
    "claim_lined_up_second set_limit submit_lined_up",
    "add_with_limit edit_with_limit delete_limit",
    # a pause, and two whose claims were chosen before it
    "claim claim_first pause_all",
    "claim_batch claim_quarantined pause_queues",
    "claim_lined_up_first claim_lined_up_second pause_queues",
    "speculative_claim submit_straight_first pause_all",
    "claim pause_queues resume_queues",
    # a blackout and its calendar, and a claim that was chosen before it began
    "claim set_blackouts begin_blackouts",
    "claim write_calendar set_blackouts",
    "set_blackouts write_calendar delete_calendar",
    "claim_first begin_blackouts pause_all",
    # one fire, two who record it, and a change of its job or of its shard
    "fire fire edit",
    "fire fire pause",
    "fire fire delete",
    "fire edit take",
    "fire_outlined fire edit",
    "fire_outlined fire_outlined delete",
    "fire_outlined edit take",
    "fire_outlined fire_outlined_batch prune_lanes",
    "fire_outlined_batch take release",
    "fire_outlined_batch fire_batch pause",
    "fire take leave",
    "fire take release",
    "take take expire_node",
    "beat_node expire_node take",
    "fire_batch advance take",
    "advance_backfill cancel_backfill pause_backfill",
    "advance_backfill add_backfill delete_batch",
    "fire_batch pause_quiet advance",
    "fire_batch edit_batch delete_batch",
    "advance delete_batch take",
    # one job, three who change it, or who take one name
    "edit pause delete",
    "edit_batch resume delete_batch",
    "rename rename_other add_fresh",
    "rename add_fresh delete",
    # rows that come and go
    "submit_new_lanes submit_keyed prune_lanes",
    "submit_old_key submit_old_key prune_keys",
    "submit_plain delete_batch prune_lanes",
    # keys of what runs once, their holders, and who else wants these
    "submit_once submit_once submit_once",
    "submit_successor submit_successor prune_unique_keys",
    "submit_once_batch submit_successor prune_unique_keys",
    "submit_beside_held succeed prune_unique_keys",
    "submit_beside_held submit_beside_held lose",
    "submit_replacing claim cancel",
    "submit_replacing submit_replacing expire_runs",
    # a run that goes straight to a session, and what happens to its lane, its job and the session
    "submit_straight submit_plain claim",
    "submit_straight claim close_sessions",
    "submit_straight submit_straight delete_batch",
    "submit_straight_first beat expire_session",
    "submit_straight edit_batch prune_lanes",
    # one id of an event, who else uses it, and whom the event starts
    "publish publish publish_backwards",
    "publish_batch publish_backwards prune_keys",
    "publish listen stop_listening",
    "publish_batch publish_cancelling stop_listening",
    "publish_cancelling publish_cancelling claim",
    "publish_batch prune_lanes prune_events",
)

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(0 if ALL else 60)]


@pytest.mark.parametrize("names", TRIPLES)
def test_triple(bench: Bench, runner: asyncio.Runner, names: str) -> None:
    verbs = tuple(VERBS[name] for name in names.split())
    limit = LARGE_SAMPLE if ALL else SAMPLE
    is_serial = not any(pair <= set(names.split()) for pair in PIECEMEAL)
    played, possible = runner.run(judge_verbs(bench, verbs, limit=limit, is_serial=is_serial))
    print(f"{names}: {played} orders played of {possible} at most")
