"""What a run writes: how it is cut, and read again."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.log_cut import LogCut
from mainspring.core.run_logs import (
    PIECE,
    TAIL,
    LogPart,
    RunProgress,
    check_part,
    deflate,
    join_parts,
    left_out,
    make_progress,
    strip_controls,
    text_from,
)
from mainspring.errors import InvalidInput

LIMIT = 256 * 1024
WRITES = st.lists(
    st.tuples(
        st.sampled_from(["a", "é", "漢", "line\n"]),
        st.integers(0, 40_000),
        st.booleans(),  # whether what there is is taken afterwards
    ),
    max_size=30,
)


class Shelf:
    """Keeps parts as a store does."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}

    def take_from(self, cut: LogCut) -> None:
        taken = cut.take()
        for start, data in taken.pieces:
            assert 1 <= len(data) <= PIECE
            data.decode()  # no character is cut in two
            self.kept[start] = data
        if taken.forget is not None:
            first, until = taken.forget
            self.kept = {start: data for start, data in self.kept.items() if not first <= start < until}

    def read(self, start: int = 0) -> str:
        parts = [LogPart(place, len(data), deflate(data)) for place, data in sorted(self.kept.items())]
        return join_parts(parts, start).text


@given(WRITES)
def test_the_first_half_and_the_newest_are_kept_with_a_mark_between(
    writes: list[tuple[str, int, bool]],
) -> None:
    cut, shelf, written = LogCut(LIMIT), Shelf(), b""
    for unit, count, is_taken in writes:
        data = (unit * count).encode()
        cut.add(data)
        written += data
        if is_taken:
            shelf.take_from(cut)
    shelf.take_from(cut)
    assert cut.end == len(written)
    kept = b"".join(data for _, data in sorted(shelf.kept.items()))
    half = LIMIT // 2
    if len(written) <= half:
        assert kept == written
        assert shelf.read() == written.decode()
        return
    head = written[:half].decode(errors="ignore").encode()
    newest = sorted((start, data) for start, data in shelf.kept.items() if start >= len(head))
    assert b"".join(data for start, data in sorted(shelf.kept.items()) if start < len(head)) == head
    first = newest[0][0]
    assert b"".join(data for _, data in newest) == written[first:], "all of the newest, without a gap"
    assert len(written) - first >= min(TAIL - 3, len(written) - len(head))
    assert len(written) - first < 2 * TAIL + PIECE, "and little more"
    mark = left_out(first - len(head)) if first > len(head) else ""
    assert shelf.read() == head.decode() + mark + written[first:].decode()


@given(WRITES, st.integers(0, 200_000))
def test_a_reader_goes_on_where_it_was(writes: list[tuple[str, int, bool]], place: int) -> None:
    cut, shelf, written = LogCut(8 * LIMIT), Shelf(), b""
    for unit, count, _ in writes:
        data = (unit * count).encode()
        cut.add(data)
        written += data
        shelf.take_from(cut)
    place = min(place, len(written))
    assert shelf.read(place) == written[place:].decode(errors="replace")


def test_what_nobody_has_shows_as_a_mark() -> None:
    cut, shelf = LogCut(LIMIT), Shelf()
    cut.add(b"before\n")
    cut.skip(1000)
    cut.add(b"after\n")
    shelf.take_from(cut)
    assert shelf.read() == "before\n\n[… 1,000 bytes left out …]\nafter\n"


def test_a_part_that_comes_twice_or_overlaps_is_shown_once() -> None:
    parts = [
        LogPart(0, 4, deflate(b"one\n")),
        LogPart(0, 4, deflate(b"one\n")),
        LogPart(2, 6, deflate(b"e\ntwo\n")),
    ]
    assert join_parts(parts, 0).text == "one\ntwo\n"
    assert join_parts(parts, 0).end == 8


def test_a_part_that_cannot_be_read_says_so() -> None:
    parts = [LogPart(0, 4, b"no zlib"), LogPart(4, 4, b""), LogPart(8, 4, deflate(b"end\n"))]
    assert (
        join_parts(parts, 0).text == "[a part that cannot be read]\n[a part that cannot be decrypted]\nend\n"
    )


def test_a_part_is_never_inflated_beyond_its_size() -> None:
    bomb = LogPart(0, 10, zlib.compress(b"x" * 10_000_000))
    assert join_parts([bomb], 0).text == "x" * 10
    with pytest.raises(InvalidInput, match=r"parts\[0\]\.data: holds 11 bytes, not the 10"):
        check_part(bomb, "parts[0]")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (LogPart(0, 0, deflate(b"")), r"p\.size: must be from 1 to 65536"),
        (LogPart(0, PIECE + 1, deflate(b"x" * (PIECE + 1))), r"p\.size: must be"),
        (LogPart(-1, 1, deflate(b"x")), r"p\.start: must be from 0"),
        (LogPart(0, 1, b"plain"), r"p\.data: is no zlib stream"),
        (LogPart(0, 2, deflate(b"x")), r"p\.data: holds 1 bytes, not the 2"),
        (LogPart(0, 1, deflate(b"x") + b"more"), r"p\.data: goes on behind its zlib stream"),
        (
            LogPart(0, 1, b"\x78\x01" + b"\0\0\0\xff\xff" * 20_000),
            r"p\.data: has 100,002 bytes, at most 66,560",
        ),
    ],
)
def test_a_wrong_part_is_refused(part: LogPart, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_part(part, "p")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("be\x07ll\x08\x00\x7f\x9b1m", "bell1m"),
        ("\x1b", ""),
    ],
)
def test_what_steers_a_terminal_is_left_out(text: str, shown: str) -> None:
    assert strip_controls(text) == shown


def test_a_whole_output_is_read_from_a_place_on() -> None:
    assert text_from("one\ntwo\n", 4).text == "two\n"
    assert text_from("one\n", 9).end == 9


def test_a_message_beside_a_progress_can_be_kept_by_every_store() -> None:
    assert make_progress(1, None, "a\ud800b\0c").message == "a?bc"
    assert make_progress(1, None, "x" * 10_000_000 + "\x1b[1m").message == "x" * 200


def test_progress_is_checked_and_its_message_is_one_short_line() -> None:
    assert make_progress(3, 10, " reading\n\x1b[1mfiles ") == RunProgress(3.0, 10.0, "reading files")
    assert make_progress(0.5) == RunProgress(0.5)
    assert make_progress(1, message="x" * 500).message == "x" * 200
    for wrong, message in (
        ((-1,), "done: must be a finite number"),
        ((float("nan"),), "done: must be a finite number"),
        ((True,), "done: must be a number, not"),
        ((1, "two"), "total: must be a number, not"),
        ((10**400,), "done: must be a finite number"),
        ((1, 2, 3), "message: must be text, not"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make_progress(*wrong)
