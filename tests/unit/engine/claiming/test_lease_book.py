from dataclasses import replace
from uuid import UUID

from mainspring.core.ids import JobId, RunId, make_run_id
from mainspring.core.slot_times import NOT_SAMPLED
from mainspring.engine.claiming.lease_book import LeaseBook, NotedLease
from mainspring.ports.store.claims import ClaimedRun
from mainspring.testing.factories import START

JOB = JobId(UUID(int=7))


def claimed(run_id: RunId, token: int = 1, tenant: str = "acme") -> ClaimedRun:
    return ClaimedRun(run_id, token, JOB, 1, 1, None, START, None, None, False, False, tenant)


def runs(count: int) -> list[ClaimedRun]:
    return [claimed(make_run_id(number, 3)) for number in range(1, count + 1)]


def test_a_lease_is_known_until_it_is_taken() -> None:
    book = LeaseBook()
    [run] = runs(1)
    book.note([run], 5.0)
    assert book.take(run.run_id, 1) == NotedLease(1, "acme", 5.0)
    assert book.take(run.run_id, 1) is None


def test_a_lease_under_another_token_is_not_known() -> None:
    book = LeaseBook()
    [run] = runs(1)
    book.note([replace(run, token=2)], 5.0)
    assert book.take(run.run_id, 1) is None


def test_of_large_claims_the_sampled_runs_are_noted() -> None:
    book = LeaseBook()
    many = runs(1000)
    book.note(many, 5.0)
    known = [run.run_id for run in many if book.take(run.run_id, 1) is not None]
    assert known == [run.run_id for run in many if not run.run_id & NOT_SAMPLED]


def test_what_is_never_reported_is_forgotten() -> None:
    book = LeaseBook()
    for number in range(3000):
        book.note([claimed(make_run_id(number * 100 + place, 0)) for place in range(100)], 1.0)
    assert len(book._young) + len(book._old) <= 101_000
