"""Entries of the audit are small, hold no secrets, and are kept only where something changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import (
    FIRST_VERSION,
    LONGEST_TEXT,
    MOST_ITEMS,
    AuditEntry,
    AuditItem,
    Subject,
    count_items,
    cut,
    cut_all,
    cut_text,
    entries,
    settle_entries,
    show_job_changes,
)
from mainspring.core.model import Target
from mainspring.testing.factories import START, make_spec

ANN = Actor(name="ann", kind=ActorKind.LOCAL, action="edit_job")
JOB = Subject(kind="job", id="job_1", tenant="default", name="report")


def entry(*items: AuditItem, **given: Any) -> AuditEntry:
    [one] = entries(ANN, JOB, at=START, items=items, **given)
    return one


def test_nobody_writes_nothing() -> None:
    assert entries(None, JOB, at=START) == ()


def test_an_entry_about_everything_is_kept_if_anything_changed() -> None:
    assert settle_entries([entry()], [False, True]) == [entry()]
    assert settle_entries([entry()], [False, False]) == []
    assert settle_entries([entry()], []) == []


def test_an_entry_about_one_of_many_is_kept_if_that_one_changed() -> None:
    one, other = entry(AuditItem(0, "a")), entry(AuditItem(1, "b"))
    assert settle_entries([one, other], [False, True]) == [other]


@pytest.mark.parametrize(
    ("changed", "ids", "outcome"),
    [([True, True], ["a", "b"], "done"), ([False, True], ["b"], "partial")],
)
def test_an_entry_about_many_counts_those_that_changed(
    changed: list[bool], ids: list[str], outcome: str
) -> None:
    many = entry(AuditItem(0, "a"), AuditItem(1, "b"), after={"reason": "r"})
    [kept] = settle_entries([many], changed)
    assert kept == replace(many, after={"reason": "r", "count": len(ids), "ids": ids}, outcome=outcome)


def test_of_many_ids_the_first_hundred_are_named() -> None:
    ids = [f"run_{number}" for number in range(MOST_ITEMS + 1)]
    counted = count_items(entry(), ids)
    assert counted.after == {"count": MOST_ITEMS + 1, "ids": ids[:MOST_ITEMS]}
    assert counted.outcome == "done"


def test_texts_lists_and_depths_are_cut() -> None:
    text = "x" * LONGEST_TEXT
    assert cut_text(text) == text
    assert cut_text(text + "y") == "x" * (LONGEST_TEXT - 1) + "…"
    assert len(cut([0] * (MOST_ITEMS + 1))) == MOST_ITEMS
    assert len(cut({str(number): 0 for number in range(MOST_ITEMS + 1)})) == MOST_ITEMS
    assert cut([[[[["deep"]]]]]) == [[[["…"]]]]
    assert cut({"a": {"b": {"c": {"d": {"e": 1}}}}}) == {"a": {"b": {"c": {"d": "…"}}}}
    assert cut((1, None, True, 2.5)) == [1, None, True, 2.5]


def test_what_no_store_can_keep_is_replaced() -> None:
    assert cut_text("a\0b\ud800") == "a\N{REPLACEMENT CHARACTER}b?"


def test_of_what_is_too_large_only_the_fields_are_left() -> None:
    large = {"a": ["x" * 100] * 100, "b": 1}
    assert cut_all(large) == {"a": "…", "b": "…"}
    assert cut_all({"b": 1}) == {"b": 1}
    assert cut_all(None) is None


def test_the_first_version_is_the_same_in_each_entry_but_no_entry_has_it_from_another() -> None:
    first, other = cut_all(FIRST_VERSION), cut_all(FIRST_VERSION)
    assert first == other == {"version": 1}
    assert first is not other


def test_the_name_of_who_and_what_is_cut() -> None:
    [one] = entries(replace(ANN, name="n" * 999), replace(JOB, id="i" * 999, name="j" * 999), at=START)
    assert [len(one.actor), len(one.subject_id), len(one.subject_name or "")] == [LONGEST_TEXT] * 3


def test_an_edit_tells_what_differs_and_hides_what_may_be_secret() -> None:
    old = make_spec(
        name="report", target=Target("http", {"url": "https://a/?key=1", "method": "GET", "headers": {}})
    )
    new = replace(
        old,
        queue="mail",
        payload=b'{"password": "x"}',
        target=Target("http", {"url": "https://a/?key=2", "method": "POST", "headers": {"X-Key": "s"}}),
    )
    before, after = show_job_changes(old, new, version=3, made_at=START)
    hidden = {"target.url": "***", "target.method": "***"}
    assert before == {
        "version": 3,
        "queue": "default",
        "payload": None,
        **hidden,
        "target.headers.X-Key": None,
    }
    assert after == {"version": 4, "queue": "mail", "payload": "***", **hidden, "target.headers.X-Key": "***"}


def test_the_function_of_a_job_is_told_and_so_is_another_type_of_target() -> None:
    old = make_spec(target=Target("function", {"function": "mail.send"}))
    renamed = replace(old, target=Target("function", {"function": "mail.send_all"}))
    before, after = show_job_changes(old, renamed, version=1, made_at=START)
    assert (before, after) == (
        {"version": 1, "target.function": "mail.send"},
        {"version": 2, "target.function": "mail.send_all"},
    )
    typed = replace(old, target=Target("shell", {"command": ["secret"], "shell": False}))
    before, after = show_job_changes(old, typed, version=1, made_at=START)
    assert (before["target"], after["target"]) == ("function", "shell")
