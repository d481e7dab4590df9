"""`make proof-peer`: the judge on a system that is known to fail, and on the same system where it does not.

Exit code 0: it accused Celery on Redis in both experiments, by the rules that were to be broken, and not in the
control. 1: it did not.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos.peers.celery_history import Observations, Record, Submission, build_history
from tests.chaos.peers.surroundings import Peer, celery, make_environment
from tools.judge import RULES, Fault, Verdict, Violation, judge

WORKERS = ("one@peer", "two@peer")
SLOTS = 2
"""Of each worker."""
LONGEST = 60.0
"""Seconds after which an experiment is read even if it is not quiet."""
SWEEP = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}
"""Look once a second for messages whose time-out is over, where the default is every 100 s beside one hour."""

Plan = list[dict[str, Any]]
Nemesis = Callable[[Peer], list[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is run, and what the judge must say of it.

    Attributes:
        visibility: after so many seconds Redis's message of a task that nobody acknowledged is delivered again.
        rules: those that must be found broken; none for the control, where none may be.
        patience: how long Celery is given to notice that a worker is dead.
    """

    name: str
    plan: Plan
    visibility: int
    patience: int
    rules: frozenset[str]
    nemesis: Nemesis | None = None


def kill_busy_workers(peer: Peer) -> list[Fault]:
    """Kill the workers in turn while they carry something out, and start each again."""
    faults: list[Fault] = []
    seen = dict.fromkeys(WORKERS, 0)
    for name in (*WORKERS, *WORKERS):
        deadline = time.monotonic() + LONGEST / 4
        while not is_busy(peer.acts()[seen[name] :], name) and time.monotonic() < deadline:
            time.sleep(0.02)
        at = datetime.now(UTC)
        peer.kill(name)
        seen[name] = len(peer.acts())
        peer.start(name, slots=SLOTS)
        peer.ask("ready", len(WORKERS))
        faults.append(Fault(kind="kill", target=name, at=at, until=datetime.now(UTC)))
    return faults


def is_busy(acts: Sequence[str], worker: str) -> bool:
    """Say whether all slots of a worker are taken."""
    mine = [words for words in map(str.split, acts) if len(words) == 5 and words[3] == worker]
    ended = {words[2] for words in mine if words[0] == "end"}
    return sum(words[2] not in ended for words in mine) >= SLOTS


def tasks(count: int, *names: str, seconds: float, delay: float = 0) -> Plan:
    """Return a plan of so many tasks of each name."""
    return [{"task": name, "seconds": seconds, "delay": delay} for _ in range(count) for name in names]


AHEAD = tasks(12, "early", "late", seconds=0.2, delay=9)
AT_ONCE = tasks(40, "early", "tracked", seconds=0.5)
EXPERIMENTS = (
    Experiment(
        name="ETA of 9 s, visibility time-out of 3 s, nobody killed",
        plan=AHEAD,
        visibility=3,
        patience=3,
        rules=frozenset({"S5", "S7"}),
    ),
    Experiment(
        name="early acknowledgement, four kills of a busy worker",
        plan=AT_ONCE,
        visibility=6,
        patience=6,
        rules=frozenset({"S3", "S27"}),
        nemesis=kill_busy_workers,
    ),
    Experiment(
        name="control: both loads, visibility time-out of 60 s, nobody killed",
        plan=AT_ONCE + AHEAD,
        visibility=60,
        patience=3,
        rules=frozenset(),
    ),
)


def observe(experiment: Experiment, python: Path, folder: Path) -> Observations:
    """Run an experiment until all is quiet, and return what was seen."""
    options = {"visibility_timeout": experiment.visibility, **SWEEP}
    with celery(python, folder, options, workers=WORKERS, slots=SLOTS) as peer:
        print(f"\n== {experiment.name}\n   {peer.ask('versions', None)}", flush=True)
        submissions = [Submission(**told) for told in peer.ask("submit", experiment.plan)]
        faults = experiment.nemesis(peer) if experiment.nemesis else []
        calm = max([submissions[-1].due, *(fault.until.timestamp() for fault in faults)])
        earliest, latest = calm + 2 * experiment.patience + 1, calm + LONGEST
        while True:
            answer = peer.ask("read", [item.id for item in submissions])
            if time.time() > latest or (time.time() > earliest and not answer["held"]):
                break
            time.sleep(0.5)
        return Observations(
            submissions=submissions,
            acts=peer.acts(),
            records={task_id: Record(**record) for task_id, record in answer["records"].items()},
            held=frozenset(answer["held"]),
            faults=faults,
            read_at=time.time(),
            patience=timedelta(seconds=experiment.patience),
            slots=SLOTS * len(WORKERS),
        )


def is_as_known(experiment: Experiment, verdict: Verdict) -> bool:
    """Say whether the judge said what it must."""
    if experiment.rules:
        return experiment.rules <= {found.rule for found in verdict.violations}
    return verdict.is_good and verdict.counts.get("runs_succeeded") == len(experiment.plan)


def report(experiment: Experiment, seen: Observations, verdict: Verdict) -> None:
    """Print what was run and what the judge said."""
    starts = sum(line.startswith("start ") for line in seen.acts)
    by_rule: dict[str, list[Violation]] = {}
    for found in verdict.violations:
        by_rule.setdefault(found.rule, []).append(found)
    states = Counter(seen.records[item.id].status for item in seen.submissions)
    print(
        f"   {len(seen.submissions)} tasks acknowledged, {starts} executions begun, {len(seen.faults)} kills"
    )
    print(f"   Celery says: {', '.join(f'{count} {state}' for state, count in sorted(states.items()))}")
    for rule, mine in sorted(by_rule.items()):
        subjects = len({found.subject for found in mine})
        print(f"   {rule}, {RULES[rule]}: {len(mine)} violations, {subjects} tasks")
    for _, mine in sorted(by_rule.items()):
        told = [found for found in mine if len(found.story) > 1] or mine
        print("   " + str(min(told, key=lambda found: len(found.story))).replace("\n", "\n   "))
    word = "as it must be" if is_as_known(experiment, verdict) else "NOT WHAT IS KNOWN"
    print(f"   {len(verdict.violations)} violations: {word}", flush=True)


def main() -> int:
    """Run all experiments and report."""
    python = make_environment(Path(__file__).with_name("celery.txt"))
    is_good = True
    for experiment in EXPERIMENTS:
        folder = Path(tempfile.mkdtemp(prefix="mainspring-peer-"))
        seen = observe(experiment, python, folder)
        verdict = judge(build_history(seen))
        report(experiment, seen, verdict)
        is_good = is_good and is_as_known(experiment, verdict)
        shutil.rmtree(folder)
    print("\nthe judge accuses whom it must" if is_good else "\nthe judge is not to be trusted")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
