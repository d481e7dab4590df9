"""Lines of a pod's log are found however they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.executors._kubernetes.lines import LogLines, Piece, read_time, show_second

SECOND = 1_774_747_800


def stamp(nanoseconds: int, zone: str = "Z") -> str:
    hour = {"Z": "01", "+02:00": "03"}[zone]
    return f"2026-03-29T{hour}:30:00.{nanoseconds:09}{zone} "


def read(*pieces: bytes) -> list[Piece]:
    lines = LogLines()
    found = [piece for data in pieces for piece in lines.take(data)]
    return [*found, *lines.end()]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.text("ab 2:T-\u00e9", max_size=6)), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
    st.sampled_from(["Z", "+02:00"]),
)
def test_lines_are_the_same_wherever_they_are_cut(
    lines: list[tuple[int, str]], cuts: list[int], zone: str
) -> None:
    lines.sort(key=lambda line: line[0])
    whole = "".join(f"{stamp(time, zone)}{text}\n" for time, text in lines).encode()
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    found = read(*(whole[a:b] for a, b in pairwise(places)))
    assert [(piece.time, piece.data.decode()) for piece in found] == [
        ((SECOND, time), f"{text}\n") for time, text in lines
    ]
    for time in {time for time, _ in lines}:
        numbers = [piece.nth for piece in found if piece.time == (SECOND, time)]
        assert numbers == list(range(1, len(numbers) + 1))


def test_line_without_an_end_is_not_whole() -> None:
    (piece,) = read(stamp(5).encode() + b"half")
    assert (piece.data, piece.is_whole) == (b"half", False)


def test_time_that_is_cut_is_no_line() -> None:
    first, *more = read(stamp(5).encode() + b"one\n2026-03-29T01:3")
    assert (first.data, more) == (b"one\n", [])


def test_word_of_the_node_has_no_time() -> None:
    found = read(b"unable to retrieve container logs for containerd://1\n" + stamp(5).encode() + b"x\n")
    assert [(piece.time, piece.data[:6]) for piece in found] == [(None, b"unable"), ((SECOND, 5), b"x\n")]


def test_long_line_is_not_waited_for() -> None:
    found = read(stamp(5).encode(), b"x" * 70_000, b"y" * 10 + b"\nz")
    assert [(len(piece.data), piece.at, piece.is_whole) for piece in found[:2]] == [
        (70_000, 0, False),
        (11, 70_000, True),
    ]


@pytest.mark.parametrize("text", [b"", b"2026-03-29", b"2026-13-29T01:30:00Z", b"2026-03-29T01:30:00"])
def test_what_is_no_time(text: bytes) -> None:
    assert read_time(text) is None


def test_second_of_a_time() -> None:
    time = read_time(b"2026-03-29T03:30:00.25+02:00")
    assert time == (SECOND, 250_000_000)
    assert show_second(time) == "2026-03-29T01:30:00Z"
