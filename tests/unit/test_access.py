"""Who may reach the API, and under which names."""

from __future__ import annotations

import pytest

from mainspring.config.access import Access, is_loopback, plain_host, read_access
from mainspring.config.settings import Settings
from mainspring.errors import InvalidInput


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_word(host: str) -> None:
    assert read_access(host, (), trusted_network=False) == Access()
    assert read_access(host, (), trusted_network=True) == Access()


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.5", "192.0.2.1", "fd00::5", "8.8.8.8", "::ffff:10.0.0.5"]
)
def test_other_addresses_need_the_operators_word(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"host: .* is not a loopback address.*--trusted-network"):
        Settings(host=host)
    assert Settings(host=host, trusted_network=True).access == Access(is_open=True)


@pytest.mark.parametrize("host", ["scheduler.internal", "10.0.0", "", "*", "10.0.0.5:8620", "[::1]"])
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"host: .* is not an address"):
        Settings(host=host, trusted_network=True)


def test_names_mean_other_callers_on_loopback_too() -> None:
    """A proxy on this machine makes others its callers."""
    with pytest.raises(InvalidInput, match=r"allow_host: other names mean other callers.*--trusted-network"):
        Settings(allow_hosts=("jobs.example.com",))
    access = Settings(allow_hosts=("jobs.example.com",), trusted_network=True).access
    assert access == Access(is_open=True, names=frozenset({"jobs.example.com"}))


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("Server-1", "server-1"),
        ("jobs.example.com.", "jobs.example.com"),
        ("a_b", "a_b"),
        ("10.0.0.5", "10.0.0.5"),
        ("[FD00::0:5]", "fd00::5"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_names_are_kept_in_one_form(given: str, plain: str) -> None:
    assert read_access("127.0.0.1", (given,), trusted_network=True).names == {plain}


@pytest.mark.parametrize(
    "name",
    ["", "*", "*.example.com", "http://a", "a:8620", "a b", "-a", "a-", "a..b", "bücher.example", "a/b", "u@a",
     "0.0.0.0", "::", "a" * 64, ".".join(["a" * 60] * 5), "a\n"],
)  # fmt: skip
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="allow_host: "):
        Settings(allow_hosts=(name,), trusted_network=True)


def test_is_loopback_asks_no_resolver() -> None:
    assert not is_loopback("localhost.example.com")
    assert not is_loopback("ip6-localhost")


def test_plain_host_of_a_link_local_address_is_without_its_link() -> None:
    assert plain_host("fe80::1%eth0") == "fe80::1"


def test_all_names_that_are_wrong_are_named() -> None:
    with pytest.raises(
        InvalidInput, match=r"^allow_host: 'a/b' is not a host's name .*; 'c d' is not a host's"
    ):
        Settings(allow_hosts=("a/b", "good", "c d"), trusted_network=True)
