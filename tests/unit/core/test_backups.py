"""What a backup says of itself, and what a restore makes of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mainspring.core.backups import (
    KeptClock,
    LedgerFacts,
    Proof,
    SealFacts,
    StoreFacts,
    find_differences,
    step_over,
    sum_up_ledger,
)
from mainspring.core.ids import JobId, format_run_id, make_run_id

AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
CLOCKS = [
    KeptClock(
        job_id=JobId(UUID(int=number)),
        next_fire_at=AT,
        fired_through=AT - timedelta(hours=1),
        fires=number,
        last_fire_at=AT - timedelta(hours=1),
    )
    for number in range(1, 4)
]
FACTS = StoreFacts(
    schema=35,
    rows={"job": 3, "run": 8},
    seal=SealFacts(id=2, digest="ab" * 32),
    ledger=sum_up_ledger(CLOCKS),
)
PROOF = Proof(
    differences=(),
    seals=1,
    entries=1,
    broken_seal=None,
    jobs=1,
    owed=1,
    missing=0,
    surplus=0,
    uneven=(),
    unknown=0,
)


def test_digest_of_clocks_does_not_depend_on_their_order() -> None:
    assert sum_up_ledger(reversed(CLOCKS)) == sum_up_ledger(CLOCKS)
    assert (FACTS.ledger.jobs, FACTS.ledger.fires) == (3, 6)


@pytest.mark.parametrize(
    "change",
    [
        {"next_fire_at": None},
        {"fired_through": AT},
        {"fires": 9},
        {"last_fire_at": None},
        {"job_id": JobId(UUID(int=9))},
    ],
    ids=str,
)
def test_digest_of_clocks_depends_on_all_that_they_say(change: dict[str, object]) -> None:
    changed = [replace(CLOCKS[0], **change), *CLOCKS[1:]]  # type: ignore[arg-type]
    assert sum_up_ledger(changed).digest != FACTS.ledger.digest


def test_a_store_is_like_its_manifest() -> None:
    assert find_differences(FACTS, replace(FACTS)) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(FACTS, schema=34), "its schema is 0034, not 0035"),
        (replace(FACTS, rows={"job": 3, "run": 7}), "the table run has 7 rows, not 8"),
        (replace(FACTS, rows={"job": 3}), "the table run has no rows, not 8"),
        (replace(FACTS, rows={**FACTS.rows, "more": 0}), "the table more has 0 rows, not no"),
        (replace(FACTS, seal=None), "the newest seal of its audit is none, not 2 abababababab…"),
        (
            replace(FACTS, ledger=LedgerFacts(jobs=3, fires=6, digest="cd")),
            "the digest of its clocks and fires is another one",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_differs_from_the_manifest_is_said(found: StoreFacts, said: str) -> None:
    assert find_differences(FACTS, found) == [said]


@pytest.mark.parametrize(
    ("age", "runs_a_second"),
    [(timedelta(0), 10_000), (timedelta(hours=1), 20_000), (timedelta(days=3650), 20_000)],
)
def test_ids_of_a_restored_store_are_beyond_all_that_can_have_been_given(
    age: timedelta, runs_a_second: int
) -> None:
    assert step_over(AT - age, AT) > age.total_seconds() * runs_a_second


def test_a_backup_of_the_future_and_one_of_long_ago_still_give_ids() -> None:
    assert step_over(AT + timedelta(days=1), AT) == step_over(AT, AT) > 0
    step = step_over(AT - timedelta(days=36_500), AT)
    assert format_run_id(make_run_id(10**12 + step, 255))
    assert make_run_id(10**12 + step, 255) < 2**63


@pytest.mark.parametrize(
    "wrong",
    [{"differences": ("one",)}, {"broken_seal": "seal 1"}, {"missing": 1}, {"surplus": 1}],
    ids=str,
)
def test_a_proof_holds_only_if_all_is_as_it_was(wrong: dict[str, object]) -> None:
    assert PROOF.holds
    assert not replace(PROOF, **wrong).holds  # type: ignore[arg-type]
