"""The rule that tells a server left behind, and what is remembered for the account after a failover."""

import pytest

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import RunId
from mainspring.ports.store.runs import SubmitResult
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.stores.postgres.failover import Failover, Lineage, Recent, Standing, WrongServer
from mainspring.testing.factories import at

NOW = at(0)
FIRST = Standing(system=7, timeline=1, position=1000, replayed=None, seen_at=NOW)
PROMOTED = Standing(system=7, timeline=2, position=950, replayed=900, seen_at=NOW)


def seen(*standings: Standing) -> Lineage:
    lineage = Lineage()
    for standing in standings:
        lineage.admit(standing, since=lineage.newest)
    return lineage


def test_older_timeline_is_refused_and_changes_nothing() -> None:
    lineage = seen(FIRST, PROMOTED)
    with pytest.raises(WrongServer, match="timeline 1, and timeline 2 was seen"):
        lineage.admit(FIRST, since=PROMOTED)
    assert lineage.newest == PROMOTED


def test_other_system_is_refused_whatever_its_timeline() -> None:
    with pytest.raises(WrongServer, match="restart this process"):
        seen(FIRST).admit(Standing(system=8, timeline=9, position=1, replayed=None, seen_at=NOW), since=FIRST)


def test_promotion_is_told_once_with_the_wal_that_is_missing() -> None:
    lineage = seen(FIRST)
    failover = lineage.admit(PROMOTED, since=FIRST)
    assert failover == Failover(FIRST, PROMOTED)
    assert failover.missing_wal == 100
    assert lineage.admit(PROMOTED, since=FIRST) is None


def test_server_that_came_back_with_less_is_a_failover_too() -> None:
    restored = Standing(system=7, timeline=1, position=400, replayed=None, seen_at=NOW)
    failover = seen(FIRST).admit(restored, since=FIRST)
    assert failover is not None
    assert failover.missing_wal == 600


def test_answer_that_was_overtaken_by_another_is_no_failover() -> None:
    """Two connections are opened at once, and the one that was asked first is looked at last."""
    later = Standing(system=7, timeline=1, position=2000, replayed=None, seen_at=NOW)
    lineage = seen(FIRST, later)
    assert (
        lineage.admit(Standing(system=7, timeline=1, position=1500, replayed=None, seen_at=NOW), since=FIRST)
        is None
    )
    assert lineage.newest == later


def submitted(*ids: int) -> list[SubmitResult]:
    return [SubmitResult(SubmissionVerdict.SUBMITTED, RunId(run_id)) for run_id in ids]


def test_new_runs_are_remembered_and_repetitions_are_not() -> None:
    recent = Recent()
    repeated = SubmitResult(SubmissionVerdict.DUPLICATE, RunId(1))
    recent.note(at(1), [*submitted(5, 6), repeated, SubmitResult(SubmissionVerdict.JOB_MISSING)])
    recent.note(at(2), [FireResult(FireStatus.FIRED, (RunId(7), RunId(8))), FireResult(FireStatus.LOST)])
    assert list(recent.told()) == [(5, at(1)), (6, at(1)), (7, at(2)), (8, at(2))]


def test_runs_are_forgotten_after_a_minute_of_looks() -> None:
    recent = Recent()
    recent.note(at(0), submitted(1))
    for number in range(12):
        recent.turn()
        assert next(iter(recent.told())) == (1, at(0)), number
    recent.note(at(60), submitted(2))
    recent.turn()
    assert list(recent.told()) == [(2, at(60))]


def test_no_more_than_so_many_results_are_kept() -> None:
    recent = Recent()
    for number in range(700):
        recent.note(at(number), submitted(*range(number * 100, number * 100 + 100)))
    told = [run_id for run_id, _ in recent.told()]
    assert told == list(range(20_000, 70_000))
    for _ in range(13):
        recent.turn()
    assert list(recent.told()) == []


def test_what_was_dropped_for_want_of_room_is_owned_up_to_for_the_whole_minute() -> None:
    recent = Recent()
    for _ in range(20):
        recent.turn()
    assert recent.is_complete
    recent.note(at(0), submitted(*range(30_000)))
    recent.note(at(1), submitted(*range(30_000, 60_000)))
    assert not recent.is_complete
    for number in range(12):  # looks at which the dropped one would still be remembered
        recent.turn()
        assert not recent.is_complete, number
    recent.turn()
    assert recent.is_complete


def test_long_result_makes_as_much_room_as_it_needs() -> None:
    recent = Recent()
    for number in range(30_000):
        recent.note(at(number), submitted(number))
    recent.note(at(1), submitted(*range(40_000, 80_000)))
    assert len(list(recent.told())) == 50_000
