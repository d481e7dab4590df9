"""Reads what a job carries out: callback, function or command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from mainspring.core.definition.fields import (
    check_known,
    kind,
    read_bool,
    read_mapping,
    read_text,
    show_key,
)
from mainspring.core.definition.plain import encode_payload
from mainspring.core.model import INLINE_LIMIT, Target
from mainspring.errors import InvalidInput

TARGET_SHORT_FORMS = ("callback_url", "function", "command", "shell")
_MAX_URL = 2048
_MAX_COMMAND = 8192
_MAX_ARGUMENTS = 256
_METHODS = ("POST", "PUT", "PATCH", "GET", "HEAD", "DELETE")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_TEXT = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\uffff]*")
_HEADERS_LIMIT = 8192
_RESERVED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "idempotency-key",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""The worker's own, as `executors/http.py` has them: what it would refuse on every attempt is refused here."""
_RESERVED_HEADER_STARTS = ("mainspring-", "proxy-")
_VARIABLE = re.compile(r"[^\s=\x00-\x1f\x7f]{1,128}", re.ASCII)
_RESERVED_VARIABLES = "MAINSPRING_"
_MAX_ENTRIES = 64
_MAX_TEXT = 4096


def read_target(
    body: Mapping[str, Any], *, types: frozenset[str] | None, functions: frozenset[str] | None
) -> Target | None:
    """Return the target of a body in short or full form; None when it gives none.

    Raises:
        InvalidInput: more than one is given, or the one given is wrong.
    """
    given = [name for name in ("target", "callback_url", "function", "command") if name in body]
    if len(given) > 1:
        raise InvalidInput(given[1], f"a job has one target; {given[0]!r} is given already")
    if "shell" in body and given != ["command"]:
        raise InvalidInput("shell", "goes with command only")
    if not given:
        return None
    form = given[0]
    if form == "target":
        full = read_mapping(body["target"], "target")
        name = full.get("type")
        if not isinstance(name, str) or (types is not None and name not in types) or name not in _READERS:
            raise InvalidInput("target.type", _unknown_type(name, types))
        return _bounded(_READERS[name](full, "target.", functions), "target")
    short = {"callback_url": "http", "function": "function", "command": "shell"}[form]
    if types is not None and short not in types:
        raise InvalidInput(form, _unknown_type(short, types))
    if form == "callback_url":
        return Target(
            "http", {"url": _read_url(body["callback_url"], "callback_url"), "method": "POST", "headers": {}}
        )
    if form == "function":
        return Target("function", {"function": _read_function(body["function"], "function", functions)})
    full = {name: body[name] for name in ("command", "shell") if name in body}
    return _bounded(_read_shell(full, "", functions), "command")


def _bounded(target: Target, field: str) -> Target:
    size = len(encode_payload(target.params))
    if size > INLINE_LIMIT:
        raise InvalidInput(field, f"has {size} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere")
    return target


def _unknown_type(name: object, types: frozenset[str] | None) -> str:
    if name == "shell":
        return "shell jobs are not enabled here; start the server with --allow-shell"
    known = ", ".join(sorted(types if types is not None else _READERS))
    return f"must be one of {known}"


def _read_http(full: Mapping[str, Any], prefix: str, functions: frozenset[str] | None) -> Target:
    del functions
    check_known(full, ("type", "url", "method", "headers"), prefix=prefix)
    if "url" not in full:
        raise InvalidInput(f"{prefix}url", "is missing")
    given = full.get("method", "POST")
    method = given.upper() if isinstance(given, str) else given
    if method not in _METHODS:
        raise InvalidInput(f"{prefix}method", f"must be one of {', '.join(_METHODS)}")
    headers = _read_headers(full.get("headers", {}), f"{prefix}headers")
    return Target(
        "http", {"url": _read_url(full["url"], f"{prefix}url"), "method": method, "headers": headers}
    )


def _read_url(value: object, field: str) -> str:
    url = read_text(value, field, longest=_MAX_URL)
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidInput(field, "must begin with https:// (or http://)")
    return url


def _read_named_function(full: Mapping[str, Any], prefix: str, functions: frozenset[str] | None) -> Target:
    check_known(full, ("type", "function"), prefix=prefix)
    if "function" not in full:
        raise InvalidInput(f"{prefix}function", "is missing")
    return Target("function", {"function": _read_function(full["function"], f"{prefix}function", functions)})


