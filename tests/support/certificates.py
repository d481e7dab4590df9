"""Certificates of a certificate authority that only a test knows, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    cert: Path
    key: Path


def make_authority(folder: Path, name: str = "authority") -> Pair:
    """Make an authority that signs certificates."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    _request(pair, "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")
    return pair


def make_certificate(folder: Path, authority: Pair, name: str = "server") -> Pair:
    """Make a certificate for this machine's loopback."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    signed = ("-CA", authority.cert, "-CAkey", authority.key)
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    _request(pair, "-subj", f"/CN={name}", "-addext", names, "-addext", "basicConstraints=CA:FALSE", *signed)
    return pair


def _request(pair: Pair, *options: object) -> None:
    command = ["openssl", "req", "-x509", *_KEY, "-keyout", pair.key, "-out", pair.cert, *options]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
