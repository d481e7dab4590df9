from ipaddress import ip_address

import pytest

from mainspring.egress import Blocked, Destination, check_url, is_public, make_policy, parse_url
from mainspring.errors import InvalidInput

PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700::1111",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2606:4700::5efe:7f00:1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
    with pytest.raises(Blocked):
        make_policy().check(Destination("https", "host", 443), [text])


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://example.com", Destination("https", "example.com", 443)),
        ("HTTPS://Example.COM./a?b=%20#c", Destination("https", "example.com", 443)),
        ("http://example.com:8080/", Destination("http", "example.com", 8080)),
        ("http://[::1]:99/", Destination("http", "::1", 99)),
        ("http://0x7f.1/", Destination("http", "0x7f.1", 80)),
        ("http://2130706433/", Destination("http", "2130706433", 80)),
        ("https://xn--bcher-kva.example/", Destination("https", "xn--bcher-kva.example", 443)),
    ],
)
def test_parse_url_reads(url: str, endpoint: Destination) -> None:
    assert parse_url(url) == endpoint


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "https:example.com",
        "https:/example.com",
        "https:///a",
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://127.0.0.1:70/",
        "javascript://example.com",
        "unix:///run/docker.sock",
        "http://a@127.0.0.1",
        "http://a:b@example.com",
        "http://example.com@127.0.0.1/",
        "http://@example.com",
        "http://example.com\\@127.0.0.1/",
        "http:\\\\127.0.0.1/",
        "http://127.0.0.1\\.example.com/",
        "http://exa mple.com/",
        "http://example.com/\r\nHost: a",
        "http://example.com\t/",
        "http://\uff45xample.com/",
        "http://127。0。0。1/",
        "http://①②⑦.0.0.1/",
        "http://bücher.example/",
        "http://%31%32%37.0.0.1/",
        "http://example.com:0/",
        "http://example.com:/",
        "http://example.com:65536/",
        "http://example.com:80a/",
        "http://[::1/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.a]/",
        "http://[127.0.0.1]/",
        "http://a..b/",
        "http://-a/",
        "https://" + "a" * 3000,
    ],
)
def test_check_url_refuses(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url)
    assert caught.value.field == "callback_url"


def test_check_url_names_the_field_and_asks_no_resolver() -> None:
    check_url("https://no-such-host.invalid/", "target.url")
    with pytest.raises(InvalidInput, match=r"target\.url"):
        check_url("x", "target.url")


HTTPS = Destination("https", "example.com", 443)


def test_every_address_is_checked() -> None:
    policy = make_policy()
    policy.check(HTTPS, ["8.8.8.8", "2606:4700::1111"])
    for bad in ("127.0.0.1", "::1", "fe80::1%eth0", "not an address"):
        with pytest.raises(Blocked):
            policy.check(HTTPS, ["8.8.8.8", bad])
    with pytest.raises(Blocked):
        policy.check(HTTPS, [])


def test_http_and_odd_ports_are_for_the_allow_list() -> None:
    policy = make_policy()
    with pytest.raises(Blocked, match="https"):
        policy.check(Destination("http", "example.com", 80), ["8.8.8.8"])
    with pytest.raises(Blocked, match="port 22"):
        policy.check(Destination("https", "example.com", 22), ["8.8.8.8"])
    make_policy(allow_http=True).check(Destination("http", "example.com", 80), ["8.8.8.8"])
    make_policy(["8.8.8.8:22"]).check(Destination("http", "example.com", 22), ["8.8.8.8"])


@pytest.mark.parametrize(
    ("entry", "endpoint", "address", "is_allowed"),
    [
        ("127.0.0.0/8", Destination("http", "localhost", 5000), "127.0.0.1", True),
        ("127.0.0.0/8", Destination("http", "localhost", 5000), "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", Destination("http", "localhost", 5000), "::1", False),
        ("127.0.0.1:5000", Destination("http", "localhost", 5000), "127.0.0.1", True),
        ("127.0.0.1:5000", Destination("http", "localhost", 5001), "127.0.0.1", False),
        ("localhost:8099", Destination("http", "localhost", 8099), "127.0.0.1", True),
        ("localhost:8099", Destination("http", "localhost", 8098), "127.0.0.1", False),
        ("localhost:8099", Destination("http", "other", 8099), "127.0.0.1", False),
        ("Api.Internal", Destination("https", "api.internal", 7), "10.1.1.1", True),
        ("10.1.0.0/16", Destination("https", "api", 443), "10.1.255.1", True),
        ("10.1.0.0/16", Destination("https", "api", 443), "10.2.0.1", False),
        ("[::1]:80", Destination("http", "::1", 80), "::1", True),
        ("::1", Destination("http", "::1", 81), "::1", True),
        ("fd00::/8", Destination("https", "api", 443), "fd00::9", True),
        ("fd00::/8", Destination("https", "api", 443), "fd00:ec2::254", False),
        ("169.254.0.0/16", Destination("http", "metadata", 80), "169.254.169.254", False),
        ("0.0.0.0/0", Destination("http", "metadata", 80), "::ffff:169.254.169.254", False),
    ],
)
def test_allow_entries(entry: str, endpoint: Destination, address: str, is_allowed: bool) -> None:
    policy = make_policy([entry])
    if is_allowed:
        policy.check(endpoint, [address])
    else:
        with pytest.raises(Blocked):
            policy.check(endpoint, [address])


@pytest.mark.parametrize(
    "entry", ["", "a b", "10.0.0.0/33", "host:0", "host:x", "host:70000", "http://a", "a/8"]
)
def test_allow_entries_that_cannot_be_read(entry: str) -> None:
    with pytest.raises(InvalidInput):
        make_policy([entry])
