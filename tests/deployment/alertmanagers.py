"""Runs a real Alertmanager, Debian's."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from tests.deployment.prometheus import CANNOT_BE_HAD, SCRIPT, free_port

COMMAND = (str(SCRIPT), "prometheus-alertmanager")


class NoAlertmanagerError(Exception):
    """It cannot be had here; the message says why."""


@contextmanager
def running_alertmanager(
    folder: Path, receiver: str, *, group_by: Sequence[str] = ("alertname",)
) -> Iterator[str]:
    """Run an Alertmanager that tells a receiver at once; provide its address.

    Raises:
        NoAlertmanagerError: it cannot be had.
    """
    found = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=False, timeout=120)
    if found.returncode == CANNOT_BE_HAD:
        raise NoAlertmanagerError(found.stderr.strip().splitlines()[-1])
    route = {"receiver": "test", "group_wait": "0s", "group_interval": "1s", "group_by": list(group_by)}
    hook = {"url": receiver, "send_resolved": True}
    (folder / "alertmanager.yml").write_text(
        yaml.safe_dump({"route": route, "receivers": [{"name": "test", "webhook_configs": [hook]}]})
    )
    port = free_port()
    options = {
        "config.file": folder / "alertmanager.yml",
        "storage.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
        "cluster.listen-address": "",
    }
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, *(f"--{name}={value}" for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/-/ready", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers; fail if it ends instead."""
    while True:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            assert process.poll() is None, "Alertmanager has ended; see alertmanager.log"
            time.sleep(0.1)
