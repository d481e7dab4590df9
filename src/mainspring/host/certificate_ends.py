"""Reads until when a certificate is valid. Python's `ssl` tells that only of certificates of others."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_FORMS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""By the tag of a time in DER: UTCTime and GeneralizedTime."""
_VERSION = 0xA0


def read_end(pem: str) -> datetime:
    """Return when the first certificate of a text in PEM ends: the server's own, before its chain.

    Raises:
        ValueError: there is none, or it cannot be read.
    """
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in PEM")
    try:
        [(_, certificate)] = _parts(ssl.PEM_cert_to_DER_cert(found.group()))
        (_, signed), *_ = _parts(certificate)
        fields = [content for tag, content in _parts(signed) if tag != _VERSION]
        _, (tag, end) = _parts(fields[3])  # after its number, how it is signed, and who has signed it
        return datetime.strptime(end.decode("ascii"), _FORMS[tag]).replace(tzinfo=UTC)
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError("the certificate cannot be read") from error


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each part."""
    at = 0
    while at < len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(der[at : at + width])
            at += width
        if at + size > len(der):
            raise ValueError("it is cut off")
        yield tag, der[at : at + size]
        at += size
