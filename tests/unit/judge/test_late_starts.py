"""S7, S11: what a worker could not know excuses a start after the record of the loss, and nothing else does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from mainspring.core.ids import RunId
from mainspring.core.model import Target
from mainspring.testing.factories import at
from tests.unit.judge.histories import Story, seconds
from tools.judge import Fault
from tools.judge.attempts import judge_effects
from tools.judge.cancels import judge_cancels
from tools.judge.leases import read_leases
from tools.judge.runs import Runs


@dataclass(kw_only=True)
class LateStart:
    """An attempt is claimed at 20 s and recorded as lost at 22 s, and its job begins later than that.

    Attributes:
        fault: what was done to its worker, from `since` until 22.7 s.
        begun_at: when its job began.
        moment: seconds from the claim to the first act of an attempt of another run, long after.
        ending: how that attempt ended.
        hindrance: the kind, the target and the end of another fault during that.
        target: what the late job is.
    """

    fault: str = "zombie"
    since: float = 20.9
    begun_at: float = 22.8
    moment: float = 0.1
    ending: str = "done"
    hindrance: tuple[str, str, float] | None = None
    target: str = "function"

    def judge(self) -> tuple[bool, Counter[str]]:
        """Return whether the late start is a broken rule, and what was counted."""
        (story, _), counts = self.tell(), Counter[str]()
        found = judge_effects(story.history, Runs(story.history), counts)
        return "S7" in {each.rule for each in found}, counts

    def tell(self) -> tuple[Story, RunId]:
        """Return the story, and the run that begins late."""
        story = Story()
        job = story.job(target=Target(self.target, {}))
        late = story.submit(job, 20, "lost", "done")
        story.alter_attempt(late, 0, worker="w", started_at=at(20), finished_at=at(22))
        effects = [effect for effect in story.history.effects if effect.run_id == late]
        effects[0].started_at = at(self.begun_at)
        other = story.submit(job, 40, self.ending, *(["done"] if self.ending == "lost" else []))
        [lease, *_] = read_leases(story.history, Runs(story.history))[other]
        effect = next(effect for effect in story.history.effects if effect.run_id == other)
        effect.started_at = lease.claimed_at + seconds(self.moment)
        if self.ending == "lost":
            story.alter_attempt(other, 0, finished_at=at(59))
        story.history.faults = [Fault(kind=self.fault, target="w", at=at(self.since), until=at(22.7))]
        if self.hindrance is not None:
            kind, target, until = self.hindrance
            story.history.faults.append(Fault(kind=kind, target=target, at=at(39), until=at(until)))
        return story, late


@pytest.mark.parametrize(
    ("late", "is_excused"),
    [
        # Stopped right after the claim, and begun right after the end of that.
        (LateStart(), True),
        # Had the time to begin, and the time to check again.
        (LateStart(since=21.4), False),
        (LateStart(begun_at=24.0), False),
        # On a host where others took that long, it had not.
        (LateStart(since=21.4, moment=1.5), True),
        (LateStart(begun_at=24.0, moment=1.5), True),
        (LateStart(since=21.4, moment=1.3), False),
        # What the others took says nothing of the host if they were in the way of a fault, or lost themselves.
        (LateStart(since=21.4, moment=1.5, hindrance=("outage", "store", 60)), False),
        (LateStart(since=21.4, moment=1.5, hindrance=("outage", "store", 41)), False),
        (LateStart(since=21.4, moment=1.5, hindrance=("zombie", "w", 41)), False),
        # It began while that worker was stopped, so it was another's.
        (LateStart(since=21.4, moment=1.5, hindrance=("zombie", "w", 60)), True),
        (LateStart(since=21.4, moment=1.5, ending="lost"), False),
        # However busy, no host takes so long.
        (LateStart(begun_at=28.6, moment=5.95), True),
        (LateStart(begun_at=28.8, moment=9.0), False),
        # What had been asked of another process as fast as on any other day was on its way when the lease was lost.
        (LateStart(fault="cut", begun_at=22.2, moment=2.3, target="shell"), True),
        (LateStart(fault="cut", begun_at=22.2, moment=2.3, target="http"), True),
        (LateStart(fault="cut", begun_at=22.2, moment=2.1, target="shell"), False),
        # A function is called by who asks whether it may be.
        (LateStart(fault="cut", begun_at=22.2, moment=2.3), False),
        # Without a fault, nobody loses a lease.
        (LateStart(fault="kill", begun_at=22.2, moment=2.3, target="shell"), False),
    ],
)
def test_late_start(late: LateStart, is_excused: bool) -> None:
    is_broken, counts = late.judge()
    assert is_broken != is_excused
    assert counts["late_starts_of_zombies"] + counts["late_starts_on_their_way"] == is_excused


@pytest.mark.parametrize(("moment", "is_broken"), [(0.1, True), (1.5, False)])
def test_cancel_that_found_the_run_lost_binds_who_could_know_of_the_loss(
    moment: float, is_broken: bool
) -> None:
    story, run_id = LateStart(since=21.4, moment=moment).tell()
    story.cancel(run_id, 22.1, "finished")
    story.alter(run_id, finished_at=at(22))
    story.history.effects = [
        each for each in story.history.effects if each.run_id != run_id or each.token == 1
    ]
    found = list(judge_cancels(story.history, Runs(story.history), Counter()))
    assert [each.rule for each in found] == ["S11"] * is_broken
