"""Replays an outage of all processes, once for each misfire policy: fires owed, and fires on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mainspring.core.model import Misfire
from tools.simulator.plan import Action, FaultPlan, JobPlan, Plan
from tools.simulator.run import Result, simulate

_BEGINS = 30.0
_AFTER = 300.0
"""Seconds from the end of the outage to that of the story, besides those in which missed fires are made up for."""
_PACE = 250.0
"""Missed fires that are surely made up for in a second: twice in it, 50 jobs take their turns, of 5 fires each."""
_TRIGGERS = ({"every": "10m"}, {"every": "1h"}, {"cron": "*/15 * * * *"}, {"cron": "7 3 * * *"})
_FIRES_A_DAY = (144, 24, 96, 1)


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of the fires of one policy.

    Attributes:
        expected: fires that the jobs owed.
        run: those that became runs.
        left_out: those that are on record as left out.
        catch_ups_open: fire ranges of which some fires are still to be made.
    """

    policy: Misfire
    jobs: int
    expected: int
    run: int
    left_out: int
    catch_ups_open: int
    result: Result

    @property
    def difference(self) -> int:
        """Fires owed without a record."""
        return self.expected - self.run - self.left_out

    @property
    def is_good(self) -> bool:
        """Whether nothing is missing or still to be made, and no rule was broken."""
        return not self.difference and not self.catch_ups_open and self.result.is_good


def replay_outage(seconds: float, *, jobs: int) -> Iterator[Replay]:
    """Replay an outage of so many seconds with so many jobs, once for each policy."""
    for policy in Misfire:
        result = simulate(make_outage(seconds, policy, jobs))
        counts = result.verdict.counts
        yield Replay(
            policy=policy,
            jobs=jobs,
            expected=counts["fires_expected"],
            run=counts.get("fires_run", 0),
            left_out=counts.get("fires_skipped", 0) + counts.get("fires_in_fire_ranges", 0),
            catch_ups_open=counts.get("catch_ups_open", 0),
            result=result,
        )


def make_outage(seconds: float, policy: Misfire, jobs: int) -> Plan:
    """Make the plan: all processes are killed, and start again after so many seconds."""
    owed = seconds / 86_400 * jobs / len(_TRIGGERS) * sum(_FIRES_A_DAY)
    plans = tuple(
        JobPlan(
            name=f"job-{number}",
            body={
                **_TRIGGERS[number % len(_TRIGGERS)],
                "misfire": {"policy": policy.value, "grace": "5s"},
                "catch_up": {"rate": "5/s", "max_live": 20},
            },
            seconds=(0.0, 0.02),
        )
        for number in range(jobs)
    )
    creates = tuple(
        Action(at=round(1 + 20 * number / jobs, 3), kind="create", job=plan.name)
        for number, plan in enumerate(plans)
    )
    return Plan(
        seed=0,
        servers=1,
        workers=(False, False),
        slots=20,
        seconds=_BEGINS + seconds + owed / _PACE + _AFTER,
        beat_period=2.0,
        latency=0.002,
        failure_rate=0.0,
        drift=0.0,
        jobs=plans,
        actions=creates,
        faults=tuple(
            FaultPlan(at=_BEGINS, seconds=seconds, kind="kill", target=target)
            for target in ("server-0", "worker-0", "worker-1")
        ),
    )
