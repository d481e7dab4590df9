"""Which migrations are found, and which of them a database still needs."""

import hashlib
from pathlib import Path

import pytest

from mainspring.errors import SchemaMismatch
from mainspring.stores._sql.migrate import Applied, Migration, make_migration, pending, read_migrations


def make(number: int, text: str = "SELECT 1") -> Migration:
    return make_migration(number, f"step_{'abcd'[number - 1]}", text)


ALL = [make(1, "SELECT 1"), make(2, "SELECT 2"), make(3, "SELECT 3")]


def applied(*migrations: Migration) -> dict[int, Applied]:
    return {
        migration.number: Applied(migration.checksum, migration.compatible_from) for migration in migrations
    }


def test_empty_database_needs_all_in_order() -> None:
    assert pending({}, ALL) == ALL


def test_older_database_needs_the_rest() -> None:
    assert pending(applied(*ALL[:1]), ALL) == ALL[1:]


def test_current_database_needs_nothing() -> None:
    assert pending(applied(*ALL), ALL) == []
    assert pending({}, []) == []


def test_newer_database_is_refused_with_both_numbers() -> None:
    with pytest.raises(
        SchemaMismatch,
        match="has migration 0003, which works with migration 0003 or later; this program ends at 0002; upgrade",
    ):
        pending(applied(*ALL), ALL[:2])
    with pytest.raises(SchemaMismatch, match=r"has migration 0001, .*; this program ends at 0000"):
        pending(applied(ALL[0]), [])


def test_newer_migration_that_says_nothing_of_older_programs_is_refused() -> None:
    found = applied(*ALL[:2]) | {3: Applied(ALL[2].checksum, None)}
    with pytest.raises(SchemaMismatch, match="0003, which works with programs that know it or later"):
        pending(found, ALL[:2])


def test_newer_schema_that_agrees_with_the_program_is_left_as_it_is() -> None:
    agreeing = make(3, "-- compatible_from: 0002\nSELECT 3")
    assert pending(applied(*ALL[:2], agreeing), ALL[:2]) == []


def test_newer_schema_agrees_with_no_program_below_its_floor() -> None:
    agreeing = make(3, "-- compatible_from: 0002\nSELECT 3")
    with pytest.raises(SchemaMismatch, match="0002, which works with migration 0002 or later"):
        pending(applied(*ALL[:2], agreeing), ALL[:1])


def test_one_migration_that_does_not_agree_is_enough_to_refuse() -> None:
    agreeing = make(4, "-- compatible_from: 0001\nSELECT 4")
    with pytest.raises(SchemaMismatch, match="has migration 0003, which works with migration 0003"):
        pending(applied(*ALL, agreeing), ALL[:2])


def test_altered_migration_is_refused_below_a_newer_one_that_agrees() -> None:
    agreeing = make(3, "-- compatible_from: 0001\nSELECT 3")
    with pytest.raises(SchemaMismatch, match="0002_step_b was altered"):
        pending(applied(*ALL[:2], agreeing), [ALL[0], make(2, "SELECT 22")])


def test_hole_below_a_newer_one_that_agrees_is_refused() -> None:
    agreeing = make(3, "-- compatible_from: 0001\nSELECT 3")
    with pytest.raises(SchemaMismatch, match="has migration 0003 but not 0002"):
        pending(applied(ALL[0], agreeing), ALL[:2])


def test_migration_agrees_with_nothing_older_unless_it_says_so() -> None:
    assert make(3).compatible_from == 3
    assert make(3, "-- Why.\n\n--  compatible_from:  0001 \nSELECT 1").compatible_from == 1
    assert make(3, "SELECT 1 -- compatible_from: 0001").compatible_from == 3  # not a line of its own


@pytest.mark.parametrize(
    "said", ["0003", "0004", "0000", "2", "two", "", "0001, 0002", "0001\n-- compatible_from: 0002"]
)
def test_declaration_that_cannot_be_is_an_error_that_names_the_migration(said: str) -> None:
    with pytest.raises(ValueError, match="0003_step_c: compatible_from must be one earlier number"):
        make(3, f"-- compatible_from: {said}\nSELECT 1")


def test_altered_migration_is_refused_by_name() -> None:
    altered = [ALL[0], make(2, "SELECT 22"), ALL[2]]
    with pytest.raises(SchemaMismatch, match="0002_step_b was altered"):
        pending(applied(*ALL), altered)
    with pytest.raises(SchemaMismatch, match="0002_step_b was altered"):
        pending(applied(*ALL[:2]), altered)


def test_hole_is_refused_with_both_numbers() -> None:
    with pytest.raises(SchemaMismatch, match="has migration 0003 but not 0002"):
        pending(applied(ALL[0], ALL[2]), ALL)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / f"migrations_of_{tmp_path.name}"  # imported once by each test
    (folder / "migrations").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_migrations_are_read_in_order_of_number(package: Path) -> None:
    for name in ("0010_later.sql", "0002_then.sql", "0001_first_one.sql"):
        (package / "migrations" / name).write_text(f"-- {name}")
    found = read_migrations(package.name)
    assert [(migration.number, migration.name) for migration in found] == [
        (1, "first_one"),
        (2, "then"),
        (10, "later"),
    ]
    assert found[0].text == "-- 0001_first_one.sql"


def test_other_files_are_passed_over(package: Path) -> None:
    for name in ("README.md", "1_short.sql", "0001_Upper.sql", "0001_first.sql.orig", "0002_real.sql"):
        (package / "migrations" / name).write_text("x")
    assert [migration.name for migration in read_migrations(package.name)] == ["real"]


def test_checksum_follows_the_text(package: Path) -> None:
    file = package / "migrations" / "0001_first.sql"
    file.write_text("SELECT 'ü'", encoding="utf-8")
    [before] = read_migrations(package.name)
    file.write_text("SELECT 'u'", encoding="utf-8")
    [after] = read_migrations(package.name)
    assert before.checksum == hashlib.sha256("SELECT 'ü'".encode()).hexdigest()
    assert before.checksum != after.checksum


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_migrations_of_the_stores_are_numbered_without_a_hole(dialect: str) -> None:
    found = read_migrations(f"mainspring.stores.{dialect}")
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))
    assert len(found) >= 1
