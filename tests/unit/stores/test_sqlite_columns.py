"""SQLite's hot queries, whose rows are read by position: their columns are in the order that the reader takes."""

from collections.abc import Iterator
from dataclasses import fields

import apsw
import pytest
from apsw.ext import query_info

from mainspring.core.model import Job
from mainspring.ports.store.claims import ClaimedRun
from mainspring.ports.store.nodes import ShardLease
from mainspring.ports.store.schedule import DueClock
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite.store import migrate

QUERIES = load_queries("mainspring.stores.sqlite")


def names_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


CLAIMED = ("id", *names_of(ClaimedRun)[1:])
RUNNING_LEASE = ("id", "token", "claim_number", "is_cancel_requested", "preemption")
ORDERS = {
    "find_ready": (*CLAIMED, "lane_id"),
    "find_started": CLAIMED,
    "repeat_claim": CLAIMED,
    "read_due": tuple(name for name in names_of(DueClock) if name != "trace"),  # which a planner gives
    "get_jobs": names_of(Job),
    "find_jobs": names_of(Job),
    "list_jobs": names_of(Job),
    "held_by_session": RUNNING_LEASE,
    "read_shards": ShardLease._fields,
}


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", ORDERS)
def test_columns_are_in_the_order_of_the_reader(db: apsw.Connection, name: str) -> None:
    columns = tuple(column[0] for column in query_info(db, QUERIES[name].text).description)
    assert columns == ORDERS[name]
