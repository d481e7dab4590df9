"""The audit, as the HTTP API shows it."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mainspring.core.audit import KeptEntry
from mainspring.core.audit_seals import AuditCheck
from mainspring.wire.views import Instant


class AuditEntryView(Struct, kw_only=True):
    """Who changed what."""

    id: Annotated[int, Meta(description="Its place in the audit: later ones have higher ids.")]
    at: Annotated[Instant, Meta(description="When it was done.")]
    tenant: Annotated[str, Meta(description="Whose it is that was changed; `*` if all tenants share that.")]
    actor: Annotated[str, Meta(description="Who did it.")]
    actor_kind: Annotated[
        str,
        Meta(
            description="`account`: an account, by an access token. `local`: a user of the server's machine."
            " `process`: the user whose process did it by itself, or that process. `operator`: whoever has the token"
            " of `auth.admin_token_file`. `anybody`: the server does not tell its callers apart."
        ),
    ]
    token: Annotated[str | None, Meta(description="The prefix of the access token that was shown.")]
    address: Annotated[str | None, Meta(description="Where the request came from.")]
    request_id: Annotated[str | None, Meta(description="The request's `X-Request-Id`.")]
    action: Annotated[str, Meta(description="The operation, by its id in this description.")]
    subject_kind: Annotated[str, Meta(description="What was changed: `job`, `run`, `queue`, …")]
    subject_id: Annotated[str | None, Meta(description="Which one; null if there were many.")]
    subject_name: str | None
    outcome: Annotated[
        str,
        Meta(description="`done`; `partial` if only some of many changed; `refused` for logins that failed."),
    ]
    before: Annotated[dict[str, Any] | None, Meta(description="What was, as far as it changed.")]
    after: Annotated[
        dict[str, Any] | None,
        Meta(description="What is, as far as it changed. Of many things, `count` and the first 100 `ids`."),
    ]


class AuditPage(Struct):
    """A page of entries, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[AuditEntryView]
    next: int | None


class BrokenSealView(Struct, kw_only=True):
    """The first seal that does not fit what it covers, or that is missing."""

    seal: int
    entry_id: Annotated[int | None, Meta(description="The first entry that has this seal; null if none has.")]
    reason: Annotated[str, Meta(description="What does not fit.")]


class AuditCheckView(Struct, kw_only=True):
    """Whether the audit is as it was written."""

    is_intact: Annotated[bool, Meta(description="Whether all seals that were checked fit.")]
    seals: Annotated[int, Meta(description="How many seals fit.")]
    entries: Annotated[int, Meta(description="How many entries they cover.")]
    last_seal: Annotated[int | None, Meta(description="The last seal that fits.")]
    digest: Annotated[str | None, Meta(description="Its digest, in hexadecimal, as in the server's log.")]
    checked_from: Annotated[
        Instant,
        Meta(description="What was sealed from this instant on has to be there. Older entries may be gone."),
    ]
    broken: BrokenSealView | None
    next: Annotated[int | None, Meta(description="The value of `after` for the check of those that follow.")]


def view_check(check: AuditCheck) -> AuditCheckView:
    """Show what a check has found."""
    last, broken = check.last, check.broken
    return AuditCheckView(
        is_intact=broken is None,
        seals=check.seals,
        entries=check.entries,
        last_seal=None if last is None else last.id,
        digest=None if last is None else last.digest.hex(),
        checked_from=check.checked_from,
        broken=None
        if broken is None
        else BrokenSealView(seal=broken.seal_id, entry_id=broken.entry_id, reason=broken.reason),
        next=None if check.is_complete or last is None else last.id,
    )


def view_entry(kept: KeptEntry) -> AuditEntryView:
    """Show an entry."""
    entry = kept.entry
    return AuditEntryView(
        id=kept.id,
        at=entry.at,
        tenant=entry.tenant,
        actor=entry.actor,
        actor_kind=entry.actor_kind.value,
        token=entry.token,
        address=entry.address,
        request_id=entry.request_id,
        action=entry.action,
        subject_kind=entry.subject_kind,
        subject_id=entry.subject_id or None,
        subject_name=entry.subject_name,
        outcome=entry.outcome,
        before=None if entry.before is None else dict(entry.before),
        after=None if entry.after is None else dict(entry.after),
    )
