"""The scene, put back before every order; orders, enumerated or drawn; and what the tables hold in the end."""

import dataclasses
import json
import math
import random
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.stores.postgres.inserts import LaneIds
from tests.interleavings.cases import FIRST_NEW, Scene, Verb, set_scene
from tests.interleavings.gate import Controller, Played, Touched, open_controller

TABLES = (
    "job",
    "job_version",
    "job_clock",
    "run",
    "run_history",
    "dead_run",
    "attempt",
    "log_chunk",
    "run_progress",
    "kept_attempt",
    "fire_range",
    "session",
    "past_session",
    "ledger_check",
    "at_start",
    "after_end",
    "lane",
    "node",
    "shard_lease",
    "cluster",
    "idempotency",
    "run_unique",
    "queue",
    "tenant",
    "revision",
    "limit_rule",
    "limit_use",
    "concurrency_key",
    "key_hold",
    "calendar",
    "calendar_use",
    "failure_watch",
    "pause",
    "backfill",
    "redrive",
    "alert",
    "monitor",
    "alert_rule",
    "channel",
    "job_notify",
    "notification",
    "silence",
    "priority_class",
    "encryption_key",
    "account",
    "token",
    "password",
    "blackout",
    "audit",
    "audit_horizon",
    "audit_seal",
    "usage_minute",
    "usage_hour",
    "archive_part",
    "slo",
    "failover",
    "flow",
    "flow_value",
    "mail",
    "artifact",
    "checkpoint",
    "event",
    "listener",
    "wait",
)
_OWN_IDS = frozenset({"job", "lane", "fire_range", "key_hold", "concurrency_key", "limit_rule", "mail"})
"""Tables whose new rows have ids that differ from order to order."""

