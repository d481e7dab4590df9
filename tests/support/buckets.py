"""A bucket of S3, by moto's server, which has an environment of its own: it takes older packages than we do."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LOCK = ROOT / "requirements" / "moto.lock"
_PATIENCE = 240


def find_moto() -> Path:
    """Return the server's program, after it was installed if need be. Without it, tests are skipped with the reason."""
    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:12]
    home = ROOT / ".cache" / f"moto-{digest}-{sys.version_info[0]}.{sys.version_info[1]}"
    home.parent.mkdir(exist_ok=True)
    # Of several test workers, one installs it.
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            _install(home)
    return home / "bin" / "moto_server"


def _install(home: Path) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", *options, "-r", str(_LOCK)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"moto cannot be installed: {done.stderr.strip()[-200:]}")
    (home / "done").touch()


@contextlib.contextmanager
def bucket_server(name: str, *, log: Path) -> Iterator[dict[str, str]]:
    """Run a server with an empty bucket, and give the variables that lead to it."""
    with log.open("w") as written:
        process = subprocess.Popen(
            [find_moto(), "-H", "127.0.0.1", "-p", "0"],
            stdout=subprocess.DEVNULL,
            stderr=written,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        url = _await_address(process, log)
        with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT"), timeout=60):
            pass
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        process.kill()
        process.wait()


def _await_address(process: subprocess.Popen[bytes], log: Path) -> str:
    import time

    deadline = time.monotonic() + _PATIENCE
    while (found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]
