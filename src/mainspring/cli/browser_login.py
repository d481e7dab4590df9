"""Signing in by a browser: where a command waits for it, and what it begins with."""

from __future__ import annotations

import hmac
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from urllib.parse import parse_qs, urlsplit

from mainspring.core.terminal_logins import challenge_of
from mainspring.errors import MainspringError, NotAuthenticated

PATIENCE = 600.0
"""Seconds in which somebody has to sign in."""
_QUIET = 10.0
"""Seconds in which a connection has to say what it wants. Browsers open some ahead, and use them never."""
_PAGE = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Mainspring</title></head>
<body><p>Go back to your terminal: it says whether you are signed in. You can close this page.</p></body></html>
"""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": str(len(_PAGE)),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "Connection": "close",
}


class LoginSecrets:
    """What a login by a browser begins with. The verifier leaves this process only together with the code."""

    def __init__(self) -> None:
        self.verifier: str = secrets.token_urlsafe(32)
        self.state: str = secrets.token_urlsafe(32)

    @property
    def challenge(self) -> str:
        """The hash of the verifier."""
        return challenge_of(self.verifier)


class BrowserReturn:
    """A port of this machine to which the browser comes back, once.

    Attributes:
        port: its number.
    """

    def __init__(
        self, server: ThreadingHTTPServer, found: SimpleQueue[tuple[str | None, str | None]]
    ) -> None:
        self.port: int = server.server_port
        self._found = found

    def wait(self) -> str:
        """Return the code that the browser brings.

        Raises:
            NotAuthenticated: it brings why nobody may sign in.
            MainspringError: it does not come.
        """
        try:
            code, error = self._found.get(timeout=PATIENCE)
        except Empty:
            raise MainspringError("nobody has signed in within ten minutes; try again") from None
        if code is None:
            raise NotAuthenticated(error or "the browser came back without a code; try again")
        return code


class _QuietServer(ThreadingHTTPServer):
    """Says nothing of requests that fail: whatever else comes to this port is no matter of who signs in."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing; the connection is closed."""


@contextmanager
def awaiting_browser(state: str) -> Iterator[BrowserReturn]:
    """Listen on a free port of this machine until the block ends.

    Args:
        state: what the browser has to bring. Who comes without it is not heard.

    Raises:
        MainspringError: no port can be had.
    """
    found: SimpleQueue[tuple[str | None, str | None]] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        timeout = _QUIET

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            given = query.get("state", [""])[0]
            if not hmac.compare_digest(given.encode(), state.encode()):
                self.send_error(404)
                return
            try:
                self.send_response(200)
                for name, value in _HEADERS.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(_PAGE)
            finally:  # the code is there, even if the browser is gone
                found.put((query.get("code", [None])[0], query.get("error", [None])[0]))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing: the address has the code."""

    try:
        server = _QuietServer(("127.0.0.1", 0), Handler)
    except OSError as error:
        message = f"no port of this machine can be had ({error.strerror}); use --no-browser"
        raise MainspringError(message) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="browser-return", daemon=True)
    thread.start()
    try:
        yield BrowserReturn(server, found)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def has_browser() -> bool:
    """Return whether a browser with a window can be opened here. One in the terminal would take that away."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def open_browser(url: str) -> bool:
    """Open an address in the browser; say whether that could be tried."""
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False
