"""Any part as a site runs it: callers present tokens, a Prometheus reads figures, 1 % of the runs are traced.

    python -m benchmarks.operated rest --rounds 1

A part measured with this and without it, in turn, tells what looking after a server costs. The collector is a process
of its own that answers at once and keeps nothing.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TOKEN = "MAINSPRING_TOKEN"
IS_OPERATED = "MAINSPRING_BENCH_OPERATED"
SCRAPE_EVERY = 1.0


class Collector(BaseHTTPRequestHandler):
    """Takes whatever a process exports."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        print(self.path, size, file=sys.stderr, flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tell nothing of each request but what `do_POST` does."""


@contextmanager
def run_collector() -> Iterator[str]:
    """Run the collector until the block ends; yields its address. Its exports are told at the end."""
    command = [sys.executable, "-m", "benchmarks.operated", "--collect"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            _, exports = process.communicate()
    lines = [line.split() for line in exports.splitlines() if line.startswith("/v1/")]
    for path in sorted({path for path, _ in lines}):
        sizes = [int(size) for other, size in lines if other == path]
        print(f"# collected at {path}: {len(sizes)} requests, {sum(sizes):,} bytes", file=sys.stderr)


def open_account(dsn: str) -> None:
    """Give a new store its first token, which every command and client of this benchmark then presents."""
    command = [sys.executable, "-m", "mainspring", "token", "create", "--store", dsn]
    options = ["--role", "admin", "--account", "bench", "--name", "bench"]
    environment = {key: value for key, value in os.environ.items() if key != TOKEN}
    done = subprocess.run([*command, *options], check=True, env=environment, capture_output=True, text=True)
    os.environ[TOKEN] = next(line for line in done.stdout.splitlines() if line.startswith("ms_"))


@asynccontextmanager
async def read_metrics(addresses: list[str]) -> AsyncIterator[None]:
    """Read the servers' figures each second, as a Prometheus would, until the block ends."""

    async def scrape(address: str) -> None:
        headers = {"Authorization": f"Bearer {os.environ[TOKEN]}"}
        async with httpx.AsyncClient(base_url=address, headers=headers) as client:
            while True:
                with suppress(httpx.TransportError):
                    (await client.get("/metrics")).raise_for_status()
                await anyio.sleep(SCRAPE_EVERY)

    async with anyio.create_task_group() as tasks:
        for address in addresses:
            tasks.start_soon(scrape, address)
        yield
        tasks.cancel_scope.cancel()


def main() -> None:
    if sys.argv[1:] == ["--collect"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    part = sys.argv.pop(1)
    os.environ[IS_OPERATED] = "1"
    with run_collector() as address:
        os.environ[ENDPOINT] = address
        importlib.import_module(f"benchmarks.{part}").main()


if __name__ == "__main__":
    main()