_COUNTED_UP = frozenset({"claim_number", "held_from"})
"""Columns that grow from play to play."""
_NAMING = ("lane", "limit_rule", "concurrency_key")
"""Tables whose rows name what rows of other tables refer to."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_VACUUM_AFTER = 500
"""Plays after which the rows of the plays before are cleared away."""

Tables = dict[str, list[dict[str, Any]]]
State = tuple[str, ...]
Outcome = tuple[Any, ...]
"""The results of all verbs and the tables, without what differs by chance."""


class Bench:
    """A database with the scene, and three gated stores on it."""

    def __init__(self, controller: Controller, scene: Scene) -> None:
        self.scene = scene
        self._controller = controller
        self._kept: Tables = {}
        self._kept_state: dict[str, State] = {}
        self._read_before: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._plays = 0
        self.alone: dict[str, Any] = {}
        self._known_jobs = {
            str(job.id)
            for job in (
                *(scene.job, scene.quiet, scene.paused, scene.limited, scene.batched, scene.workflow),
                *(scene.listening, scene.listening_once),
            )
        }

    def kept(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in the scene."""
        return self._kept[table]

    def forget_all(self) -> None:
        """Empty what the first side's store remembers of the tables."""
        store = self._controller.sides[0].store
        store._tenants.clear()
        store._closed_days.forget()

    async def play(
        self, verbs: tuple[Verb, ...], order: str, *, touched: Touched | None = None
    ) -> tuple[Played, Tables]:
        """Put the scene back and carry out some verbs in an order.

        Args:
            touched: gathers what the first of them touches.
        """
        self._controller.sides[0].touched = touched
        if self._plays % _VACUUM_AFTER == 0:
            await self._controller.watch.execute("VACUUM " + ", ".join(TABLES))
        self._plays += 1
        calls = []
        for side, verb in zip(self._controller.sides, verbs, strict=False):
            lane_ids = LaneIds()
            if verb.knows_lanes:
                lane_ids.remember(self.scene.lane_ids)
            side.store._lane_ids = lane_ids
            calls.append(lambda store, verb=verb: verb.call(store, self.scene))
        played = await self._controller.play(calls, order)
        tables = await self._read()
        await self._put_back([table for table in TABLES if tables[table] != self._kept[table]])
        return played, tables

    async def execute(self, statements: str) -> None:
        """Carry out statements beside the verbs."""
        await self._controller.watch.execute(statements)

    async def tables_of(self, relations: Collection[str]) -> set[str]:
        """Return the tables among some relations; partitions count as the table that they are part of."""
        rows = await self._controller.watch.fetch(
            "SELECT DISTINCT pg_partition_root(oid)::regclass::text AS name FROM pg_class"
            " WHERE relname = ANY($1) AND relispartition UNION SELECT relname FROM pg_class"
            " WHERE relname = ANY($1) AND relkind IN ('r', 'p') AND NOT relispartition",
            list(relations),
        )
        return {row["name"] for row in rows}

    async def keep(self) -> None:
        """Take the tables as they are for the scene."""
        watch = self._controller.watch
        await watch.execute("ALTER TABLE audit_horizon DISABLE TRIGGER USER")  # it lets nothing be put back
        await watch.execute("CREATE SCHEMA kept")
        for table in TABLES:
            await watch.execute(f"CREATE TABLE kept.{table} AS TABLE {table}")
        await self._put_back(TABLES)
        self._kept = await self._read()
        self._read_before = {
            (table, text): self._kept[table] for table, text in (await self._fetch()).items()
        }
        self._kept_state = dict(self.state(self._kept))

    async def _put_back(self, tables: Sequence[str]) -> None:
        statements = []
        for table in tables:
            if table == "shard_lease":
                statements.append(
                    "UPDATE shard_lease SET epoch = kept.epoch, node_id = kept.node_id FROM kept.shard_lease AS kept"
                    " WHERE kept.shard = shard_lease.shard AND shard_lease.shard IN (7, 8)"
                )
            else:
                statements += [
                    f"DELETE FROM {table}",
                    f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE kept.{table}",
                ]
        if statements:
            await self._controller.watch.execute("; ".join(statements))

    async def _read(self) -> Tables:
        """Return all rows, each table's in one order. Most tables are as they were kept, and not decoded again."""
        texts = await self._fetch()
        return {
            table: self._read_before.get((table, texts[table])) or sorted(json.loads(texts[table]), key=repr)
            for table in TABLES
        }

    async def _fetch(self) -> dict[str, str]:
        """Return the rows of each table as JSON."""
        columns = ", ".join(
            f"(SELECT coalesce(json_agg(row), '[]') FROM {table} AS row) AS {table}"
            for table in TABLES
            if table != "shard_lease"
        )
        leases = "(SELECT json_agg(row) FROM shard_lease AS row WHERE shard IN (7, 8)) AS shard_lease"
        return dict(await self._controller.watch.fetchrow(f"SELECT {columns}, {leases}"))

    def outcome(self, results: tuple[Any, ...], tables: Tables) -> Outcome:
        """Return what two equivalent orders have in common."""
        return self._plain(results), *self.state(tables)

    def state(self, tables: Tables) -> tuple[tuple[str, State], ...]:
        """Return each table's rows as texts, with names for what is numbered as it comes."""
        is_kept = {table: tables[table] == self._kept[table] for table in TABLES}
        known = self._kept_state if all(is_kept[table] for table in _NAMING) else {}
        shown = self._shown(tables, [table for table in TABLES if not (is_kept[table] and table in known)])
        return tuple((table, shown[table] if table in shown else known[table]) for table in TABLES)

    def _shown(self, tables: Tables, wanted: Sequence[str]) -> dict[str, State]:
        lanes = {lane["id"]: f"{lane['queue']}/{lane['route']}/{lane['priority']}" for lane in tables["lane"]}
        rules = {rule["id"]: rule["name"] for rule in tables["limit_rule"]}
        lines = {key["id"]: (rules.get(key["rule_id"]), key["key"]) for key in tables["concurrency_key"]}
        keys: dict[str, dict[Any, Any]] = {
            "rule_id": rules,
            **dict.fromkeys(("key_id", "second_key_id", "third_key_id"), lines),
        }
        state = {}
        for table in wanted:
            rows = []
            for row in tables[table]:
                shown = {key: self._plain(value) for key, value in row.items() if key not in _COUNTED_UP}
                if "lane_id" in shown:
                    shown["lane_id"] = lanes.get(row["lane_id"], "no lane")
                for column in shown.keys() & keys.keys():
                    shown[column] = keys[column].get(row[column])
                if table in _OWN_IDS and row["id"] not in self._known_jobs:
                    shown["id"] = "some"
                if table == "event":
                    shown["number"] = "some"
                rows.append(json.dumps(shown, sort_keys=True))
            state[table] = tuple(sorted(rows))
        return state

    def _plain(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            return type(value).__name__, *(
                (field.name, self._plain(getattr(value, field.name))) for field in fields
            )
        if isinstance(value, dict):
            return tuple(sorted((key, self._plain(item)) for key, item in value.items()))
        if isinstance(value, list | tuple):
            return tuple(self._plain(item) for item in value)
        if isinstance(value, int) and value > FIRST_NEW:
            return "new"
        if isinstance(value, UUID):
            value = str(value)
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, str) and _UUID.fullmatch(value) and value not in self._known_jobs:
            return "new"
        return value


@asynccontextmanager
async def open_bench(dsn: str) -> AsyncIterator[Bench]:
    """Set the scene in an empty, migrated database."""
    async with open_controller(dsn, "ABC") as controller:
        watch = controller.watch
        scene = await set_scene(controller.sides[0].store, watch.execute)
        bench = Bench(controller, scene)
        await bench.keep()
        yield bench


class Orders:
    """The orders of some verbs: all of them where they are few, else a seeded sample; the serial ones are extra."""

    def __init__(self, name: str, counts: tuple[int, ...], *, limit: int | None) -> None:
        self.possible = math.factorial(sum(counts)) // math.prod(math.factorial(count) for count in counts)
        self._counts = counts
        self._limit = limit
        self._name = name
        self._forks: list[str] = [""]
        self._seen: set[str] = set()

    @property
    def is_complete(self) -> bool:
        return self._limit is None or self.possible <= self._limit

    def __iter__(self) -> Iterator[str]:
        if self.is_complete:
            while self._forks:
                yield self._forks.pop()
            return
        assert self._limit is not None
        chance = random.Random(self._name)
        letters = [letter for letter, count in zip("ABC", self._counts, strict=False) for _ in range(count)]
        for _ in range(self._limit - 2):
            chance.shuffle(letters)
            yield "".join(letters)

    def note(self, order: str, played: Played) -> None:
        """Learn from a play where it could have gone otherwise."""
        self._seen.add(played.trace)
        if not self.is_complete:
            return
        taken = "".join(name for _, name in played.options)
        for place in range(len(order), len(taken)):
            names, name = played.options[place]
            self._forks += [taken[:place] + other for other in names if other != name]
