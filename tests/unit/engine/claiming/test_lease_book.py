from uuid import UUID

from mainspring.core.ids import JobId, KeyId, RunId, make_run_id
from mainspring.core.model import JobSpec
from mainspring.engine.claiming.lease_book import LeaseBook
from mainspring.ports.gateway import Lease
from mainspring.testing.factories import START, make_spec

JOB = JobId(UUID(int=7))
SPEC = make_spec()


def lease(run_id: RunId, spec: JobSpec = SPEC, tenant: str = "acme") -> Lease:
    return Lease(run_id, 1, JOB, 1, tenant, 1, None, START, None, None, False, False, spec)


def leases(count: int) -> list[Lease]:
    return [lease(make_run_id(number, 3)) for number in range(1, count + 1)]


def test_a_lease_is_known_until_it_is_taken() -> None:
    book = LeaseBook()
    [given] = leases(1)
    book.note([given], 5.0)
    [noted] = book.take([given.run_id])
    assert noted is not None
    assert (noted.tenant, noted.spec, noted.at) == ("acme", SPEC, 5.0)
    assert book.take([given.run_id]) == [None]


def test_a_claim_is_noted_by_definition() -> None:
    book, other = LeaseBook(), make_spec(name="other")
    given = [lease(RunId(1)), lease(RunId(2), other), lease(RunId(3))]
    groups = book.note(given, 5.0)
    assert [(noted.spec, [one.run_id for one in of_spec]) for noted, of_spec in groups] == [
        (SPEC, [1, 3]),
        (other, [2]),
    ]
    first, unknown, third, second = book.take([RunId(1), RunId(9), RunId(3), RunId(2)])
    assert (first is third, unknown) == (True, None)
    assert second is not None
    assert second.spec is other


def test_a_run_that_is_given_again_counts_from_then() -> None:
    book = LeaseBook()
    [given] = leases(1)
    book.note([given], 5.0)
    book.note([given], 9.0)
    [noted] = book.take([given.run_id])
    assert noted is not None
    assert noted.at == 9.0


def test_what_is_never_reported_is_forgotten() -> None:
    book = LeaseBook()
    for number in range(3000):
        book.note([lease(make_run_id(number * 100 + place, 0)) for place in range(100)], 1.0)
    assert len(book._young) + len(book._old) <= 101_000
    old = make_run_id(2999 * 100 - 60_000, 0)
    [known] = book.take([old])
    assert known is not None
    assert book.take([old]) == [None]


def test_keys_are_taken_once() -> None:
    book = LeaseBook()
    book.note_keys({RunId(1): (KeyId(4), KeyId(5))})
    assert book.take_keys([RunId(1), RunId(2)]) == {4, 5}
    assert book.take_keys([RunId(1)]) == set()
