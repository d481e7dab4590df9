"""The rules of limits, and the keys under which runs are counted."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

from mainspring.core.ids import JobId, KeyId
from mainspring.core.limits import CLUSTER, LimitRule, RunKey, job_of_limit
from mainspring.stores.memory.rows import LimitKeyRow


class LimitTables:
    """What a memory store holds of limits.

    Attributes:
        rules: by tenant and name.
        users: by tenant and name, the jobs that use a shared limit.
        keys: by id.
        key_ids: by tenant and key.
    """

    def __init__(self) -> None:
        self.rules: dict[tuple[str, str], LimitRule] = {}
        self.users: dict[tuple[str, str], set[JobId]] = defaultdict(set)
        self.keys: dict[KeyId, LimitKeyRow] = {}
        self.key_ids: dict[tuple[str, RunKey], KeyId] = {}
        self._sequence = count(1)

    def key_of(self, tenant: str, key: RunKey) -> LimitKeyRow:
        """Return the row of a key. Intern it if it is new, and its limit as one without bounds."""
        tenant = self._owner_of(tenant, key.limit)
        key_id = self.key_ids.get((tenant, key))
        if key_id is None:
            rule = LimitRule(name=key.limit, job_id=job_of_limit(key.limit))
            self.rules.setdefault((tenant, key.limit), rule)
            key_id = KeyId(next(self._sequence))
            self.key_ids[tenant, key] = key_id
            self.keys[key_id] = LimitKeyRow(id=key_id, tenant=tenant, limit=key.limit, key=key.key)
        return self.keys[key_id]

    def _owner_of(self, tenant: str, limit: str) -> str:
        """Return whose limit it is: a tenant that has none of that name has that of the cluster."""
        found = [
            owner for owner in (tenant, CLUSTER) if (rule := self.rules.get((owner, limit))) and rule.is_set
        ]
        return found[0] if found else tenant
