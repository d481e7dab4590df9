"""A process with a network and a resolver of its own: callbacks beside hosts whose DNS server is silent.

Prints how each callback to the host that works ended, one line of JSON, or why the process cannot have such a network.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from aiohttp import web

from mainspring.executors import HttpExecutor
from tests.support.networks import raise_loopback
from tests.unit.executors.attempts import make_attempt

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_GOOD = b"\x04good\x04test\x00"
_A = b"\x00\x01"


def enter(folder: Path) -> str | None:
    """Get a network of its own, and `/etc/resolv.conf` that names 127.0.0.1; return why that cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    for command in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "--bind", str(folder / "resolv.conf"), "/etc/resolv.conf"),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr
    raise_loopback()
    return None


def serve_names(server: socket.socket, asked: set[bytes], has_asked: threading.Event) -> None:
    """Answer for good.test; say nothing to anybody else."""
    while True:
        query, client = server.recvfrom(512)
        question = query[12:]
        name = question[: question.index(b"\0") + 1]
        if name != _GOOD:
            asked.add(name)
            if len(asked) == 50:
                has_asked.set()
            continue
        is_a = question[len(name) : len(name) + 2] == _A
        head = query[:2] + b"\x81\x80\x00\x01" + (b"\x00\x01" if is_a else b"\x00\x00") + b"\0\0\0\0"
        record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x7f\x00\x00\x01" if is_a else b""
        server.sendto(head + question[: len(name) + 4] + record, client)


async def call_beside_silence(has_asked: threading.Event) -> list[str]:
    """Begin callbacks to hosts that are never resolved, then some to one that is; return how these ended."""
    application = web.Application()
    application.router.add_post("/", lambda _: asyncio.sleep(0, web.Response(text="thanks")))
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    executor = HttpExecutor(allow=["127.0.0.0/8"])
    await executor.start()

    def call(host: str) -> asyncio.Task[object]:
        return asyncio.create_task(
            executor.execute(make_attempt({"url": f"http://{host}:{port}/"}, timeout=60))
        )

    hosts = [*["dead.test"] * 12, *(f"dead{number}.test" for number in range(49))]
    slow = [call(host) for host in hosts]
    await asyncio.to_thread(has_asked.wait, 20)
    ends = [type(await asyncio.wait_for(call("good.test"), 4)).__name__ for _ in range(3)]
    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await executor.stop()
    await runner.cleanup()
    return ends


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        reason = enter(Path(folder))
        if reason is not None:
            print(json.dumps({"skipped": reason}), flush=True)
            return
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 53))
        has_asked = threading.Event()
        threading.Thread(target=serve_names, args=(server, set(), has_asked), daemon=True).start()
        begun = time.monotonic()
        ends = asyncio.run(call_beside_silence(has_asked))
        print(json.dumps({"ends": ends, "seconds": time.monotonic() - begun}), flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
