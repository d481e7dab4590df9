from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import JobId, KeyId, RunId
from mainspring.core.lane_caps import (
    NO_CAPS,
    CapHolder,
    CapKey,
    CapScope,
    CapUse,
    KnownCap,
    LaneCap,
    LaneCaps,
    cap_key_of,
    cap_keys_of,
    changed,
    labels_of,
    read_label_cap,
)
from mainspring.core.limits import JobLimit, job_of_limit, own_limit_name
from mainspring.core.model import LaneKey, Priority
from mainspring.errors import InvalidInput
from mainspring.testing.factories import make_spec

labels = st.lists(st.text("ab%+2B5._-", min_size=1, max_size=6), max_size=4, unique=True)
MAIL, GPU = CapKey(CapScope.QUEUE, "mail"), CapKey(CapScope.LABEL, "gpu")
CAPS = LaneCaps({GPU: KnownCap(2, KeyId(7)), MAIL: KnownCap(40, KeyId(5))})


def lane(queue: str = "mail", route: str = "function:f", tenant: str = "acme") -> LaneKey:
    return LaneKey(queue, route, tenant, Priority.MEDIUM)


@given(labels, st.booleans())
def test_labels_are_found_in_the_route_that_a_job_makes_of_them(found: list[str], is_limited: bool) -> None:
    limits = (JobLimit(limit=1),) if is_limited else ()
    route = make_spec(labels=tuple(found), concurrency=limits).route
    assert labels_of(route) == found
    assert [key.name for key in cap_keys_of(lane(route=route))[2:]] == found


def test_a_lane_is_under_the_caps_of_its_queue_its_tenant_and_its_labels() -> None:
    assert CAPS.keys_of(lane()) == (5,)
    assert CAPS.keys_of(lane(route="function:f+gpu+big+*keys")) == (5, 7)
    assert CAPS.keys_of(lane(queue="other", route="shell+gpu")) == (7,)
    assert CAPS.keys_of(lane(queue="other")) == ()
    assert [cap.key for cap in CAPS.about(lane(route="shell+gpu"))] == [MAIL, GPU]
    assert NO_CAPS.keys_of(lane()) == ()
    assert (bool(CAPS), bool(NO_CAPS)) == (True, False)


def test_a_cap_is_a_rule_whose_name_no_job_and_no_user_can_give() -> None:
    for scope in CapScope:
        key = CapKey(scope, "a.b-c")
        assert cap_key_of(key.limit) == key
        assert job_of_limit(key.limit) is None
    own = own_limit_name(JobId(UUID(int=5)), 0)
    assert job_of_limit(own) == JobId(UUID(int=5))


def test_what_differs_is_to_be_written() -> None:
    same, other, gone = LaneCap(MAIL, 40), LaneCap(GPU, 3), LaneCap(CapKey(CapScope.TENANT, "a"), None)
    assert changed([same, other, gone], CAPS) == [other]
    assert changed([LaneCap(GPU, None)], CAPS) == [LaneCap(GPU, None)]


def test_caps_of_a_scope_are_listed_by_name() -> None:
    more = LaneCaps({CapKey(CapScope.QUEUE, name): KnownCap(1, KeyId(1)) for name in "cab"})
    assert [cap.key.name for cap in more.of(CapScope.QUEUE)] == ["a", "b", "c"]
    assert more.of(CapScope.LABEL) == []


def test_holders_of_other_tenants_are_not_named() -> None:
    use = CapUse(2, (CapHolder(RunId(1), "a"), CapHolder(RunId(2), "b")))
    assert use.seen_by("b") == (2,)


@pytest.mark.parametrize(
    "body", [{"max_running": 0}, {"max_running": "4"}, {"max": 3}, {"max_running": 10**6}]
)
def test_a_wrong_cap_of_a_label_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        read_label_cap("gpu", body)


def test_a_cap_of_a_label_is_read() -> None:
    assert read_label_cap("gpu", {"max_running": 4}) == LaneCap(GPU, 4)
    assert read_label_cap("gpu", {}) == LaneCap(GPU, None)
