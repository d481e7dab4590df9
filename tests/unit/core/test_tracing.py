"""The trace context of a run, and the header that carries it."""

from __future__ import annotations

import pytest

from mainspring.core.tracing import (
    TRACE_SIZE,
    as_linked,
    follow_traceparent,
    make_trace,
    must_be_linked,
    read_traceparent,
    show_trace_id,
    show_traceparent,
    span_id_of,
    successor_of,
    trace_id_of,
    with_span,
)
from mainspring.errors import InvalidInput

TEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_header_is_read_and_written() -> None:
    trace = read_traceparent(TEXT)
    assert trace is not None
    assert len(trace) == TRACE_SIZE == 25
    assert show_traceparent(trace) == TEXT
    assert show_trace_id(trace) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace == make_trace(trace_id_of(trace), span_id_of(trace))


@pytest.mark.parametrize(
    "text",
    [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",  # a flag that is younger than ours
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later",
        f" {TEXT}\t",
    ],
)
def test_what_later_versions_add_is_left_out(text: str) -> None:
    trace = read_traceparent(text)
    assert trace is not None
    assert show_traceparent(trace) == TEXT


def test_a_trace_that_is_not_recorded_is_none() -> None:
    text = TEXT.removesuffix("01") + "00"
    assert read_traceparent(text) is None
    assert follow_traceparent(text) == (None, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        TEXT.upper(),
        TEXT[:-1],
        f"{TEXT}-more",
        TEXT.replace("00-", "ff-", 1),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        TEXT.replace("4bf9", "4bg9"),
        f"{TEXT}\n",
        TEXT.replace("4", "\u0664"),
    ],
)
def test_what_is_none_is_refused_where_it_is_given_and_not_followed_elsewhere(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_traceparent(text, "field")
    assert refused.value.field == "field"
    assert follow_traceparent(text) == (None, False)


def test_without_a_header_nothing_is_decided() -> None:
    assert follow_traceparent(None) == (None, False)


def test_a_link_is_our_own_mark_and_not_passed_on() -> None:
    trace = read_traceparent(TEXT)
    assert trace is not None
    assert not must_be_linked(trace)
    assert must_be_linked(as_linked(trace))
    assert as_linked(as_linked(trace)) == as_linked(trace)
    assert show_traceparent(as_linked(trace)) == TEXT


def test_another_span_of_the_trace_keeps_all_else() -> None:
    trace = as_linked(make_trace(bytes(range(16)), b"parent..", 1))
    other = with_span(trace, b"child...")
    assert (trace_id_of(other), span_id_of(other), must_be_linked(other)) == (
        bytes(range(16)),
        b"child...",
        True,
    )


def test_the_trace_that_goes_on_is_the_same_everywhere_and_of_one_run() -> None:
    trace = make_trace(bytes(range(16)), b"parent..")
    after = successor_of(trace, 7)
    assert len(after) == TRACE_SIZE
    assert after == successor_of(as_linked(trace), 7)
    assert trace_id_of(after) not in {trace_id_of(trace), trace_id_of(successor_of(trace, 8))}
    assert not must_be_linked(after)
