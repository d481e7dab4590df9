"""Puts encoded requests to a collector, as OpenTelemetry's variables say. Only who exports imports this.

The SDK's exporter takes spans of the SDK only. Ours are encoded already.
"""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

import requests
from opentelemetry.util.re import parse_env_headers

_DEFAULT_ADDRESS = "http://localhost:4318"
_DEFAULT_TIMEOUT = 10.0
_PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each repeat."""
_PASSING = frozenset((429, 502, 503, 504))
"""Answers after which the same request may do better."""
_PRESSES: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
_SECOND = 1_000_000_000


class TracePost:
    """Puts spans to a collector. Only one thread may use it, but any may shut it.

    Args:
        endpoint: the collector's address; None if the environment names it.
        time: returns the host's time, in nanoseconds since 1970.
    """

    def __init__(self, endpoint: str | None, *, time: Callable[[], int]) -> None:
        self._url = _find_address(endpoint)
        self._time = time
        self._timeout = _read_timeout()
        encoding = _read("COMPRESSION").strip().lower()
        self._press = _PRESSES.get(encoding)
        self._session = _open_session(encoding if encoding in _PRESSES else None)
        # The session's own would give way to REQUESTS_CA_BUNDLE.
        self._trusted = _read("CERTIFICATE") or None
        self._is_shut = threading.Event()

    def put(self, request: bytes) -> bool:
        """Send a request, several times if need be, for as long as a request may take. Return whether it was taken."""
        body = request if self._press is None else self._press(request)
        until = self._time() + round(self._timeout * _SECOND)
        for pause in (*_PAUSES, None):
            left = (until - self._time()) / _SECOND
            is_taken, asked = self._try(body, max(left, 0.001))
            if is_taken is not None:
                return is_taken
            wait = pause if asked is None else asked
            if pause is None or wait is None or wait > left or self._is_shut.wait(wait):
                return False
        return False

    def _try(self, body: bytes, timeout: float) -> tuple[bool | None, float | None]:
        """Send a request once. Return whether it was taken, None if a repeat may do, and the pause the answer wants."""
        try:
            answer = self._session.post(
                self._url, data=body, timeout=timeout, verify=self._trusted, allow_redirects=False
            )
        except (requests.ConnectionError, requests.Timeout):
            return None, None
        if answer.status_code in _PASSING:
            return None, _read_pause(answer.headers.get("retry-after"))
        return answer.status_code < 400, None

    def shut(self) -> None:
        """Make no more repeats."""
        self._is_shut.set()
        self._session.close()


def _find_address(endpoint: str | None) -> str:
    if endpoint is None:
        for_traces = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        if for_traces:
            return for_traces  # as it stands, says OpenTelemetry
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT_ADDRESS
    return f"{endpoint.removesuffix('/')}/v1/traces"


def _open_session(encoding: str | None) -> requests.Session:
    session = _session_of_provider()
    session.headers.update({"content-type": "application/x-protobuf", "user-agent": "mainspring"})
    if encoding is not None:
        session.headers["content-encoding"] = encoding
    session.headers.update(parse_env_headers(_read("HEADERS"), liberal=True))
    certificate, key = _read("CLIENT_CERTIFICATE"), _read("CLIENT_KEY")
    if certificate:
        session.cert = (certificate, key) if key else certificate
    return session


def _session_of_provider() -> requests.Session:
    """Return a session with the credentials that a plug-in of OpenTelemetry gives it, if the environment names one.

    Raises:
        RuntimeError: that plug-in is not installed.
    """
    names = (f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{which}CREDENTIAL_PROVIDER" for which in ("", "TRACES_"))
    name = next(filter(None, map(os.environ.get, names)), None)
    if name is None:
        return requests.Session()
    found = next(iter(entry_points(group="opentelemetry_otlp_credential_provider", name=name)), None)
    if found is None:
        raise RuntimeError(
            f"OpenTelemetry's plug-in `{name}`, which is to give the credentials, is not installed"
        )
    session = found.load()()
    assert isinstance(session, requests.Session), "plug-ins of that group make one"
    return session


def _read(name: str) -> str:
    """Return what the environment says for traces or, without that, for all."""
    variables = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}")
    return next(filter(None, map(os.environ.get, variables)), "")


def _read_timeout() -> float:
    try:
        return float(_read("TIMEOUT") or _DEFAULT_TIMEOUT)
    except ValueError:
        return _DEFAULT_TIMEOUT


def _read_pause(text: str | None) -> float | None:
    try:
        return None if text is None else max(float(text), 0.0)
    except ValueError:
        return None
