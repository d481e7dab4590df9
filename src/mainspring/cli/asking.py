"""Asks for secrets: at the terminal, where none is shown, or else on standard input. They are never arguments."""

from __future__ import annotations

import sys

import click

from mainspring.errors import InvalidInput

_MOST = 8192


def ask_secret(words: str, *, again: str | None = None) -> str:
    """Return a secret. Standard input has it as its first line.

    Args:
        again: how to ask at a terminal for the same once more.

    Raises:
        InvalidInput: there is none.
    """
    if sys.stdin.isatty():
        secret: str = click.prompt(
            words, hide_input=True, err=True, confirmation_prompt=False if again is None else again
        )
        return secret
    line = sys.stdin.buffer.readline(_MOST)
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidInput("password", "on standard input is not UTF-8") from None
    if not text:
        raise InvalidInput("password", "is missing; type it at the terminal, or give it on standard input")
    return text
