"""The loader of named queries."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mainspring.ports.store.claims import ClaimedRun
from mainspring.stores._sql.queries import columns_of, load_fragments, load_queries, parse_queries


def parameters_of(text: str) -> tuple[str, ...]:
    [query] = parse_queries(f"-- name: query\n{text}")
    return query.parameters


def test_file_is_split_by_name() -> None:
    text = "-- A heading.\n\n-- name: first\n-- Why.\nSELECT 1;\n\n-- name: second_one\nSELECT\n    2;\n"
    first, second = parse_queries(text)
    assert (first.name, first.text) == ("first", "-- Why.\nSELECT 1")
    assert (second.name, second.text) == ("second_one", "SELECT\n    2")


def test_empty_file_has_no_queries() -> None:
    assert parse_queries("") == []
    assert parse_queries("-- Nothing yet.\n") == []


def test_statement_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no name before 'SELECT 1;'"):
        parse_queries("-- A heading.\nSELECT 1;\n-- name: late\nSELECT 2;")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT 1", ()),
        ("SELECT :one, :two_words", ("one", "two_words")),
        ("SELECT :b, :a, :b", ("b", "a")),
        ("SELECT :id::bigint, x::text, (:ids::bigint[])", ("id", "ids")),
        ("SELECT ':text', 'it''s :text', :real", ("real",)),
        ("SELECT 1 -- not :this one\n, :that", ("that",)),
        ("SELECT '-- not a comment', :real", ("real",)),
        ("SELECT a[1:2], :real", ("real",)),
        ("WHERE id=:id AND(:other)", ("id", "other")),
    ],
)
def test_parameters_are_found_in_order(text: str, names: tuple[str, ...]) -> None:
    assert parameters_of(text) == names


def test_positional_text_numbers_parameters_by_first_appearance() -> None:
    [query] = parse_queries(
        "-- name: query\nSELECT :b::text, ':a', :a -- and :c\nFROM x WHERE b = :b AND y::int = :a;"
    )
    assert query.positional() == (
        "SELECT $1::text, ':a', $2 -- and :c\nFROM x WHERE b = $1 AND y::int = $2",
        ("b", "a"),
    )


def test_more_than_nine_parameters() -> None:
    names = [f"p{letter}" for letter in "abcdefghijkl"]
    [query] = parse_queries("-- name: query\nSELECT " + ", ".join(f":{name}" for name in names))
    text, found = query.positional()
    assert text == "SELECT " + ", ".join(f"${number}" for number in range(1, 13))
    assert found == tuple(names)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / f"queries_of_{tmp_path.name}"  # imported once by each test
    (folder / "queries").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_all_files_of_a_package_are_loaded(package: Path) -> None:
    (package / "queries" / "b.sql").write_text("-- name: second\nSELECT 2;")
    (package / "queries" / "a.sql").write_text("-- name: first\nSELECT 'ü';", encoding="utf-8")
    (package / "queries" / "notes.txt").write_text("no query")
    queries = load_queries(package.name)
    assert {name: query.text for name, query in queries.items()} == {
        "first": "SELECT 'ü'",
        "second": "SELECT 2",
    }


def test_name_that_stands_twice_is_refused(package: Path) -> None:
    for name in "ab":
        (package / "queries" / f"{name}.sql").write_text("-- name: same\nSELECT 1;")
    with pytest.raises(ValueError, match="query same is defined twice"):
        load_queries(package.name)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_queries_of_the_stores_are_one_statement_each(dialect: str) -> None:
    for query in load_queries(f"mainspring.stores.{dialect}").values():
        text = re.sub(
            r"\$\$.*?\$\$|^BEGIN$.*^END$", "", query.text, flags=re.DOTALL | re.MULTILINE
        )  # a block is one
        assert ";" not in text.replace("; ", ""), query.name


def test_fragment_takes_its_place_with_a_prefix_where_asked_for() -> None:
    fragments = {"columns": "id, name,\nstate", "is_ready": "run.ready_at < :now"}
    [query] = parse_queries("-- name: query\nSELECT {run.columns} FROM run WHERE {is_ready};", fragments)
    assert query.text == "SELECT run.id, run.name, run.state FROM run WHERE run.ready_at < :now"
    assert query.parameters == ("now",)


def test_fragment_may_hold_others() -> None:
    fragments = {"columns": "id, name", "end": "RETURNING {run.columns}"}
    [query] = parse_queries("-- name: query\nDELETE FROM run {end};", fragments)
    assert query.text == "DELETE FROM run RETURNING run.id, run.name"


def test_unknown_fragment_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no fragment 'columns'"):
        parse_queries("-- name: query\nSELECT {columns};", {})


def test_claims_answer_columns_in_the_order_of_the_fields() -> None:
    columns = columns_of(load_fragments()["claimed_columns"])
    names = tuple(field.name for field in fields(ClaimedRun))
    assert ("run_id", *columns[1:], "is_cancel_requested", "tenant") == names
    assert columns[0] == "id"
