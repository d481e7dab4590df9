"""Reads compose.yaml as Compose does, as far as it is used there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")
_SECONDS = {"s": 1, "m": 60}


def read_compose(**variables: str) -> dict[str, Any]:
    """Return the file with its variables filled in; one that is not given is an error, as its `:?` says."""
    text = (ROOT / "compose.yaml").read_text()
    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(lambda match: variables[match.group(1)], text))
    return document


def seconds(duration: str) -> int:
    """Return the seconds of a duration like `45s`."""
    match = re.fullmatch(r"(\d+)([sm])", duration)
    assert match is not None, duration
    return int(match.group(1)) * _SECONDS[match.group(2)]


def option(command: list[str], name: str) -> str:
    """Return the value of an option that is given as `--name=value`."""
    (value,) = [word.partition("=")[2] for word in command if word.startswith(f"{name}=")]
    return value
