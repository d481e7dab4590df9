"""Asking a server's API from tests of processes that speak HTTP by themselves, with nothing of ours in between."""

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 90.0
"""Seconds for what takes less than one: these tests share their machine."""


def ask(address: str, method: str, path: str, body: object = None) -> Any:
    """Return what a path of the API answers, which must be a success."""
    link = http.client.HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE)
    with contextlib.closing(link):
        text = None if body is None else json.dumps(body)
        link.request(method, f"/api/v1/{path}", text, {"Content-Type": "application/json"})
        answer = link.getresponse()
        told = answer.read()
        assert answer.status < 300, told
        return json.loads(told)


def wait_until(is_so: Callable[[], object]) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
