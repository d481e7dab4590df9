"""What workers that are bound to one tenant are offered, among lanes of several."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.reach import Reach
from mainspring.testing.factories import at

TENANTS = ("shop", "bank", "mine")
QUEUES = ("mail", "cpu")
NOW = 10.0
WIDE = 20
"""So many routes make a queue that is kept by tenant, too."""


@dataclass(frozen=True)
class Spot:
    """Where a lane is, and since when it has something ready."""

    tenant: str
    queue: str
    route: int
    priority: Priority
    ready_at: float

    def lane(self, number: int) -> Lane:
        key = LaneKey(self.queue, f"http:{self.route}", self.tenant, self.priority)
        return Lane(LaneId(number), key, at(self.ready_at))


spots = st.builds(
    Spot,
    tenant=st.sampled_from(TENANTS),
    queue=st.sampled_from(QUEUES),
    route=st.integers(0, 2),
    priority=st.sampled_from(list(Priority)),
    ready_at=st.sampled_from([-2000.0, 0.0, 1.0, NOW, NOW + 5]),
)


def order_of(
    found: Mapping[tuple[str, str, int, Priority], Spot],
    *,
    orders: Mapping[str, QueueOrder],
    is_wide: bool,
    reserved: Mapping[str, int],
    stopped: frozenset[tuple[str, str]],
) -> tuple[LaneOrder, dict[LaneId, Lane]]:
    lanes = [spot.lane(number) for number, spot in enumerate(found.values())]
    if is_wide:
        lanes += [
            Spot(tenant, "mail", 100 + number, Priority.MEDIUM, 5.0).lane(1000 + number)
            for number, tenant in enumerate(("bank", "mine") * (WIDE // 2))
        ]
    order = LaneOrder()
    order.rule({name: Queue(name=name, order=one) for name, one in orders.items()})
    order.keep(lanes)
    order.reserve(reserved, at(0))
    order.stop(dict.fromkeys(stopped, at(NOW) + timedelta(hours=1)))
    return order, {lane.id: lane for lane in lanes}


@given(
    found=st.lists(spots, max_size=12).map(
        lambda several: {(one.tenant, one.queue, one.route, one.priority): one for one in several}
    ),
    orders=st.fixed_dictionaries({}, optional={name: st.sampled_from(list(QueueOrder)) for name in QUEUES}),
    is_wide=st.booleans(),
    reserved=st.dictionaries(st.sampled_from(TENANTS), st.integers(1, 3), max_size=3),
    stopped=st.frozensets(st.tuples(st.sampled_from(QUEUES), st.sampled_from(["http:0", "http:1"])), max_size=2),
    claims=st.lists(st.tuples(st.sampled_from([*TENANTS, None]), st.integers(1, 100)), min_size=1, max_size=6),
    served=st.sampled_from([("mail",), QUEUES]),
)  # fmt: skip
def test_a_bound_worker_is_offered_its_tenants_lanes_and_always_some_if_one_is_ready(
    found: dict[tuple[str, str, int, Priority], Spot],
    orders: dict[str, QueueOrder],
    is_wide: bool,
    reserved: dict[str, int],
    stopped: frozenset[tuple[str, str]],
    claims: list[tuple[str | None, int]],
    served: tuple[str, ...],
) -> None:
    order, lanes = order_of(found, orders=orders, is_wide=is_wide, reserved=reserved, stopped=stopped)
    reaches = {
        tenant: Reach(lambda queue, route: queue in served, tenant=tenant) for tenant in (*TENANTS, None)
    }
    for tenant, seats in claims:
        ready = {
            lane.id
            for lane in lanes.values()
            if lane.earliest_ready_at is not None
            and lane.earliest_ready_at <= at(NOW)
            and lane.key.queue in served
            and (lane.key.queue, lane.key.route) not in stopped
            and tenant in {None, lane.key.tenant}
        }
        chosen = order.choose(reaches[tenant], seats, at(NOW))
        assert chosen.keys() <= ready
        assert bool(chosen) == bool(ready)
        assert all(quota >= 1 for quota in chosen.values())
        first = next(iter(chosen), None)
        if first is not None:
            order.charge(reaches[tenant], {first: min(chosen[first], seats)}, chosen, seats)


def test_a_bound_worker_takes_from_the_most_urgent_tier_of_its_tenant() -> None:
    order = LaneOrder()
    order.keep(
        [
            Spot("bank", "mail", 0, Priority.HIGH, 0).lane(1),
            Spot("shop", "mail", 0, Priority.LOW, 0).lane(2),
            Spot("shop", "mail", 1, Priority.MEDIUM, 0).lane(3),
        ]
    )
    reach = Reach(lambda queue, route: True, tenant="shop")
    assert next(iter(order.choose(reach, 1, at(NOW)))) == LaneId(3)
    order.remove(LaneId(3))
    assert list(order.choose(reach, 1, at(NOW))) == [LaneId(2)]
    order.remove(LaneId(2))
    assert order.choose(reach, 1, at(NOW)) == {}


def test_a_reserve_of_another_tenant_takes_no_seat_of_a_bound_worker() -> None:
    order = LaneOrder()
    order.keep(
        [
            Spot("bank", "mail", 0, Priority.MEDIUM, 0).lane(1),
            Spot("shop", "mail", 0, Priority.MEDIUM, 0).lane(2),
        ]
    )
    order.reserve({"bank": 5, "shop": 1}, at(0))
    assert list(order.choose(Reach(lambda queue, route: True, tenant="shop"), 10, at(NOW))) == [LaneId(2)]
    assert set(order.choose(Reach(lambda queue, route: True), 10, at(NOW))) == {LaneId(1), LaneId(2)}
