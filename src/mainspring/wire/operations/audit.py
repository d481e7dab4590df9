"""The operation that says who changed what."""

from __future__ import annotations

from mainspring.core.audit import EVERYTHING, KINDS
from mainspring.core.rights import Right
from mainspring.wire.audit import AuditCheckView, AuditPage
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT, MOMENT

LIST_AUDIT = Operation(
    id="list_audit",
    method="GET",
    path=f"{API}/audit",
    right=Right.ADMIN,
    summary="Show who changed what",
    description="Return a page of the audit, the newest entries first, of all tenants.",
    query=(
        Parameter("job", "Only what was done to this job, a name or an id; a deleted one, too."),
        Parameter("kind", f"Only what was done to this kind of thing: {', '.join(KINDS)}."),
        Parameter("subject", "Only what was done to this thing of the `kind`: its id, or its name."),
        Parameter("actor", "Only what this user did."),
        Parameter("action", "Only this operation, by its id, like `edit_job`."),
        Parameter("tenant", f"Only what is this tenant's; `{EVERYTHING}` is what all tenants share."),
        Parameter("since", f"Only what was done at or after this instant, {MOMENT}."),
        Parameter("until", f"Only what was done before this instant, {MOMENT}."),
        LIMIT,
        Parameter("before", "Only entries before this one: the `next` of the previous page."),
    ),
    answer=AuditPage,
)
VERIFY_AUDIT = Operation(
    id="verify_audit",
    method="GET",
    path=f"{API}/audit/verify",
    right=Right.ADMIN,
    summary="Verify the audit",
    description="Compare the next seals of the audit with each other and with the entries that they cover.",
    query=(
        Parameter("after", "Only seals after this one: the `next` of the previous check."),
        Parameter(
            "expect", "A seal that has to be there, with its digest from a server's log: `SEAL=DIGEST`."
        ),
    ),
    answer=AuditCheckView,
)
