"""Interns the keys of runs with limits."""

from __future__ import annotations

import apsw

from mainspring.core.limits import RunKey, job_of_limit
from mainspring.ports.store.runs import NewRun
from mainspring.stores.sqlite.statements import fetch_value


def intern_keys(db: apsw.Connection, run: NewRun) -> tuple[int | None, int | None, int | None]:
    """Return the ids of a run's keys; insert those that do not exist."""
    ids = iter([intern_key(db, run.lane.tenant, key) for key in run.keys])
    return next(ids, None), next(ids, None), next(ids, None)


def intern_key(db: apsw.Connection, tenant: str, key: RunKey) -> int | None:
    """Return the id of a key; insert it if it does not exist."""
    rule = {"tenant": tenant, "name": key.limit}
    rule_id = fetch_value(db, "find_rule", rule)
    if rule_id is None:
        job_id = job_of_limit(key.limit)
        rule_id = fetch_value(db, "intern_rule", {**rule, "job_id": None if job_id is None else job_id.bytes})
    values = {"rule_id": rule_id, "key": key.key}
    found: int | None = fetch_value(db, "find_key", values)
    return fetch_value(db, "intern_key", values) if found is None else found
