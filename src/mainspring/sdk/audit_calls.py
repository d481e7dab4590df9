"""The call that says who changed what."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.sdk.lists import text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.audit import AuditCheckView, AuditPage


class AuditCalls(Transport):
    """A part of `AsyncClient`."""

    async def list_audit(
        self,
        *,
        job: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | None = None,
        since: str | datetime | timedelta | None = None,
        until: str | datetime | timedelta | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> AuditPage:
        """Return a page of the audit, the newest entries first: who changed what, from where and when.

        `job` is a name or an id, that of a deleted job too; other things are given by their `kind` and, as `subject`,
        their id or name. Without a `tenant`, it is what belongs to all tenants, and what they share.
        """
        query: dict[str, str | int | None] = {
            "job": job,
            "kind": kind,
            "subject": subject,
            "actor": actor,
            "action": action,
            "tenant": tenant,
            "since": text_of(since),
            "until": text_of(until),
            "before": before,
            "limit": limit,
        }
        return await self.call(operations.LIST_AUDIT, query=query)

    async def verify_audit(self, *, after: int | None = None, expect: str | None = None) -> AuditCheckView:
        """Compare the next seals of the audit, those after one, with each other and with what they cover.

        `next` of the answer is `after` of the call that goes on; it is None when there are no more.
        `expect` is a seal that has to be there, `SEAL=DIGEST` from a server's log. Only that shows that the newest ones
        were taken out.
        """
        return await self.call(operations.VERIFY_AUDIT, query={"after": after, "expect": expect})
