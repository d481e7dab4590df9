"""A command waits for the browser to come back, and hears nobody else."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlencode

import pytest

from mainspring.cli import browser_login
from mainspring.cli.browser_login import BrowserReturn, LoginSecrets, awaiting_browser, has_browser
from mainspring.core.terminal_logins import read_terminal_login
from mainspring.errors import MainspringError, NotAuthenticated

STATE = "s" * 43


def visit(back: BrowserReturn, path: str = "/", **query: str) -> tuple[int, dict[str, str], str]:
    """Go to the command's port as a browser does."""
    connection = http.client.HTTPConnection("127.0.0.1", back.port, timeout=30)
    try:
        connection.request("GET", f"{path}?{urlencode(query)}")
        answer = connection.getresponse()
        return (
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read().decode(),
        )
    finally:
        connection.close()


def test_the_browser_brings_the_code() -> None:
    with awaiting_browser(STATE) as back:
        assert visit(back, "/favicon.ico")[0] == 404
        assert visit(back, code="wrong", state="t" * 43)[0] == 404
        status, headers, page = visit(back, code="right", state=STATE)
        assert back.wait() == "right"
    assert status == 200
    assert "right" not in page
    assert headers["content-security-policy"] == "default-src 'none'"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_connection_that_says_nothing_keeps_no_one_out() -> None:
    """Browsers open some ahead."""
    with awaiting_browser(STATE) as back, socket.create_connection(("127.0.0.1", back.port)):
        assert visit(back, code="right", state=STATE)[0] == 200
        assert back.wait() == "right"


def test_what_other_programs_send_to_the_port_shows_nothing_in_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The code still comes, and no trace of an error stands where somebody waits for it."""
    with awaiting_browser(STATE) as back:
        for line in (b"GET http://[ HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", back.port), timeout=30) as connection:
                connection.sendall(line)
                while connection.recv(4096):
                    pass
        assert visit(back, code="right", state=STATE)[0] == 200
        assert back.wait() == "right"
    assert capfd.readouterr() == ("", "")


def test_the_browser_brings_why_nobody_may_sign_in(capfd: pytest.CaptureFixture[str]) -> None:
    with awaiting_browser(STATE) as back:
        visit(back, error="none of your groups has a role here", state=STATE)
        with pytest.raises(NotAuthenticated, match="none of your groups"):
            back.wait()
        visit(back, state=STATE)
        with pytest.raises(NotAuthenticated, match="without a code"):
            back.wait()
    assert capfd.readouterr() == ("", ""), "addresses have codes, so none is logged"


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_login, "PATIENCE", 0.001)
    with awaiting_browser(STATE) as back, pytest.raises(MainspringError, match="within ten minutes"):
        back.wait()


def test_what_a_command_makes_up_is_what_a_server_takes() -> None:
    one, other = LoginSecrets(), LoginSecrets()
    read = read_terminal_login(one.challenge, 40_123, one.state)
    assert read == (one.challenge, 40_123, one.state)
    assert len({one.verifier, one.state, one.challenge, other.verifier, other.state}) == 5


@pytest.mark.parametrize(
    ("variables", "is_there"), [({}, False), ({"DISPLAY": ":0"}, True), ({"BROWSER": "x"}, True)]
)
def test_a_browser_is_opened_where_there_may_be_one(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_there: bool
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_browser() is is_there
