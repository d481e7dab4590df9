"""The setting `secrets`: under which name a secret is known, where it is, and who may use it.

It is a part of `table`, and like it imports nothing slow.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from mainspring.config.kinds import OneLine, read_each
from mainspring.config.setting import Setting
from mainspring.core.allow_list import EVERY_TENANT
from mainspring.core.fields import check_known, kind, read_word
from mainspring.core.kinds import Kind, Schema
from mainspring.core.values import value
from mainspring.core.vault import SCHEME, read_place
from mainspring.errors import InvalidInput

MOST_SECRETS = 1000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_EXAMPLE = '{ from = "env:OPS_HOOK", tenants = ["shop"] }'


@value()
class SecretPlace:
    """Where a secret is, and who may use it.

    Attributes:
        source: `env:VARIABLE`, `file:/PATH`, or `vault:MOUNT/PATH#FIELD`.
        tenants: those whose jobs and channels may name it; `*` are all. Empty is the process alone.
    """

    name: str
    source: str
    tenants: tuple[str, ...]


@value()
class SecretPlaces(Kind):
    """A table of secrets; as text a JSON object of the same form."""

    metavar: ClassVar[str] = "JSON"

    def from_text(self, text: str, path: str) -> Any:
        """Read JSON."""
        try:
            return json.loads(text)
        except ValueError:
            example = '{"ops-hook": {"from": "env:OPS_HOOK", "tenants": ["shop"]}}'
            raise InvalidInput(path, f"must be JSON like {example}") from None

    def read(self, value: object, path: str, old: Any) -> tuple[SecretPlace, ...]:
        """Read a table, or what this has returned."""
        del old
        if isinstance(value, tuple) and all(isinstance(entry, SecretPlace) for entry in value):
            value = self.store(value)
        if not isinstance(value, dict):
            raise InvalidInput(path, f"must be a table like ops-hook = {_EXAMPLE}, not {kind(value)}")
        if len(value) > MOST_SECRETS:
            raise InvalidInput(path, f"must have at most {MOST_SECRETS} entries")
        return tuple(sorted(read_each(value.items(), _read_place, path), key=lambda place: place.name))

    def store(self, value: tuple[SecretPlace, ...]) -> dict[str, Any]:
        """Return the table."""
        return {place.name: {"from": place.source, "tenants": list(place.tenants)} for place in value}

    def load(self, plain: dict[str, Any]) -> tuple[SecretPlace, ...]:
        """Return the places."""
        return self.read(plain, "secrets", None)

    def schema(self) -> Schema:
        """Return the schema of the table."""
        names = {"type": "array", "items": {"type": "string"}}
        place = {
            "type": "object",
            "properties": {"from": {"type": "string"}, "tenants": names},
            "required": ["from", "tenants"],
        }
        return {"type": "object", "additionalProperties": place}

    def limits(self) -> str:
        """Say what an entry has."""
        places = "`env:VARIABLE`, `file:/PATH` or `vault:MOUNT/PATH#FIELD`"
        return f"table of tables, each with `from` ({places}) and `tenants`"


def _read_place(entry: tuple[str, object]) -> SecretPlace:
    name, given = entry
    where = f"{name[:60]!r}"
    try:
        read_word(name, where)
        if not isinstance(given, dict):
            raise InvalidInput(where, f"must be a table like {_EXAMPLE}, not {kind(given)}")
        check_known(given, ("from", "tenants"))
        if "from" not in given:
            raise InvalidInput(where, 'needs from: "env:VARIABLE", "file:/PATH" or "vault:MOUNT/PATH#FIELD"')
        if "tenants" not in given:
            raise InvalidInput(
                where, 'needs tenants: those that may use it, ["*"] for all, [] for the server alone'
            )
        return SecretPlace(name, _read_source(given["from"], where), _read_tenants(given["tenants"], where))
    except InvalidInput as error:
        raise InvalidInput(where, f"{where} {error.message}") from None


def _read_source(value: object, where: str) -> str:
    source = value if isinstance(value, str) else ""
    scheme, _, place = source.partition(":")
    if scheme == SCHEME:
        read_place(place, where)
        return source
    is_variable = scheme == "env" and _VARIABLE.fullmatch(place)
    is_file = scheme == "file" and place.startswith("/") and place.isprintable() and len(place) <= 4096
    if not is_variable and not is_file:  # what is given is not shown: it may be the secret itself
        raise InvalidInput(
            where,
            'has a wrong from; write "env:VARIABLE", "file:/PATH" with an absolute path, or'
            ' "vault:MOUNT/PATH#FIELD"',
        )
    return source


def _read_tenants(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(where, f'has wrong tenants: a list like ["shop"] or ["*"], not {kind(value)}')
    return tuple(
        dict.fromkeys(one if one == EVERY_TENANT else read_word(one, f"{where} tenants") for one in value)
    )


SECRET_SETTINGS = (
    Setting(
        name="keys_file",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="nothing is encrypted",
        field="keys_file",
        words="The file of the keys that encrypt what jobs and runs carry in the store, for this user alone. All"
        " processes on one store need the same. `mainspring keys new` makes a key.",
    ),
    Setting(
        name="secrets",
        kind=SecretPlaces(),
        default=(),
        default_words="none",
        field="secrets",
        words="Secrets that jobs and channels name, where each is, and which tenants may use it.",
    ),
)
