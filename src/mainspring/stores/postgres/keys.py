"""Interns the keys of runs with limits, and keeps them from being pruned while such runs are inserted."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.ids import KeyId
from mainspring.core.limits import RunKey, job_of_limit
from mainspring.ports.store.runs import NewRun
from mainspring.stores.postgres.connection import Transaction

_Key = tuple[str, RunKey]
"""A key, with its tenant."""


async def hold_keys(transaction: Transaction, runs: Sequence[NewRun]) -> dict[str, list[KeyId | None]]:
    """Intern the keys of runs, and return the columns that hold their ids."""
    wanted = sorted(
        {(run.lane.tenant, key) for run in runs for key in run.keys},
        key=lambda one: (one[0], one[1].limit, one[1].key),
    )
    ids = await intern_keys(transaction, wanted) if wanted else {}
    rows = [[ids[run.lane.tenant, key] for key in run.keys] for run in runs]
    names = ("key_ids", "second_keys", "third_keys")
    return {
        name: [row[place] if place < len(row) else None for row in rows] for place, name in enumerate(names)
    }


async def intern_keys(transaction: Transaction, wanted: Sequence[_Key]) -> dict[_Key, KeyId]:
    """Return the ids of keys, which are sorted; insert new ones. They stay until the transaction ends."""
    ids = await _find(transaction, wanted)
    while len(ids) < len(wanted):  # some are new, or were pruned between the statements
        limits = sorted({(tenant, key.limit) for tenant, key in wanted})
        await transaction.execute(
            "intern_rules",
            tenants=[tenant for tenant, _ in limits],
            names=[name for _, name in limits],
            job_ids=[job_of_limit(name) for _, name in limits],
        )
        await transaction.execute("intern_keys", **_columns_of(wanted))
        ids = await _find(transaction, wanted)
    return ids


async def _find(transaction: Transaction, wanted: Sequence[_Key]) -> dict[_Key, KeyId]:
    rows = await transaction.fetch("find_keys", **_columns_of(wanted))
    return {wanted[row["position"] - 1]: KeyId(row["id"]) for row in rows}


def _columns_of(keys: Sequence[_Key]) -> dict[str, list[str]]:
    return {
        "tenants": [tenant for tenant, _ in keys],
        "names": [key.limit for _, key in keys],
        "keys": [key.key for _, key in keys],
    }
