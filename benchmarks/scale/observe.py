"""Looks on while the engine works: how long each call to the store takes, and by which plans the server answers.

The plans are those of the product's own statements on its own connections: auto_explain takes a sample of them, with
the buffers that were touched, and sends it to the client as a notice.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mainspring.ports.store import Store
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.schema import PACKAGE

EXPLAIN = (
    "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_level = notice;"
    " SET auto_explain.log_format = json; SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on;"
    " SET auto_explain.log_timing = off; SET auto_explain.sample_rate = {rate}"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb: when it ended, in monotonic seconds, how long it took, and how many rows it was about."""

    at: float
    verb: str
    seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One statement as the server carried it out."""

    at: float
    name: str
    milliseconds: float
    plan: dict[str, Any]

    @property
    def buffers(self) -> int:
        """Pages that were looked at, in memory or not."""
        return int(self.plan.get("Shared Hit Blocks", 0) + self.plan.get("Shared Read Blocks", 0))


@dataclass(slots=True)
class Observations:
    """What was seen so far."""

    calls: list[Call] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


class ObservedStore:
    """Passes every verb on to a store and notes it; so it is a `Store` itself."""

    def __init__(self, store: Store, observations: Observations) -> None:
        self._store = store
        self._observations = observations

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def call(*arguments: Any, **named: Any) -> Any:
            before = time.perf_counter()
            result = await verb(*arguments, **named)
            taken = time.perf_counter() - before
            self._observations.calls.append(Call(time.monotonic(), name, taken, _rows_of(arguments, result)))
            return result

        return call


def _rows_of(arguments: tuple[Any, ...], result: Any) -> int:
    """Count what a call was about: what it brought, or what it was given."""
    if isinstance(result, list):
        if result and hasattr(result[0], "runs"):
            return sum(len(item.runs) for item in result)
        return len(result)
    return len(arguments[0]) if arguments and isinstance(arguments[0], list | tuple) else 0


def sample_plans(store: PostgresStore, observations: Observations, *, rate: float) -> None:
    """Have the connections that a store opens from now on send this share of their plans. The role is a superuser's."""
    names = {query.positional()[0]: name for name, query in load_queries(PACKAGE).items()}
    servers = store._connections.servers
    connect = servers.connect

    def note(_connection: object, message: Any) -> None:
        found = read_notice(str(message.message), names)
        if found is not None:
            observations.samples.append(Sample(time.monotonic(), *found))

    async def connect_and_listen(**options: Any) -> Any:
        connection = await connect(**options)
        connection.add_log_listener(note)
        await connection.execute(EXPLAIN.format(rate=rate))
        return connection

    servers.connect = connect_and_listen  # type: ignore[method-assign]


def read_notice(message: str, names: dict[str, str]) -> tuple[str, float, dict[str, Any]] | None:
    """Return the query's name, its milliseconds and its plan from what auto_explain says; None for other statements."""
    head, found, text = message.partition("plan:\n")
    if not found or not head.startswith("duration:"):
        return None
    answer = json.loads(text)
    name = names.get(answer["Query Text"])
    return None if name is None else (name, float(head.split()[1]), answer["Plan"])


def walk(plan: dict[str, Any], depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the nodes of a plan, each with its depth, from the top."""
    yield depth, plan
    for child in plan.get("Plans", ()):
        yield from walk(child, depth + 1)


def condense(plan: dict[str, Any]) -> list[str]:
    """Return a plan as text, a line for each node that reads a table or an index."""
    lines = []
    for _, node in walk(plan):
        relation = node.get("Index Name") or node.get("Relation Name")
        if relation is None or not node.get("Actual Loops"):
            continue
        buffers = node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0)
        rows = node["Actual Rows"] * node["Actual Loops"]
        what = node.get("Operation") or node["Node Type"]
        lines.append(
            f"{what} {relation}: {rows:,} rows in {node['Actual Loops']:,} loops, {buffers:,} buffers"
        )
    return lines