def _read_function(value: object, field: str, functions: frozenset[str] | None) -> str:
    name = read_text(value, field, longest=200)
    if "+" in name:
        raise InvalidInput(field, "a function's name holds no '+'")
    if functions is not None and name not in functions:
        near = get_close_matches(name, functions, n=3) or sorted(functions)[:5]
        hint = f"known are {', '.join(near)}" if near else "no worker has registered any"
        raise InvalidInput(field, f"no worker has registered {name!r}; {hint}")
    return name


def _read_shell(full: Mapping[str, Any], prefix: str, functions: frozenset[str] | None) -> Target:
    del functions
    check_known(full, ("type", "command", "shell", "env", "cwd", "user", "stdin"), prefix=prefix)
    if "command" not in full:
        raise InvalidInput(f"{prefix}command", "is missing")
    is_shell = read_bool(full.get("shell", False), f"{prefix}shell")
    params: dict[str, Any] = {
        "command": _read_command(full["command"], f"{prefix}command", is_shell=is_shell)
    }
    params["shell"] = is_shell
    if full.get("env") is not None and (env := _read_env(full["env"], f"{prefix}env")):
        params["env"] = env
    for name in ("cwd", "user"):
        if full.get(name) is not None:
            params[name] = read_text(full[name], f"{prefix}{name}", longest=1024)
    if full.get("stdin") is not None:
        params["stdin"] = _read_free_text(full["stdin"], f"{prefix}stdin")
    return Target("shell", params)


def _read_command(value: object, field: str, *, is_shell: bool) -> str | list[str]:
    if is_shell:
        if not isinstance(value, str):
            raise InvalidInput(field, "with shell true it is one text for /bin/sh -c")
        return _read_free_text(value, field)
    if isinstance(value, str):
        raise InvalidInput(field, 'must be a list of arguments; text for a shell needs "shell": true')
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MAX_ARGUMENTS:
        raise InvalidInput(field, f"must be a list of 1 to {_MAX_ARGUMENTS} arguments, not {kind(value)}")
    arguments = []
    for index, item in enumerate(value):
        if not isinstance(item, str) or len(item) > _MAX_COMMAND or "\0" in item or not _is_unicode(item):
            raise InvalidInput(
                f"{field}[{index}]", f"must be text of at most {_MAX_COMMAND} characters without NUL"
            )
        arguments.append(item)
    if not arguments[0]:
        raise InvalidInput(f"{field}[0]", "names no program")
    return arguments


def _read_free_text(value: object, field: str) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= _MAX_COMMAND
        or "\0" in value
        or not _is_unicode(value)
    ):
        raise InvalidInput(field, f"must be text of 1 to {_MAX_COMMAND} characters without NUL")
    return value


def _read_headers(value: object, field: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, item in _entries(value, field):
        where = f"{field}.{show_key(name)}"
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidInput(where, "is not a header's name: 1 to 100 letters, digits and - _ .")
        if name.lower() in _RESERVED_HEADERS or name.lower().startswith(_RESERVED_HEADER_STARTS):
            raise InvalidInput(where, "is set by the scheduler")
        if not isinstance(item, str) or len(item) > _MAX_TEXT or not _HEADER_TEXT.fullmatch(item):
            raise InvalidInput(where, f"must be text of at most {_MAX_TEXT} characters in one line")
        headers[name] = item
    if sum(len(name) + len(item) for name, item in headers.items()) > _HEADERS_LIMIT:
        raise InvalidInput(field, f"must have at most {_HEADERS_LIMIT} characters in all")
    return headers


def _read_env(value: object, field: str) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, item in _entries(value, field):
        where = f"{field}.{show_key(name)}"
        if not name.isascii() or not _VARIABLE.fullmatch(name):
            raise InvalidInput(where, "is not a variable's name: 1 to 128 ASCII characters, no blank, no =")
        if name.startswith(_RESERVED_VARIABLES):
            raise InvalidInput(where, f"names that begin with {_RESERVED_VARIABLES} are given by the worker")
        if not isinstance(item, str) or len(item) > _MAX_TEXT or "\0" in item or not _is_unicode(item):
            raise InvalidInput(where, f"must be text of at most {_MAX_TEXT} characters without NUL")
        variables[name] = item
    return variables


def _entries(value: object, field: str) -> list[tuple[str, object]]:
    full = read_mapping(value, field)
    if len(full) > _MAX_ENTRIES:
        raise InvalidInput(field, f"must have at most {_MAX_ENTRIES} entries")
    for name in full:
        if not isinstance(name, str):
            raise InvalidInput(f"{field}.{show_key(name)}", "a name is text")
    return list(full.items())


def _is_unicode(text: str) -> bool:
    """Say whether text can be written as UTF-8 (a lone surrogate cannot)."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


_READERS = {"http": _read_http, "function": _read_named_function, "shell": _read_shell}
