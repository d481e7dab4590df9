"""Runs many seeds on all cores, with progress. A campaign is void if something that it must meet never happened.

python -m tools.simulator --seeds 20000
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from tools.simulator.draw import make_plan
from tools.simulator.plan import (
    ALERT_VERBS,
    BACKFILL_VERBS,
    BLACKOUT_VERBS,
    CAP_VERBS,
    CRASH_VERBS,
    END_VERBS,
    FLOW_VERBS,
    INTAKE_VERBS,
    KEPT_VERBS,
    LOOK_VERBS,
    PAUSE_VERBS,
    PREEMPTION_VERBS,
    REDRIVE_VERBS,
    RESERVE_VERBS,
)
from tools.simulator.run import simulate

REQUIRED = (
    "lease_expired_while_its_holder_lives",
    "stale_write_refused",
    "lease_reported_by_a_stranger",
    "commit_whose_answer_was_lost",
    "answer_between_processes_lost",
    "two_nodes_planned_the_same_fire",
    "fire_fenced",
    "fire_lost",
    "fires_in_a_set",
    "fire_in_a_set_lost",
    "shards_taken_from_a_living_node",
    "cancel_raced_completion",
    "claim_answer_repeated",
    "claim_under_a_dead_session",
    "report_repeated",
    "submission_repeated",
    "submission_went_straight",
    "submission_did_not_go_straight",
    "submission_existing",
    "submission_replaced",
    "submission_debounced",
    "submission_throttled",
    "submission_rejected",
    "submission_repeated_that_made_no_run",
    "once_live",
    "once_queued",
    "once_period",
    "once_debounce",
    "once_throttle",
    "edit_lost_to_another_change",
    "lease_unknown_to_its_worker",
    "lease_waited_for_a_slot",
    "holder_told_of_a_loss",
    "job_killed_its_worker",
    "fault_full",
    "request_between_processes_carried_out_late",
    "store_call_carried_out_late",
    "node_refused_clock",
    "node_refused_tzdata",
    "node_came_back_after_clock",
    "node_came_back_after_tzdata",
    "misfires_skip",
    "misfires_fire_latest",
    "misfires_fire_all",
    "overlaps_skipped",
    "fires_in_fire_ranges",
    "repeats_explained",
    *("failures_by_a_rule_retry", "failures_by_a_rule_retry_at_last", "failures_by_a_rule_fail_at_last"),
    *("failures_by_a_rule_snooze", "failures_by_a_rule_snooze_at_last"),
    *("crashes_by_a_rule_retry", "crashes_by_a_rule_snooze", "crashes_by_a_rule_fail_at_last"),
    *("cluster_starts_again", "cluster_starts_owed"),
    *("fires_after_ends", "fires_after_edits", "fires_after_pauses", "fires_after_ends_owed"),
    "shares_compared",
    "ages_compared",
    *("seats_of_reserves", "seats_beside_reserves"),
    *(
        "runs_started_in_line",
        "fires_waited_in_line",
        "fires_skipped_as_one_waited",
        "fires_cancelled_others",
    ),
    *("fires_skipped_for_a_newer_one", "runs_that_made_way"),
    *("fire_asked_a_run_to_stop", "fire_cancelled_a_waiting_run"),
    *("job_paused_by_itself", "jobs_resumed_after_failures"),
    *("fires_left_out_by_a_calendar", "fires_moved_by_a_calendar"),
    "job_set_by_a_new_calendar",
    *("lane_paused", "pause_lifted", "claim_under_an_old_policy_epoch"),
    *("claims_beside_a_pause", "fires_skipped_by_a_pause"),
    *("blackouts_set", "blackout_follows_its_calendar", "blackout_begun"),
    *("claims_beside_a_blackout", "fires_skipped_by_a_blackout", "fires_beside_a_skipping_blackout"),
    *("caps_reached", "places_kept", "starts_under_rates", "line_stopped_by_a_cap", "line_stopped_by_a_rate"),
    *("claim_of_batches", "batches_full", "batches_not_full", "waits_for_batches"),
    *("refused_by_a_full_queue", "refused_by_a_full_tenant", "refused_by_a_rate", "bulk_refused_whole"),
    *("submissions_refused", "submissions_under_rates", "expired_by_their_queue", "expired_by_their_job"),
    "fire_beside_a_full_queue",
    *("cap_set", "cap_unset", "starts_under_caps", "lane_caps_reached", "capped_lanes_followed"),
    *("preemption_requested", "attempts_preempted", "preempted_runs_done"),
    *("runs_that_succeeded_though_asked", "asked_for_a_reserve"),
    *("backfills_done", "backfills_cancelled", "backfills_full", "backfill_cut_by_an_edit"),
    *("runs_redriven", "redrives_done", "redrives_cancelled", "redrives_paused"),
    *("dead_letters_open", "dead_letters_redriven", "dead_letters_discarded", "dead_letter_settled_before"),
    *("alerts_told", "alerts_ended", "failures_watched", "messages_told_again", "alerts_fenced"),
    *("message_lost", "answer_of_a_channel_lost"),
    *("changes_audited", "changes_refused", "starts_at_a_bound_worker", "ends_counted"),
    *("tokens_admitted", "tokens_refused"),
    *("flow_started", "flow_turned", "flow_lost", "flow_fenced", "flow_cancelled_its_steps"),
    *("flow_starts_judged", "flows_failed", "flows_cancelled", "flows_redriven", "flow_steps_taken_over"),
    "flow_undos_judged",
    *(
        "step_kept",
        "step_known",
        "step_stale",
        "step_killed_its_worker",
        "steps_given_again",
        "sleeps_judged",
    ),
    *("catch_ups_paced", "catch_ups_full"),
    *("fires_counted", "jobs_finished", "jobs_finished_by_a_catch_up", "counts_kept_by_an_edit"),
    *("backfill_fires_made", "backfill_fires_skipped", "backfill_step_lost", "backfill_in_the_way"),
    *(
        f"crash_{moment}_{verb}"
        for verb in (
            *(*CRASH_VERBS, *LOOK_VERBS, *INTAKE_VERBS, *PAUSE_VERBS, *BLACKOUT_VERBS, *CAP_VERBS),
            *(*BACKFILL_VERBS, *RESERVE_VERBS, *PREEMPTION_VERBS, *END_VERBS, *REDRIVE_VERBS, *ALERT_VERBS),
            *KEPT_VERBS,
            *(verb for verb in FLOW_VERBS if verb not in CRASH_VERBS),
        )
        for moment in ("before", "after")
    ),
)
"""What a campaign must meet, each at least once; otherwise it is void."""
NEEDS_SEVERAL_NODES = {
    *("two_nodes_planned_the_same_fire", "fire_fenced", "fire_lost", "fire_in_a_set_lost"),
    *("shards_taken_from_a_living_node", "crash_before_release_shards", "crash_after_release_shards"),
    *(
        "node_refused_clock",
        "node_refused_tzdata",
        "node_came_back_after_clock",
        "node_came_back_after_tzdata",
    ),
    *("store_call_carried_out_late", "alerts_fenced", "flow_fenced", "flow_lost"),
    "fires_beside_a_skipping_blackout",
}
"""What cannot happen if one process holds the store."""


@dataclass(slots=True)
class Tally:
    """The results of a campaign so far.

    Attributes:
        failed: seeds that broke a rule, with the first violation of each.
        virtual: seconds of simulated time.
        spent: seconds of real time.
    """

    store: str = "memory"
    seeds: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)
    virtual: float = 0.0
    faults: int = 0
    spent: float = 0.0

    @property
    def never_met(self) -> list[str]:
        """What the campaign never met, which makes it void."""
        required = REQUIRED if self.store == "memory" else set(REQUIRED) - NEEDS_SEVERAL_NODES
        return [name for name in REQUIRED if name in required and not self.met[name]]

    def summary(self) -> dict[str, object]:
        """Return the results as plain values for JSON."""
        minutes = max(self.spent, 1e-9) / 60
        return {
            "store": self.store,
            "seeds": self.seeds,
            "failed": sorted(self.failed),
            "faults": self.faults,
            "fires": self.met["fires_expected"],
            "attempts": self.met["effects"],
            "virtual_days": round(self.virtual / 86_400, 2),
            "seconds": round(self.spent, 1),
            "seeds_per_minute": round(self.seeds / minutes),
            "virtual_days_per_minute": round(self.virtual / 86_400 / minutes, 2),
            "never_met": self.never_met,
        }


def run_campaign(
    first: int, count: int, *, processes: int | None = None, store: str = "memory"
) -> Iterator[Tally]:
    """Simulate this many seeds, starting with `first`. Yield the same tally, updated, after each seed."""
    tally = Tally(store=store)
    started = time.perf_counter()
    workers = processes or os.cpu_count() or 1
    # The parent handles Ctrl-C.
    quiet = (signal.SIGINT, signal.SIG_IGN)
    pool_of = partial(multiprocessing.get_context("spawn").Pool, maxtasksperchild=500)
    with pool_of(workers, initializer=signal.signal, initargs=quiet) as pool:
        for outcome in pool.imap_unordered(
            partial(_simulate_seed, store), range(first, first + count), chunksize=4
        ):
            _add(tally, *outcome)
            tally.spent = time.perf_counter() - started
            yield tally


def _add(
    tally: Tally, seed: int, met: Counter[str], seconds: float, faults: int, story: Sequence[str]
) -> None:
    tally.seeds += 1
    tally.met.update(met)
    tally.virtual += seconds
    tally.faults += faults
    if story:
        tally.failed[seed] = "\n".join(story)


def _simulate_seed(store: str, seed: int) -> tuple[int, Counter[str], float, int, list[str]]:
    result = simulate(make_plan(seed, store=store))
    met = Counter(result.reached)
    met.update(result.verdict.counts)
    story = [] if result.is_good else [*map(str, result.verdict.violations[:1]), *result.errors[:1]]
    return seed, met, result.seconds, len(result.plan.faults), story
