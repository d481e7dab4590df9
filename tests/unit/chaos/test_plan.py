"""The plan of a chaos campaign: drawn from its seed and nothing else."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import draw_plan
from tests.chaos.cluster.__main__ import draw_kinds
from tests.chaos.cluster.faults import FAULTS
from tests.chaos.failpoints import MOMENTS, WRITING_VERBS, Failpoint, Fuse


def test_same_seed_gives_the_same_plan() -> None:
    assert list(draw_plan(7, kills=60, zombies=30).lines()) == list(
        draw_plan(7, kills=60, zombies=30).lines()
    )


def test_other_seed_gives_another_plan() -> None:
    assert draw_plan(7, kills=10, zombies=3) != draw_plan(8, kills=10, zombies=3)


def test_plan_has_as_many_faults_as_asked_for() -> None:
    plan = draw_plan(1, kills=11, zombies=5)
    assert (len(plan.kills), len(plan.zombies), len(list(plan.lines()))) == (11, 5, 16)


def test_all_kinds_of_fault_come_in_turn_in_an_order_of_the_seed() -> None:
    kinds = [kind.code for kind in draw_kinds(3, "all", 2 * len(FAULTS) + 1)]
    assert sorted(kinds[: len(FAULTS)]) == sorted(FAULTS)
    assert sorted(kinds[len(FAULTS) : 2 * len(FAULTS)]) == sorted(FAULTS)
    assert len(kinds) == 2 * len(FAULTS) + 1
    assert kinds == [kind.code for kind in draw_kinds(3, "all", len(kinds))]
    assert [kind.code for kind in draw_kinds(3, "F5", 3)] == ["F5"] * 3


def test_every_kind_of_fault_says_what_it_does() -> None:
    assert all(kind.what for kind in FAULTS.values())
    assert all((kind.inflict.__doc__ or "").startswith(f"{code}: ") for code, kind in FAULTS.items())


def test_sweep_meets_every_commit_from_both_sides() -> None:
    plan = draw_plan(3, kills=2 * len(WRITING_VERBS), zombies=0, is_sweep=True)
    met = {(kill.failpoint.moment, kill.failpoint.verb) for kill in plan.kills if kill.failpoint}
    assert met == {(moment, verb) for moment in MOMENTS for verb in WRITING_VERBS}


def test_zombies_are_stopped_for_longer_than_their_lease() -> None:
    assert all(zombie.seconds > 2.0 for zombie in draw_plan(1, kills=0, zombies=200).zombies)


def test_failpoint_is_read_as_it_is_written() -> None:
    failpoint = Failpoint("after", "claim_runs", 10)
    assert Failpoint.parse(str(failpoint)) == failpoint


@pytest.mark.parametrize("text", ["during:apply:1", "before:nothing:1", "before:apply:0", "before:apply"])
def test_failpoint_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"failpoint|unpack"):
        Failpoint.parse(text)


class Commits:
    """Writes through a fuse and writes down what happens, commits included."""

    def __init__(self, failpoint: str) -> None:
        self.seen: list[str] = []
        self._fuse = Fuse(Failpoint.parse(failpoint), lambda: self.seen.append("burns"))

    def write(self, verb: str) -> None:
        self._fuse.guard(verb, lambda: self.seen.append(verb))()
        self._fuse.pass_by("before")
        self.seen.append("commit")
        self._fuse.pass_by("after")


def test_fuse_burns_before_the_commit_of_the_nth_call() -> None:
    commits = Commits("before:apply:2")
    for verb in ("apply", "cancel_runs", "apply"):
        commits.write(verb)
    assert commits.seen == ["apply", "commit", "cancel_runs", "commit", "apply", "burns", "commit"]


def test_fuse_burns_after_the_commit() -> None:
    commits = Commits("after:apply:1")
    commits.write("apply")
    assert commits.seen == ["apply", "commit", "burns"]
