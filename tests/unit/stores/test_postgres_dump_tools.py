"""How an address is handed to `pg_dump`: as libpq's keywords, in a file for this user alone."""

import stat

import pytest

from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.stores.postgres.dump_tools import find_tool, keywords_of, run_tool, service_file


@pytest.mark.parametrize(
    ("dsn", "keywords"),
    [
        ("postgresql://", {}),
        ("postgresql:///shop", {"dbname": "shop"}),
        (
            "postgresql://ann:p%40ss@db.example:5433/shop?sslmode=require",
            {
                "user": "ann",
                "password": "p@ss",
                "host": "db.example",
                "port": "5433",
                "dbname": "shop",
                "sslmode": "require",
            },
        ),
        ("postgresql://[::1]:5432/shop", {"host": "::1", "port": "5432", "dbname": "shop"}),
        (
            "postgresql://db/shop?user=ann&password=x",
            {"host": "db", "dbname": "shop", "user": "ann", "password": "x"},
        ),
        ("postgresql://%2Frun%2Fpostgresql/shop", {"host": "/run/postgresql", "dbname": "shop"}),
        (
            "postgresql://db/shop?search_path=app%2C+x%5C&sslmode=require",
            {"host": "db", "dbname": "shop", "sslmode": "require", "options": r"-c search_path=app,\ x\\"},
        ),
        (
            "postgresql://db/shop?options=-c%20geqo%3Doff&search_path=app",
            {"host": "db", "dbname": "shop", "options": "-c geqo=off -c search_path=app"},
        ),
        ("postgresql://db/?database=shop", {"host": "db", "dbname": "shop"}),
    ],
)
def test_an_address_is_read_as_keywords(dsn: str, keywords: dict[str, str]) -> None:
    assert keywords_of(dsn) == keywords


@pytest.mark.parametrize("password", ["%20x", "x%20", "x%0Ay"])
def test_a_password_that_the_file_cannot_hold_is_refused(password: str) -> None:
    with pytest.raises(InvalidInput, match="password begins or ends with a blank"):
        keywords_of(f"postgresql://ann:{password}@db/shop")


def test_the_file_is_private_and_goes_away() -> None:
    with service_file("postgresql://ann:secret@db/shop") as file:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "password=secret" in file.read_text()
    assert not file.parent.exists()


async def test_a_program_that_is_missing_or_too_old_is_named() -> None:
    with pytest.raises(InvalidInput, match="pg_missing is missing; install") as caught:
        await find_tool("pg_missing", least=15)
    assert "15 or later" in str(caught.value)
    assert "--build-arg PACKAGES=postgresql-client" in str(caught.value)


async def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(StoreUnavailable, match=r"ls failed: .*option"):
        await run_tool("/bin/ls", ["--no-such-option"], dsn="postgresql://db/shop")
