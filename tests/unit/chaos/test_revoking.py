"""What the proof of tokens that end makes of the attempts that it finds: what no token allowed, and what was lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.chaos.revoking import AttemptRow, Ending, judge, judge_client, judge_others, last_after

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def attempt(begun: float, ended: float, outcome: str = "succeeded", worker: str = "w") -> AttemptRow:
    return AttemptRow(7, worker, outcome, at(begun), at(ended))


def ending(how: str) -> Ending:
    return Ending(how, "w", NOON)


LOST = attempt(-3, 3, "lost")
ACROSS = attempt(-3, 5)
LATER = attempt(6, 8)


@pytest.mark.parametrize(
    ("how", "attempts", "count"),
    [
        ("revoked", [LOST], 0),
        ("revoked", [LOST, attempt(-3, 1.5)], 0),
        ("revoked", [LOST, ACROSS], 1),
        ("revoked", [LOST, LATER], 2),
        ("revoked", [], 1),
        ("replaced", [ACROSS, LATER], 0),
        ("replaced", [attempt(-3, 1), LATER], 0),
        ("replaced", [attempt(-3, -1), LATER], 1),
        ("replaced", [ACROSS], 1),
        ("replaced", [LATER], 1),
        ("replaced", [ACROSS, LATER, LOST], 1),
        ("expired", [ACROSS], 0),
        ("expired", [ACROSS, LATER], 1),
        ("expired", [ACROSS, LOST], 1),
    ],
)
def test_a_worker_does_what_its_token_allows_and_loses_nothing_else(
    how: str, attempts: list[AttemptRow], count: int
) -> None:
    assert len(judge(ending(how), attempts)) == count


def test_what_a_worker_loses_whose_token_still_works_is_named() -> None:
    lost = [LOST, attempt(0, 1, "lost", "steady"), attempt(0, 1, worker="steady")]
    [found] = judge_others([ending("revoked")], lost)
    assert found.startswith("steady, whose token nothing happened to: run 7 was lost")


def test_a_client_is_refused_two_seconds_after_its_token_ended() -> None:
    assert judge_client("a", NOON, [at(-1), at(1.9)]) == []
    assert len(judge_client("a", NOON, [at(-1), at(2.1), at(3)])) == 2
    assert len(judge_client("a", NOON, [])) == 1


def test_the_last_that_a_token_did_is_counted_from_its_end() -> None:
    assert last_after(NOON, [at(-5), at(1), at(0.5)]) == timedelta(seconds=1)
    assert last_after(NOON, [at(-5)]) == timedelta(0)
