"""The audit: who changed what, from where, and when.

An entry is written in the transaction of the change itself, and only if the change takes place. What it keeps of the
thing that was changed is small and plain: see `cut_all`. Payloads are left out, and so is what a target is called with,
as that may hold secrets: the entry names the field, and the versions of the job have the values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.definition import plain_from_spec
from mainspring.core.definition.changes import FieldChange, compare_definitions
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec
from mainspring.core.options import Options
from mainspring.core.values import value

KINDS = (
    *("job", "run", "owner", "calendar", "limit", "backfill", "redrive"),
    *("queue", "tenant", "label", "priority_class", "everything"),
    *("account", "token"),
    *("alert_rule", "channel", "silence", "alert", "monitor", "slo"),
)
"""What entries are about."""
EVERYTHING = "*"
"""Stands in the place of a tenant where something is shared by all of them."""
LONGEST_TEXT = 200
"""Characters of a text in an entry. A longer one is cut, and ends with `…`."""
MOST_ITEMS = 100
"""Ids that an entry about many things names, and items of any other list or object in it."""
MOST_DEPTH = 4
MOST_BYTES = 8000
"""Of what was or what is, as JSON. Of more, an entry has only the names of the fields."""
HIDDEN = "***"
FIRST_VERSION: Mapping[str, Any] = {"version": 1}
"""What is, of a new job."""
_SHOWN_OF_TARGETS = frozenset({"target.type", "target.function"})


@value(kw_only=True)
class Subject:
    """What is changed.

    Attributes:
        kind: `job`, `run`, `queue`, …
        id: as users write it. Empty if it is not known yet, or if there are many; an entry about many has `items`.
        name: of something that has an id and a name.
        tenant: whose it is; `EVERYTHING` if it is shared by all tenants.
    """

    kind: str
    id: str
    tenant: str
    name: str | None = None


@value()
class AuditItem:
    """One of the things that a call of the store is about, and by which it says whether it changed.

    Attributes:
        place: its place among the arguments of the call.
        id: as users write it.
    """

    place: int
    id: str


@value(kw_only=True)
class AuditEntry:
    """One line of the audit.

    Attributes:
        outcome: what became of it: `done`, or `partial` if only some of many things changed; `refused` for a login
            that failed.
        before, after: what was and what is, as far as it changed; plain data, cut by `cut_all`.
        items: what it is about, of all that its call is about; empty means everything. It is not stored.
    """

    at: datetime
    tenant: str
    actor: str
    actor_kind: ActorKind
    token: str | None = None
    address: str | None = None
    request_id: str | None = None
    action: str
    subject_kind: str
    subject_id: str
    subject_name: str | None = None
    outcome: str = "done"
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    items: tuple[AuditItem, ...] = ()


@value()
class KeptEntry:
    """An entry in the store.

    Attributes:
        id: the entries' order, but for those that are written at the same time.
        seal: the seal that covers it; None if none does yet.
    """

    id: int
    entry: AuditEntry
    seal: int | None = None


@value(kw_only=True)
class AuditFilter:
    """Which entries are wanted; None is any.

    Attributes:
        tenant: `EVERYTHING` is what is shared by all tenants.
        subject_id: of a thing of `subject_kind`. Entries about many things are found by those that they name.
        subject_name: likewise; with both, entries to which either applies.
        since, until: from this instant on, and before that one.
    """

    tenant: str | None = None
    subject_kind: str | None = None
    subject_id: str | None = None
    subject_name: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_of_subject(self) -> bool:
        """Whether it is about one thing."""
        return self.subject_id is not None or self.subject_name is not None


def make_entry(
    actor: Actor,
    subject: Subject,
    *,
    at: datetime,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    items: Sequence[AuditItem] = (),
) -> AuditEntry:
    """Return the entry about a change."""
    return AuditEntry(
        at=at,
        tenant=subject.tenant,
        actor=cut_text(actor.name),
        actor_kind=actor.kind,
        token=actor.token,
        address=actor.address,
        request_id=actor.request_id,
        action=actor.action,
        subject_kind=subject.kind,
        subject_id=cut_text(subject.id),
        subject_name=None if subject.name is None else cut_text(subject.name),
        before=cut_all(before),
        after=cut_all(after),
        items=tuple(items),
    )


def entries(
    actor: Actor | None,
    subject: Subject,
    *,
    at: datetime,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    items: Sequence[AuditItem] = (),
) -> tuple[AuditEntry, ...]:
    """Return the one entry about a change; none if nobody is named who makes it."""
    if actor is None:
        return ()
    return (make_entry(actor, subject, at=at, before=before, after=after, items=items),)


def settle_entries(audit: Sequence[AuditEntry], changed: Sequence[bool]) -> list[AuditEntry]:
    """Return the entries to write, once it is known what has changed.

    Args:
        changed: for each thing that the call is about, whether it changed.
    """
    if not audit or not any(changed):
        return []
    kept = []
    for entry in audit:
        if not entry.items or (len(entry.items) == 1 and changed[entry.items[0].place]):
            kept.append(entry)
            continue
        done = [item.id for item in entry.items if changed[item.place]]
        if done:
            kept.append(count_items(entry, done, of=len(entry.items)))
    return kept


def count_discarded(audit: Sequence[AuditEntry], run_ids: Sequence[RunId]) -> list[AuditEntry]:
    """Return the entries about a discard, once it is known which dead letters it settled; none if it settled none."""
    ids = [format_run_id(run_id) for run_id in sorted(run_ids, reverse=True)]
    return [count_items(entry, ids) for entry in audit if ids]


def count_items(entry: AuditEntry, ids: Sequence[str], *, of: int | None = None) -> AuditEntry:
    """Return an entry about many things with how many they were, and the first of their ids.

    Args:
        of: how many were asked for; None if that was not said by their ids.
    """
    after = {**(entry.after or {}), "count": len(ids), "ids": list(ids[:MOST_ITEMS])}
    is_partial = of is not None and len(ids) < of
    return replace(entry, after=after, outcome="partial" if is_partial else entry.outcome)


def show_job_changes(
    before: JobSpec, after: JobSpec, *, version: int, made_at: datetime
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what an edit changes of a job: the version and the fields that differ, before and after it.

    Args:
        version: that of the old definition.
    """
    changes = compare_definitions(plain_from_spec(before), plain_from_spec(after), made_at=made_at)
    old = {change.field: _show(change, change.before) for change in changes}
    new = {change.field: _show(change, change.after) for change in changes}
    return {"version": version, **old}, {"version": version + 1, **new}


