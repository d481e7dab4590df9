import pytest

from mainspring.config import StoreLocation
from mainspring.errors import InvalidInput

HOSTS = "postgresql://user@one:5432,two:5433/db?target_session_attrs=read-write"


def test_location_leaves_the_drivers_parameters_and_takes_its_own() -> None:
    location = StoreLocation.parse(
        "postgres://u@h/db?sslmode=require&pooler=transaction&statement_cache=20&a=%20"
    )
    assert location == StoreLocation(
        "postgresql",
        "postgres://u@h/db?sslmode=require&a=%20",
        is_shared=True,
        is_pooled=True,
        statement_cache=20,
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
        ("postgresql://h:notaport/db", None, "store", "a port from 1 to 65535"),
        ("postgresql://h:70000/db", None, "store", "a port from 1 to 65535"),
        ("postgresql://one:5432,/db", None, "store", "a port from 1 to 65535"),
        ("postgresql://[::1/db", None, "store", "an IPv6 address is written"),
        ("postgresql://fe80::1/db", None, "store", "an IPv6 address is written"),
        ("postgresql:///db?host=/run&port=x", None, "store", "port is not a number"),
        ("postgresql://h/db", "postgresql://h:notaport/db", "listen_store", "a port from 1 to 65535"),
        ("postgresql://h/db", "postgresql://[::1/db", "listen_store", "an IPv6 address is written"),
        (
            "postgresql://h/db",
            "postgresql://h/db?sslmode=bogus",
            "listen_store",
            "sslmode='bogus' is none of",
        ),
        ("postgresql://h/db?sslmode", None, "store", "has no '='"),
        ("postgresql://h/db?sslmode=bogus", None, "store", "sslmode='bogus' is none of"),
        ("postgresql://h/db?target_session_attrs=x", None, "store", "target_session_attrs='x' is none of"),
        (
            "postgresql://h/db?sslrootcert=/nonexistent",
            None,
            "store",
            "'/nonexistent' cannot be read \\(No such",
        ),
        ("postgresql://h/db?sslrootcert=/etc/hostname", None, "store", "holds no certificates in PEM"),
        ("postgresql://h/db?sslrootcert=system", None, "store", "name the system's file of certificates"),
        ("postgresql://h/db?connect_timeout=0", None, "store", "is not a number from 1 to 300"),
        ("postgresql://h/db?connect_timeout=5&connect_timeout=6", None, "store", "is given twice"),
        (
            "postgresql://h/db?sslmode=require&channel_binding=require",
            None,
            "store",
            "give sslmode=verify-full",
        ),
        ("postgresql://h/db?channel_binding=maybe", None, "store", "channel_binding='maybe' is none of"),
        ("postgresql://h/db?gssencmode=require", None, "store", "gssencmode=require is not supported"),
        ("postgresql://h/db?require_auth=scram-sha-256", None, "store", "require_auth is not known here"),
        ("postgresql://h/db?pgbouncer=true", None, "store", "pgbouncer is not known here; for a pooler"),
    ],
)
def test_location_says_what_is_wrong(url: str, listen: str | None, field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        StoreLocation.parse(url, listen=listen)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:12/secret@h/db",
        "postgresql://u:12?secret@h/db",
        "postgresql://u:12#secret@h/db",
        "postgresql://u:12@secret@h/db",
        "postgresql://u:secret/12@h/db",
        "postgresql://u:secret[@h/db",
        "postgresql://u:secret\u2100@h/db",
        "postgresql:/u:secret@h/db",
        "mysql://u:secret@h/db",
        "u:secret@h/db",
    ],
)
def test_what_may_be_part_of_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        StoreLocation.parse(url)
    assert "secret" not in str(refused.value)


def test_parameters_that_the_driver_cannot_heed_are_left_out_and_named() -> None:
    location = StoreLocation.parse(
        "postgresql://h/db?channel_binding=require&sslmode=verify-full&keepalives=1&connect_timeout=10",
        listen="postgresql://h/db?tcp_user_timeout=9&sslmode=require",
    )
    assert (location.target, location.listen) == (
        "postgresql://h/db?sslmode=verify-full",
        "postgresql://h/db?sslmode=require",
    )
    assert location.connect_timeout == 10
    assert location.ignored == ("channel_binding", "keepalives", "tcp_user_timeout")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///db?host=/run/postgresql&port=5433",
        "postgresql://u@[::1]:5432/db",
        "postgresql://%2Frun%2Fpostgresql/db",
        "postgresql://u%40x:p%2Fw@h/db?options=-c%20search_path%3Da&work_mem=8MB",
    ],
)
def test_addresses_of_every_kind_reach_the_driver_as_they_are(url: str) -> None:
    assert StoreLocation.parse(url).target == url


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
