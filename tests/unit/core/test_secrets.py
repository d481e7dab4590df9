import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.secrets import (
    SHORTEST,
    PieceMask,
    check_marks,
    fill,
    is_mark,
    mask,
    names_in,
    read_reference,
)
from mainspring.errors import InvalidInput

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=64).filter(lambda name: name not in {".", ".."})


@given(NAMES)
def test_reference_names_its_secret(name: str) -> None:
    assert read_reference(f"secret:{name}", "signing") == name


@pytest.mark.parametrize(
    "value", ["", "hunter2", "env:HOME", "file:/etc/passwd", "Secret:a", 7, None, ["secret:a"]]
)
def test_what_is_no_reference_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^signing: must name a secret of the settings") as refused:
        read_reference(value, "signing")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "a" * 65])
def test_reference_with_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^signing: must"):
        read_reference(f"secret:{name}", "signing")


@pytest.mark.parametrize("text", ["${secret:}", "a ${secret:b c}", "${secret:a", "${secret:a}${secret:/}"])
def test_place_without_a_right_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^field: \$\{secret:NAME\} needs a name"):
        check_marks(text, "field")


@pytest.mark.parametrize("text", ["${env:HOME}", "x ${file:/etc/passwd}", "${vault:a}", "${ENV:HOME}"])
def test_servers_own_variables_and_files_cannot_be_named(text: str) -> None:
    check_marks(text, "field")  # elsewhere these are plain text
    with pytest.raises(InvalidInput, match="is not read here; name a secret"):
        check_marks(text, "field", is_strict=True)


def test_text_is_filled_once() -> None:
    secrets = {"a": "${secret:b}", "b": "never"}
    assert names_in("${secret:a} ${secret:b} ${secret:a} $secret:c ${SECRET:d}") == ("a", "b")
    assert fill("x${secret:a}y", secrets.__getitem__) == "x${secret:b}y"


def test_mark_is_the_whole_text() -> None:
    assert is_mark("${secret:a}")
    assert not any(map(is_mark, ["", "a", "${secret:a}b", "b${secret:a}", "${secret:a}\n"]))


@given(st.lists(st.text(min_size=6), max_size=4), st.text(), st.text())
def test_masked_text_holds_no_secret(secrets: list[str], before: str, after: str) -> None:
    text = before + "|".join(secrets) + after
    for secret in secrets:
        if "*" not in secret:
            assert secret not in mask(text, secrets)


def test_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    assert mask("see hunter2-long and hunter2", ["hunter2", "hunter2-long"]) == "see *** and ***"


def test_short_secret_blanks_nothing_that_only_looks_alike() -> None:
    assert mask("a banana", ["a"]) == "a banana"


LONG = "hunter2-hunter2"


@given(
    st.text("abc*\u00e9", min_size=SHORTEST, max_size=12),
    st.text("abc ", max_size=20),
    st.text("abc ", max_size=20),
    st.data(),
)
def test_cut_shows_no_part_of_a_secret(secret: str, before: str, after: str, data: st.DataObject) -> None:
    text = before + secret + after
    cut = data.draw(st.integers(len(before) + 3, len(before) + len(secret) - 3))
    start = mask(text[:cut], [secret], is_cut_after=True)
    end = mask(text[cut:], [secret], is_cut_before=True)
    assert start.endswith("***")
    assert end.startswith("***")
    assert len(start.removesuffix("***")) <= len(before)
    assert len(end.removeprefix("***")) <= len(after)


def test_part_of_a_secret_is_blanked_at_cuts_alone() -> None:
    assert mask("a hunter2-", [LONG]) == "a hunter2-"
    assert mask("a hunter2-", [LONG], is_cut_after=True) == "a ***"
    assert mask("-hunter2 a hunter2-", [LONG], is_cut_before=True) == "*** a hunter2-"
    assert mask("a hu", [LONG], is_cut_after=True) == "a hu"  # as little stands there by chance
    assert mask("a hunter2-hunter2", [LONG], is_cut_after=True) == "a ***"
    assert mask("a hunter2-\ufffd", [LONG], is_cut_after=True) == "a ***\ufffd"
    assert mask("\ufffdhunter2 a", [LONG], is_cut_before=True) == "\ufffd*** a"


def test_secrets_that_overlap_have_one_mark() -> None:
    assert mask("x abcdefghi y", ["abcdef", "defghi"]) == "x *** y"
    assert mask("x abcabcabc y", ["abcabc"]) == "x *** y"
    assert mask("abcdefabcdef", ["abcdef"]) == "******"


@given(
    st.lists(st.text("ab*", min_size=1, max_size=9), max_size=3),
    st.lists(st.text("ab* ", max_size=9), max_size=4),
    st.data(),
)
def test_pieces_show_what_the_whole_text_shows(
    secrets: list[str], between: list[str], data: st.DataObject
) -> None:
    text = "".join(part + data.draw(st.sampled_from([*secrets, ""])) for part in between)
    pieces, shown, place = PieceMask(), "", 0
    while place < len(text):
        size = data.draw(st.integers(1, 4))
        shown += pieces.add(text[place : place + size], secrets)
        assert mask(text, secrets, is_cut_after=True).startswith(shown)
        place += size
    assert shown + pieces.cut(secrets) == mask(text, secrets, is_cut_after=True)


def test_what_cannot_begin_a_secret_is_shown_at_once() -> None:
    pieces = PieceMask()
    assert pieces.add("read 8,400 rows\n", [LONG]) == "read 8,400 rows\n"
    assert pieces.add("oh", [LONG]) == "o"
    assert pieces.add("unt", [LONG]) == ""
    assert pieces.add("s\n", [LONG]) == "hunts\n"


def test_piece_after_a_gap_may_begin_within_a_secret() -> None:
    pieces = PieceMask()
    assert pieces.add("a hunter2-", [LONG]) == "a "
    assert pieces.cut([LONG]) == "***"
    assert pieces.add("nter2 a\n", [LONG]) == "*** a\n"
    assert pieces.add("nter2 a\n", [LONG]) == "nter2 a\n"


def test_secret_without_end_is_not_held_back_for_ever() -> None:
    pieces = PieceMask()
    shown = "".join(pieces.add("ab" * 50_000, ["ababab"]) for _ in range(20))
    assert set(shown) == {"*"}