def show_settings(options: Options, settings: object) -> dict[str, Any]:
    """Return settings as plain data, by the names that users give them."""
    plain: dict[str, Any] = {}
    options.store_into(plain, settings)
    return plain


def _show(change: FieldChange, plain: Any) -> Any:
    field = change.field
    if field == "target":
        return plain["type"]
    is_hidden = field.partition(".")[0] in {"payload", "target"} and field not in _SHOWN_OF_TARGETS
    return HIDDEN if is_hidden and plain is not None else plain


def cut_all(plain: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an object of plain data in bounds: see `cut`. If it is still too large, only its fields are left."""
    if plain is None:
        return None
    if plain is FIRST_VERSION:
        return {**FIRST_VERSION}
    short = {cut_text(key): cut(item) for key, item in list(plain.items())[:MOST_ITEMS]}
    return short if len(json.dumps(short)) <= MOST_BYTES else dict.fromkeys(short, "…")


def cut(plain: Any, depth: int = MOST_DEPTH) -> Any:
    """Return plain data in bounds: texts of 200 characters, lists and objects of 100 items, four levels of them."""
    if isinstance(plain, str):
        return cut_text(plain)
    if isinstance(plain, Mapping):
        if not depth:
            return "…"
        some = list(plain.items())[:MOST_ITEMS]
        return {cut_text(str(key)): cut(item, depth - 1) for key, item in some}
    if isinstance(plain, list | tuple):
        return [cut(item, depth - 1) for item in plain[:MOST_ITEMS]] if depth else "…"
    return plain


def cut_text(text: str) -> str:
    """Return a text of at most 200 characters that every store can keep."""
    if len(text) <= LONGEST_TEXT and text.isascii() and text.isprintable():  # as nearly all are
        return text
    short = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return short.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
