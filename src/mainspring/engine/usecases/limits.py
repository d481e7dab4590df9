"""Use cases on limits that jobs share, and the check that a job uses none that does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, entries, show_settings
from mainspring.core.fields import read_word
from mainspring.core.ids import KeyId
from mainspring.core.limit_settings import LIMIT_OPTIONS, read_limit
from mainspring.core.limits import CLUSTER, LimitRule, used_limits
from mainspring.core.model import JobSpec
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.limits import PLAIN, KeyUse


async def check_limits(
    store: Store, tenant: str, specs: Sequence[JobSpec], *, are_numbered: bool = False
) -> None:
    """Refuse definitions that use a limit that does not exist, or rules that a program that is running does not know.

    Args:
        are_numbered: the field of the error begins with the place of the definition.

    Raises:
        InvalidInput: a limit is not known.
        Conflict: a program of an older release is running, and would break the rules.
    """
    ruled = next((spec for spec in specs if _has_new_rules(spec)), None)
    if ruled is not None and (older := await store.list_older_programs()):
        running = ", ".join(older)
        raise Conflict(
            "release", f"an older release is running, and would break the rules of {ruled.name!r}: {running}"
        )
    if not any(used_limits(spec.concurrency) for spec in specs):
        return
    rules = [*await store.list_limits(tenant), *await store.list_limits(CLUSTER)]
    known = sorted({rule.name for rule in rules})
    for index, spec in enumerate(specs):
        for place, limit in enumerate(spec.concurrency):
            if limit.use is not None and limit.use not in known:
                prefix = f"[{index}]." if are_numbered else ""
                others = f"; there are {', '.join(known[:5])}" if known else ""
                message = f"there is no limit {limit.use!r}: set it first, by `mainspring limit set`{others}"
                raise InvalidInput(f"{prefix}concurrency[{place}].use", message)


def _has_new_rules(spec: JobSpec) -> bool:
    """Say whether a job has limits or rules for running once, which releases before protocol 2 do not know."""
    return spec.is_lined_up or any((spec.unique, spec.debounce, spec.throttle))


class Limits:
    """Limits that jobs share. Every method acts for one tenant, or for `CLUSTER`: those that all tenants share.

    A job that uses a limit has that of its tenant; if there is none of that name, that of the cluster.
    """

    def __init__(self, store: Store, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._wakeups = wakeups
        self._clock = clock

    async def get(self, tenant: str, name: str) -> LimitRule:
        """Return a limit.

        Raises:
            NotFound: there is none of that name.
        """
        for rule in await self._store.list_limits(tenant):
            if rule.name == name:
                return rule
        raise NotFound("limit", name)

    async def list_page(self, tenant: str, *, after: str | None = None, limit: int = 100) -> list[LimitRule]:
        """Return a page of limits by name."""
        rules = await self._store.list_limits(tenant)
        return [rule for rule in rules if after is None or rule.name > after][:limit]

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[LimitRule, bool]:
        """Set a limit. Return it, and whether it is new. It holds at once, for runs that wait too.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
        """
        rule = read_limit(read_word(name, "limit"), body)
        audit: tuple[AuditEntry, ...] = ()
        if by is not None:
            old = [one for one in await self._store.list_limits(tenant) if one.name == name]
            audit = entries(
                by,
                auditing.of_limit(tenant, name),
                at=self._clock.now(),
                before=show_settings(LIMIT_OPTIONS, old[0]) if old else None,
                after=show_settings(LIMIT_OPTIONS, rule),
            )
        [is_new] = await self._store.write_limits(tenant, [rule], audit=audit)
        if not is_new:
            self._wakeups.room_made(None)
        return rule, is_new

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete a limit. Runs that wait under it have none then.

        Raises:
            NotFound: there is none of that name.
            Conflict: a job uses it.
        """
        if ":" in name:  # it is no limit that somebody has set by this name
            raise NotFound("limit", name)
        audit = entries(by, auditing.of_limit(tenant, name), at=self._clock.now())
        deletion = await self._store.delete_limit(tenant, name, audit=audit)
        if deletion.used_by:
            users = ", ".join(deletion.used_by)
            raise Conflict("limit", f"is used by {users}; change these jobs first")
        if not deletion.is_known:
            raise NotFound("limit", name)

    async def keys(
        self, tenant: str, name: str, *, after: str | None = None, limit: int = 100
    ) -> list[KeyUse]:
        """Return a page of the keys of a limit under which a run stands or has just stood.

        Raises:
            NotFound: there is no limit of that name.
        """
        await self.get(tenant, name)
        return await self._store.list_keys(tenant, name, after=after, limit=limit, now=self._clock.now())

    async def keys_by_age(
        self, tenant: str, name: str, *, after: KeyId | None = None, limit: int = 100
    ) -> list[KeyUse]:
        """Return the same by the age of the keys, for who may not see them: the usual order would tell what they are.

        Raises:
            NotFound: there is no limit of that name.
        """
        await self.get(tenant, name)
        start = PLAIN if after is None else after
        return await self._store.list_keys_by_age(
            tenant, name, after=start, limit=limit, now=self._clock.now()
        )
