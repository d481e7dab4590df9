import pytest

from mainspring.config import StoreLocation
from mainspring.errors import InvalidInput

HOSTS = "postgresql://user@one:5432,two:5433/db?target_session_attrs=read-write"


def test_location_leaves_the_drivers_parameters_and_takes_its_own() -> None:
    location = StoreLocation.parse(
        "postgres://u@h/db?sslmode=require&pooler=transaction&statement_cache=20&a=%20"
    )
    assert location == StoreLocation(
        "postgresql", "postgres://u@h/db?sslmode=require&a=%20", is_pooled=True, statement_cache=20
    )
    assert StoreLocation.parse("postgresql://h/db?pooler=transaction").target == "postgresql://h/db"


def test_location_takes_several_hosts_and_a_second_way() -> None:
    location = StoreLocation.parse(HOSTS, listen="postgresql://user@direct/db")
    assert (location.target, location.listen) == (HOSTS, "postgresql://user@direct/db")
    assert not location.is_pooled


@pytest.mark.parametrize(
    ("url", "listen", "field", "message"),
    [
        ("postgresql://h/db?pooler=statement", None, "store", "session mode needs no parameter"),
        ("postgresql://h/db?pooler=transaction&pooler=transaction", None, "store", "pooler is given twice"),
        ("postgresql://h/db", "postgresql://d/db?pooler=&pooler=", "listen_store", "pooler is given twice"),
        ("postgresql://h/db?statement_cache=-1", None, "store", "is not a number from 0 to"),
        ("postgresql://h/db?statement_cache=99999", None, "store", "is not a number from 0 to"),
        ("postgresql://h/db", "sqlite:///folder", "listen_store", "is not postgresql"),
        ("postgresql://h/db", "postgresql://p/db?pooler=transaction", "listen_store", "leads to a pooler"),
        ("sqlite:///folder", "postgresql://h/db", "listen_store", "only a store on PostgreSQL"),
    ],
)
def test_location_says_what_is_wrong(url: str, listen: str | None, field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        StoreLocation.parse(url, listen=listen)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("postgresql://u:secret@one,two/db", "postgresql://u:***@one,two/db"),
        ("postgresql://one/db?user=u&password=secret", "postgresql://one/db?user=u&password=***"),
        ("postgresql://u:secret@one/db?password=secret&a=b", "postgresql://u:***@one/db?password=***&a=b"),
        ("memory://", "memory"),
    ],
)
def test_label_hides_the_password(url: str, label: str) -> None:
    assert StoreLocation.parse(url).label == label
