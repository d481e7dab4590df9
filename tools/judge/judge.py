"""The entry point: all rules over one history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.judge.access import judge_access
from tools.judge.alerts import judge_alerts
from tools.judge.attempts import judge_effects, judge_ends
from tools.judge.backfills import judge_backfills
from tools.judge.batches import judge_batches, judge_waits
from tools.judge.blackouts import judge_blackouts
from tools.judge.cancels import judge_cancels
from tools.judge.caps import judge_capped_lanes, judge_caps
from tools.judge.dead_letters import judge_dead_letters
from tools.judge.delays import judge_delays
from tools.judge.ends import judge_fires_after_ends
from tools.judge.failures import judge_failures, judge_failures_outside
from tools.judge.fire_counts import judge_fire_counts
from tools.judge.fires import judge_fires, judge_instants
from tools.judge.flows import judge_flows
from tools.judge.intake import judge_intake
from tools.judge.kept_steps import judge_kept_steps
from tools.judge.leases import read_leases
from tools.judge.limits import judge_limits, judge_lines
from tools.judge.misfires import judge_catch_ups, judge_misfires
from tools.judge.model import History, Verdict, Violation
from tools.judge.once import judge_once
from tools.judge.order import judge_deaths, judge_grants, judge_order, judge_passed_over
from tools.judge.outside_limits import judge_limits_outside, judge_lines_outside, judge_live_outside
from tools.judge.outside_once import judge_once_outside
from tools.judge.overlaps import judge_overlaps
from tools.judge.paces import judge_paces
from tools.judge.pauses import judge_pauses, judge_pauses_outside
from tools.judge.preemption import judge_preemption
from tools.judge.reserves import judge_reserves
from tools.judge.runs import Runs
from tools.judge.shares import judge_shares
from tools.judge.starts import judge_starts
from tools.judge.submissions import judge_submissions

RULES = {
    "S1": "every due fire has exactly one record",
    "S2": "no fire is recorded that the job's definition at that time did not owe",
    "S3": "what was acknowledged is never lost, and nothing runs without a request",
    "S4": "one key gives one run",
    "S5": "an at-most-once run starts at most once",
    "S6": "what succeeded was really done",
    "S7": "no attempt starts twice, and the next one starts only after the end of the one before is on record",
    "S8": "no more attempts than allowed, and none before its backoff is over",
    "S9": "a stale holder changes nothing",
    "S10": "one holder at a time, identified by its epoch",
    "S11": "an end is final, and an answered cancel holds",
    "S12": "legal steps only",
    "S13": "what failed for good had used up its attempts",
    "S14": "limits hold: what is under way at a time, and how often it starts",
    "S15": "one holder per key and scope, and the newest payload in the one that waits",
    "S16": "no submission passes the rate of its tenant",
    "S18": "the overlap policy holds",
    "S19": "nothing starts before it is due",
    "S20": "the misfire policy holds, catch-up keeps its pace, and backfills make what they said",
    "S23": "no worker is declared dead because the store is away or takes no writes",
    "S25": "a result comes from the attempt that was accepted",
    "S27": "nothing is stuck",
    "S34": "nothing of what is paused is given out, and only a pause that says so skips fires",
    "S29": "a call has no more runs than its job allows, and all of one key",
    "S35": "nothing is given out while a calendar stops it, and only such a calendar skips fires",
    "S36": "a cluster starts when none of its servers lives",
    "S37": "a fire after the end comes just so long after the end of the run before, and each end has one",
    "S30": "only what may be preempted is, for what is more urgent or reserved, and three times at most",
    "L1": "what is due starts at once",
    "L2": "what is due is fired at once",
    "L3": "what a worker lost is given back in time",
    "L5": "tenants that wait get shares by weight, or go by age",
    "L10": "a line with room does not wait, and no run waits longer for its batch than its job says",
    "L11": "a tenant that is short of reserved slots gets the next free seats",
    "O1": "each failed run of a job that tells of its failures lies in an alert that was told",
    "O2": "nothing is told that did not happen",
    "O3": "an alert is told once, and its end is told once and after it",
    "O4": "what failed for good is open, redriven by one run or discarded, and redrives leave nothing out",
    "O5": "a change that took place has one row in the audit, and one that was refused has none",
    "O6": "a worker that is bound to a tenant gets no run of another one",
    "O7": "where no process was hurt, the counters say how many runs have ended, and how",
    "O9": "nothing is admitted under a token two seconds after it was revoked",
    "W1": "a step starts only once its rule has allowed it",
    "W2": "a step of a workflow's run has one run",
    "W3": "a workflow ends once, after all its steps, and nothing starts after its end or long after its cancel",
    "W4": "every workflow ends as its steps have and its rules say, and leaves no mail and no flow",
    "W5": "a signal or event in time ends the wait of its step, whether it came before or in it; nothing else does",
    "W7": "a workflow is stopped by its deadline, and not before it; a durable function sleeps as long as it says",
    "W9": "a workflow that is paused starts nothing",
    "W12": "what is kept of a step stands, its body never runs again, and each attempt gets what is kept",
    "W14": "a step whose condition is false never runs, and one gets exactly what the step that it names has returned",
    "P1": "a job pauses itself after so many failures in a row, and only then",
}
"""The rules, by their names in the reliability notes."""


def judge(history: History) -> Verdict:
    """Judge a history by all rules."""
    counts: Counter[str] = Counter()
    runs = Runs(history)
    violations = [
        *judge_fires(history, counts),
        *judge_fire_counts(history, counts),
        *judge_instants(history, runs, counts),
        *judge_misfires(history, runs, counts),
        *judge_catch_ups(history, counts),
        *judge_backfills(history, runs, counts),
        *judge_paces(history, counts),
        *judge_submissions(history, runs, counts),
        *judge_once(history, runs, counts),
        *judge_intake(history, runs, counts),
        *judge_effects(history, runs, counts),
        *judge_ends(history, runs, counts),
        *judge_kept_steps(history, runs, counts),
        *judge_cancels(history, runs, counts),
        *judge_order(history, counts),
        *judge_grants(history, counts),
        *judge_deaths(history, counts),
        *judge_passed_over(history, runs, counts),
        *judge_delays(history, runs, counts),
        *judge_shares(history, runs, counts),
        *judge_reserves(history, runs, counts),
        *judge_limits(history, runs, counts),
        *judge_lines(history, runs, counts),
        *judge_caps(history, runs, counts),
        *judge_capped_lanes(history, runs, counts),
        *judge_overlaps(history, runs, counts),
        *judge_failures(history, counts),
        *judge_pauses(history, runs, counts),
        *judge_batches(history, runs, counts),
        *judge_waits(history, runs, counts),
        *_judge_outside(history, runs, counts),
        *judge_blackouts(history, runs, counts),
        *judge_preemption(history, runs, counts),
        *judge_starts(history, counts),
        *judge_fires_after_ends(history, counts),
        *judge_dead_letters(history, runs, counts),
        *judge_alerts(history, runs, counts),
        *judge_access(history, runs, counts),
        *judge_flows(history, counts),
    ]
    return Verdict(tuple(violations), dict(sorted(counts.items())))


def _judge_outside(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """Judge by what is surely so, where no transitions were recorded."""
    if history.events:
        return
    leases = read_leases(history, runs)
    yield from judge_limits_outside(history, runs, leases, counts)
    yield from judge_lines_outside(history, runs, leases, counts)
    yield from judge_live_outside(history, leases, counts)
    yield from judge_once_outside(history, runs, leases, counts)
    yield from judge_pauses_outside(history, runs, leases, counts)
    yield from judge_failures_outside(history, counts)
