"""Who changed what."""

from __future__ import annotations

import re
from dataclasses import replace

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import query_moment
from mainspring.core.audit import KINDS, AuditFilter
from mainspring.core.audit_seals import ExpectedSeal
from mainspring.core.fields import MAX_NAME, read_one_of, read_text
from mainspring.core.ids import DEFAULT_TENANT, format_job_id, parse_job_id
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.audit import AuditCheckView, AuditPage, view_check, view_entry

_LONGEST_ID = 19
_DIGEST = re.compile("[0-9a-fA-F]{64}")


@handles(operations.LIST_AUDIT)
async def list_audit(call: Call) -> AuditPage:
    query, now = call.query, call.engine.now()
    limit: int = query["limit"]
    wanted = AuditFilter(
        tenant=query.get("tenant"),
        subject_kind=read_one_of(query["kind"], "kind", KINDS) if "kind" in query else None,
        actor=query.get("actor"),
        action=_action(query["action"]) if "action" in query else None,
        since=query_moment(query["since"], "since", now=now) if "since" in query else None,
        until=query_moment(query["until"], "until", now=now) if "until" in query else None,
    )
    if "subject" in query:
        wanted = _of_subject(wanted, query["subject"])
    if "job" in query:
        wanted = await _of_job(call, wanted, query["job"])
    before = _number(query["before"], "before", "an entry's") if "before" in query else None
    found = await call.engine.audit.list_page(wanted, before=before, limit=limit)
    return AuditPage([view_entry(kept) for kept in found], found[-1].id if len(found) == limit else None)


def _of_subject(wanted: AuditFilter, subject: str) -> AuditFilter:
    if wanted.subject_kind is None:
        raise InvalidInput("kind", f"is missing; say what {subject[:60]!r} is")
    if not subject:
        raise InvalidInput("subject", "is empty")
    return replace(wanted, subject_id=subject, subject_name=subject)


async def _of_job(call: Call, wanted: AuditFilter, job: str) -> AuditFilter:
    """Return what was done to a job. One that is named is also looked for by the id of the job that has the name."""
    if wanted.subject_kind not in {None, "job"} or wanted.is_of_subject:
        raise InvalidInput("job", "goes with no other kind and no subject; leave these out")
    try:
        parse_job_id(job)
    except ValueError:
        name = read_text(job, "job", longest=MAX_NAME)
        found = await call.engine.jobs.find_all(wanted.tenant or DEFAULT_TENANT, [name])
        job_id = format_job_id(found[0].id) if found else None
        return replace(wanted, subject_kind="job", subject_id=job_id, subject_name=name)
    return replace(wanted, subject_kind="job", subject_id=job)


def _action(text: str) -> str:
    if text not in {operation.id for operation in operations.OPERATIONS}:
        raise InvalidInput(
            "action", f"{text[:60]!r} is no operation's id; /openapi.json has them, like edit_job"
        )
    return text


def _number(text: str, field: str, whose: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _LONGEST_ID):
        raise InvalidInput(field, f"{text[:60]!r} is not {whose} id like 17")
    return int(text)


@handles(operations.VERIFY_AUDIT)
async def verify_audit(call: Call) -> AuditCheckView:
    after = _number(call.query["after"], "after", "a seal's") if "after" in call.query else 0
    expected = _expected(call.query["expect"]) if "expect" in call.query else None
    return view_check(await call.engine.audit.verify(now=call.engine.now(), after=after, expected=expected))


def _expected(text: str) -> ExpectedSeal:
    seal, _, digest = text.partition("=")
    if not _DIGEST.fullmatch(digest):
        raise InvalidInput(
            "expect", f"{text[:60]!r} is not SEAL=DIGEST, like 1204=5f0c…, with 64 hexadecimal digits"
        )
    return ExpectedSeal(id=_number(seal, "expect", "a seal's"), digest=bytes.fromhex(digest))


ROUTES: list[Endpoint] = [list_audit, verify_audit]
