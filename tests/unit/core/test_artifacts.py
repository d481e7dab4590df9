"""Where the bytes of files lie, and what stands for a large result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.artifacts import (
    RESULT_NAME,
    check_artifact_name,
    disposition_of,
    locate,
    make_reference,
    read_reference,
)
from mainspring.core.ids import ArtifactId, RunId, format_artifact_id, parse_artifact_id
from mainspring.errors import InvalidInput

texts = st.text(min_size=1, max_size=40)


@given(texts, texts, texts, texts)
def test_two_places_are_never_the_same_and_none_leads_elsewhere(a: str, b: str, c: str, d: str) -> None:
    here, there = locate(a, RunId(1), 1, b), locate(c, RunId(1), 1, d)
    assert (here == there) == ((a, b) == (c, d))
    parts = here.split("/")
    assert len(parts) == 4
    assert not {"", ".", ".."} & set(parts)
    assert here.isascii()


@given(texts)
def test_a_name_that_is_taken_fits_into_a_file_system(name: str) -> None:
    try:
        check_artifact_name(name)
    except InvalidInput:
        return
    assert len(locate("t", RunId(1), 1, name).rpartition("/")[2]) <= 200


def test_a_name_says_where_it_lies() -> None:
    assert locate("shop", RunId(256), 3, "plots/ä.png") == "shop/run_0000000000080/3/plots~2f~c3~a4.png"
    assert locate("shop", RunId(256), 3, RESULT_NAME).endswith("/.result.json")


@pytest.mark.parametrize(
    ("name", "plain", "encoded"),
    [
        ("report.pdf", "report.pdf", "report.pdf"),
        ('plots/a "b".png', "a _b_.png", "a%20%22b%22.png"),
        ("März.csv", "M_rz.csv", "M%C3%A4rz.csv"),
        (RESULT_NAME, "result.json", "result.json"),
    ],
)
def test_browsers_save_a_file_under_its_last_name(name: str, plain: str, encoded: str) -> None:
    assert disposition_of(name) == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


def test_what_stands_for_a_result_is_read_back() -> None:
    made = make_reference(ArtifactId(7), 70_000, bytes(32))
    found = read_reference(made)
    assert found is not None
    assert (found.artifact, found.size, found.sha256) == ("art_0000000000007", 70_000, "00" * 32)


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"$artifact": "art_0000000000007"},
        {"$artifact": "art_7", "size": 1, "sha256": "00" * 32},
        {"$artifact": "art_0000000000007", "size": "1", "sha256": "00" * 32},
        {"$artifact": "art_0000000000007", "size": 1, "sha256": "x"},
        {"$artifact": "art_0000000000007", "size": 1, "sha256": "00" * 32, "more": 1},
    ],
)
def test_other_results_stand_for_themselves(result: object) -> None:
    assert read_reference(result) is None


def test_ids_are_read_back() -> None:
    assert parse_artifact_id(format_artifact_id(ArtifactId(2**40))) == 2**40
    with pytest.raises(ValueError, match="art_"):
        parse_artifact_id("run_0000000000007")
