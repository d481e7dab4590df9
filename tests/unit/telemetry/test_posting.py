"""How spans are put to a collector: where to, with what, and how often."""

from __future__ import annotations

import gzip
import shutil
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mainspring.clock import host_nanoseconds
from mainspring.telemetry import posting
from mainspring.telemetry.posting import TracePost
from tests.support.certificates import make_authority, make_certificate


@dataclass
class Receiver:
    """A server that keeps requests.

    Attributes:
        answers: the status of each answer; 200 when there are no more.
        wait: the header `retry-after` of answers.
        requests: path, headers with small names, and body.
    """

    url: str = ""
    answers: list[int] = field(default_factory=list)
    wait: str | None = None
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receiver(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a server until the block ends, with TLS if there is a context for it."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.requests.append((self.path, headers, body))
            self.send_response(found.answers.pop(0) if found.answers else 200)
            if found.wait is not None:
                self.send_header("retry-after", found.wait)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is None:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
    else:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        found.url = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_where_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{found.url}/base/")
        assert TracePost(None, time=host_nanoseconds).put(b"1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{found.url}/as/it/stands")
        assert TracePost(None, time=host_nanoseconds).put(b"2")
        assert TracePost(found.url, time=host_nanoseconds).put(b"3")
    paths = [(path, body) for path, _, body in found.requests]
    assert paths == [("/base/v1/traces", b"1"), ("/as/it/stands", b"2"), ("/v1/traces", b"3")]
    assert found.requests[0][1]["content-type"] == "application/x-protobuf"


def test_headers_of_the_environment_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=all")
    with receiver() as found:
        assert TracePost(found.url, time=host_nanoseconds).put(b"")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Api-Key=of%20traces,b=c")
        assert TracePost(found.url, time=host_nanoseconds).put(b"")
    first, second = (headers for _, headers, _ in found.requests)
    assert first["api-key"] == "all"
    assert (second["api-key"], second["b"]) == ("of traces", "c")


@pytest.mark.parametrize(
    ("text", "encoding", "unpack"),
    [
        ("gzip", "gzip", gzip.decompress),
        (" Deflate", "deflate", zlib.decompress),
        ("none", None, bytes),
        ("odd", None, bytes),
    ],
)
def test_compression(
    monkeypatch: pytest.MonkeyPatch, text: str, encoding: str | None, unpack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", text)
    with receiver() as found:
        assert TracePost(found.url, time=host_nanoseconds).put(b"x" * 1000)
    _, headers, body = found.requests[0]
    assert headers.get("content-encoding") == encoding
    assert unpack(body) == b"x" * 1000


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    with receiver() as found:
        found.answers, found.wait = [status, status], "0"
        assert TracePost(found.url, time=host_nanoseconds).put(b"a")
    assert [body for _, _, body in found.requests] == [b"a"] * 3


@pytest.mark.parametrize("status", [307, 400, 401, 404, 500])
def test_what_will_not_pass_is_not(status: int) -> None:
    with receiver() as found:
        found.answers = [status]
        is_taken = TracePost(found.url, time=host_nanoseconds).put(b"a")
    assert is_taken is (status < 400)
    assert len(found.requests) == 1


def test_no_repeat_comes_after_the_time_that_a_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
    with receiver() as found:
        found.answers, found.wait = [503], "6"
        assert not TracePost(found.url, time=host_nanoseconds).put(b"a")
        found.answers, found.wait = [503] * 9, "0"
        assert not TracePost(found.url, time=host_nanoseconds).put(b"a")
    assert len(found.requests) == 1 + len(posting._PAUSES) + 1


def test_nothing_is_repeated_once_it_is_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    with receiver() as found:
        found.answers = [503]
        post = TracePost(found.url, time=host_nanoseconds)
        post.shut()
        assert not post.put(b"a")
    assert len(found.requests) == 1


def test_nobody_listens() -> None:
    with receiver() as found:
        pass
    post = TracePost(found.url, time=host_nanoseconds)
    post.shut()
    assert not post.put(b"a")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
def test_certificates_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    own, mine = make_certificate(tmp_path, authority), make_certificate(tmp_path, authority, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.cert)
    context.load_cert_chain(own.cert, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")  # no repeat fits in
    with receiver(context) as found:
        assert not TracePost(found.url, time=host_nanoseconds).put(b"of a stranger")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(authority.cert))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", str(mine.cert))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", str(mine.key))
        assert TracePost(found.url, time=host_nanoseconds).put(b"of a friend")
    assert [body for _, _, body in found.requests] == [b"of a friend"]


def test_a_session_of_a_provider_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER", "gcp")
    with pytest.raises(RuntimeError, match="gcp"):
        TracePost("http://c", time=host_nanoseconds)
