"""Heartbeats: what is lost, to be stopped, missing, and unknown to the worker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import RunId
from mainspring.core.reconciliation import reconcile

leases = st.tuples(st.integers(1, 6).map(RunId), st.integers(1, 2))
running = st.lists(
    st.tuples(
        st.integers(1, 6).map(RunId), st.integers(1, 2), st.integers(1, 4), st.booleans(), st.booleans()
    ),
    unique_by=lambda lease: lease[0],
)


@given(
    named=st.lists(leases, unique=True),
    running=running,
    answered=st.none() | st.integers(0, 4),
    before=st.frozensets(leases),
)
def test_every_lease_is_accounted_for(
    named: list[tuple[RunId, int]],
    running: list[tuple[RunId, int, int, bool, bool]],
    answered: int | None,
    before: frozenset[tuple[RunId, int]],
) -> None:
    found = reconcile(named, running, answered=answered, missing_before=before)
    held = {(run_id, token) for run_id, token, *_ in running}
    assert found.lost == tuple(lease for lease in named if lease not in held)
    assert set(found.cancel) == {(run_id, token) for run_id, token, _, asked, _ in running if asked} & set(
        named
    )
    stopped = {(run_id, token) for run_id, token, _, asked, preempted in running if preempted and not asked}
    assert set(found.preempt) == stopped & set(named)
    assert found.missing <= held - set(named)
    on_their_way = {
        (run_id, token) for run_id, token, number, *_ in running if answered is not None and number > answered
    }
    assert found.missing == held - set(named) - on_their_way
    assert set(found.unknown) == found.missing & before
    assert list(found.unknown) == sorted(found.unknown)
