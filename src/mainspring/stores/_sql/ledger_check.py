"""The stored form of the result of a check of all ledgers: one JSON text, the same in both dialects."""

from __future__ import annotations

import msgspec

from mainspring.core.ledger_check import LedgerCheck

_decoder = msgspec.json.Decoder(LedgerCheck)


def encode_ledger_check(check: LedgerCheck) -> str:
    """Return a result as JSON text."""
    return msgspec.json.encode(check).decode()


def decode_ledger_check(text: str) -> LedgerCheck:
    """Return the result of a JSON text."""
    return _decoder.decode(text)
