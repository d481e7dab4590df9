"""O5, O6, O7 and O9: the audit, the tenants of workers, the counters, and tokens that were revoked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import SessionId
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.judge.histories import SLACK, Story
from tools.judge import ChangeRequest, Fault, TokenUse

SESSION = SessionId(7)
OK = ChangeRequest(id="r1", kind="create", outcome="ok")
REFUSED = replace(OK, outcome="fail")
UNKNOWN = replace(OK, outcome="unknown")


def audit(request: ChangeRequest, *, done: int, rows: int) -> set[str]:
    story = Story()
    story.history.requests = [request]
    story.history.committed = {"r1": done}
    story.history.audited = {"r1": rows} if rows else {}
    return story.broken


@pytest.mark.parametrize(
    ("request_made", "done", "rows", "is_good"),
    [
        (OK, 1, 1, True),
        (OK, 1, 0, False),
        (OK, 0, 0, False),
        (OK, 1, 2, False),
        (REFUSED, 0, 0, True),
        (REFUSED, 0, 1, False),
        (REFUSED, 1, 1, False),
        (UNKNOWN, 0, 0, True),
        (UNKNOWN, 1, 1, True),
        (UNKNOWN, 1, 0, False),
    ],
)
def test_a_change_has_one_row_if_it_took_place(
    request_made: ChangeRequest, done: int, rows: int, *, is_good: bool
) -> None:
    assert audit(request_made, done=done, rows=rows) == (set() if is_good else {"O5"})


def test_an_edit_may_find_that_all_is_so_already() -> None:
    assert audit(replace(OK, kind="edit"), done=0, rows=0) == set()
    assert audit(replace(OK, kind="edit"), done=1, rows=0) == {"O5"}


def test_a_row_of_what_was_not_asked_for() -> None:
    story = Story()
    story.history.audited = {"r9": 1}
    assert story.broken == {"O5"}


def test_without_the_audit_it_is_not_judged() -> None:
    story = Story()
    story.history.requests = [OK]
    assert story.broken == set()


@pytest.mark.parametrize(("tenant", "broken"), [("default", set()), ("other", {"O6"}), (None, set())])
def test_a_bound_worker_gets_its_tenant_s_runs_only(tenant: str | None, broken: set[str]) -> None:
    story = Story()
    story.submit(story.job(), 1, "done")
    story.history.events = [replace(event, session_id=SESSION) for event in story.history.events]
    story.history.bound = {} if tenant is None else {SESSION: tenant}
    assert story.broken == broken


@pytest.mark.parametrize(
    ("counted", "broken"),
    [
        ({RunState.SUCCEEDED: 1}, set()),
        (None, set()),
        ({RunState.SUCCEEDED: 2}, {"O7"}),
        ({}, {"O7"}),
        ({RunState.SUCCEEDED: 1, RunState.FAILED: 1}, {"O7"}),
    ],
)
def test_the_counters_say_what_is_on_record(counted: Any, broken: set[str]) -> None:
    story = Story()
    story.submit(story.job(), 1, "done")
    story.history.counted = counted
    assert story.broken == broken


def use(seconds: float, *faults: Fault, is_admitted: bool = True) -> set[str]:
    """Return what is wrong if a token that was revoked at 10 s is used."""
    story = Story()
    story.history.revoked = {"abc": at(10)}
    story.history.uses = [
        TokenUse(at=at(seconds), token="abc", server="server-1", is_admitted=is_admitted),
        TokenUse(at=at(50), token="other", server="server-1", is_admitted=True),
    ]
    story.history.faults += faults
    return story.broken


def test_a_token_works_for_two_seconds_after_it_was_revoked() -> None:
    assert use(9) == use(12) == set()
    assert use(12 + (SLACK + timedelta(milliseconds=1)).total_seconds()) == {"O9"}
    assert use(20, is_admitted=False) == set()


@pytest.mark.parametrize(
    ("target", "begin", "end", "broken"),
    [
        ("server-1", 11, 13, set()),
        ("", 11, 13, set()),
        ("server-2", 11, 13, {"O9"}),
        ("server-1", 8, 9, {"O9"}),
        ("server-1", 21, 22, {"O9"}),
    ],
)
def test_a_server_that_was_hurt_may_not_have_heard_of_it(
    target: str, begin: float, end: float, broken: set[str]
) -> None:
    fault = Fault(kind="cut", target=target, at=at(begin), until=at(end))
    assert use(20, fault) == broken
