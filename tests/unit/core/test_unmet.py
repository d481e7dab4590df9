"""Which tenants have been short of reserved slots, and for how long."""

from __future__ import annotations

from mainspring.core.unmet import ReserveCounts, ShortTenants
from mainspring.testing.factories import at


def counts(has: int) -> ReserveCounts:
    return ReserveCounts({"acme": 3}, {"acme": has})


def test_what_is_missing_and_what_is_beyond() -> None:
    assert (counts(1).missing("acme"), counts(1).spare("acme")) == (2, 0)
    assert (counts(5).missing("acme"), counts(5).spare("acme")) == (0, 2)
    assert (counts(1).missing("other"), counts(1).spare("other")) == (0, 0)
    assert ReserveCounts({"acme": 3}).missing("acme") == 0


def test_a_tenant_is_short_since_the_first_of_the_looks_that_all_found_it_short() -> None:
    short = ShortTenants()
    for second, has in ((0, 1), (1, 3), (2, 2), (3, 0)):
        short.note(counts(has), {"acme"}, at(second))
    assert short.is_since("acme", at(2))
    assert not short.is_since("acme", at(1))
    assert not short.is_since("other", at(9))


def test_a_tenant_without_work_is_short_of_nothing() -> None:
    short = ShortTenants()
    short.note(counts(1), {"acme"}, at(0))
    short.note(counts(1), set(), at(1))
    assert not short.is_since("acme", at(9))
