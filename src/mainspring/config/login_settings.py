"""The settings of signing in: how long it lasts, and the identity provider.

They are a part of `table`, and like it import nothing slow.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from mainspring.config.channel_settings import SecretReference
from mainspring.config.kinds import OneLine, Several
from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.identity_providers import Grants, ProviderRules, read_group_roles
from mainspring.core.kinds import Kind, Schema
from mainspring.core.secrets import read_reference
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_HOSTS = (UP, SERVER)
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_EXAMPLE = '{ ops = ["operator@shop", "viewer@*"] }'


@value()
class IssuerUrl(OneLine):
    """The address of an identity provider."""

    metavar: ClassVar[str] = "URL"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address; it is kept as it was written, because the provider's tokens have the very same."""
        text = OneLine.read(self, value, path, old)
        try:
            parts = urlsplit(text)
            is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            raise InvalidInput(
                path, "must be an address like https://login.example.com/realms/main"
            ) from None
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not is_whole or not is_safe or parts.query or parts.fragment or "@" in parts.netloc:
            raise InvalidInput(
                path,
                "must be an address like https://login.example.com/realms/main, without parameters; http:// only on"
                " this machine",
            )
        return text

    def limits(self) -> str:
        """Say which form it has."""
        return "`https://…`"


@value()
class GroupRoles(Kind):
    """A table of groups with roles; as text a JSON object of the same form."""

    metavar: ClassVar[str] = "JSON"

    def from_text(self, text: str, path: str) -> Any:
        """Read JSON."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidInput(path, 'must be JSON like {"ops": ["operator@shop", "viewer@*"]}') from None

    def read(self, value: object, path: str, old: Any) -> Grants:
        """Read a table, or what this has returned."""
        del old
        given = self.store(value) if isinstance(value, tuple) else value
        if not isinstance(given, dict):
            raise InvalidInput(path, f"must be a table like {_EXAMPLE}")
        return read_group_roles(given, path)

    def store(self, value: Grants) -> dict[str, Any]:
        """Return the table."""
        return {group: [f"{role.value}@{tenant}" for tenant, role in roles] for group, roles in value}

    def load(self, plain: dict[str, Any]) -> Grants:
        """Return the roles of groups."""
        return read_group_roles(plain, "auth.oidc.groups")

    def schema(self) -> Schema:
        """Return the schema of the table."""
        return {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}

    def limits(self) -> str:
        """Say what an entry has."""
        return "table of lists of `ROLE@TENANT`"


def read_provider(
    *,
    issuer: str | None,
    client_id: str | None,
    client_secret: str | None,
    name: str | None,
    scopes: tuple[str, ...],
    groups: Grants,
    groups_claim: str,
) -> ProviderRules | None:
    """Return the identity provider that the settings name together; None if there is none.

    Raises:
        InvalidInput: one of them is missing, or there is nothing that it goes with.
    """
    if issuer is None:
        others = {
            "client_id": client_id,
            "client_secret": client_secret,
            "name": name,
            "groups": groups or None,
        }
        for key, value in others.items():
            if value is not None:
                raise InvalidInput(
                    f"auth.oidc.{key}", "goes with an identity provider; set auth.oidc.issuer, too"
                )
        return None
    _check_whole(client_id, scopes, groups)
    assert client_id is not None
    return ProviderRules(
        issuer=issuer,
        client_id=client_id,
        client_secret=None
        if client_secret is None
        else read_reference(client_secret, "auth.oidc.client_secret"),
        name=name or str(urlsplit(issuer).hostname),
        scopes=scopes,
        groups=groups,
        groups_claim=groups_claim,
    )


def _check_whole(client_id: str | None, scopes: tuple[str, ...], groups: Grants) -> None:
    """Refuse an identity provider without what it needs.

    Raises:
        InvalidInput: something is missing.
    """
    if client_id is None:
        raise InvalidInput(
            "auth.oidc.issuer", "needs the name by which it knows this server: auth.oidc.client_id"
        )
    if not groups:
        raise InvalidInput(
            "auth.oidc.issuer",
            "needs auth.oidc.groups, or nobody could do anything: which groups have which roles, like"
            f" groups = {_EXAMPLE}",
        )
    if "openid" not in scopes:
        raise InvalidInput("auth.oidc.scopes", "must have openid, without which there is no ID token")


LOGIN_SETTINGS = (
    Setting(
        name="auth.session",
        kind=Duration(timedelta(minutes=5), timedelta(days=30)),
        default=timedelta(hours=12),
        field="auth_session",
        used_by=_HOSTS,
        words="How long people stay signed in, in a browser or on the command line.",
    ),
    Setting(
        name="auth.oidc.issuer",
        kind=IssuerUrl(),
        metavar="URL",
        default=None,
        default_words="people sign in with passwords",
        field="oidc_issuer",
        used_by=_HOSTS,
        words="The OpenID Connect provider at which people may sign in, exactly as it calls itself.",
    ),
    Setting(
        name="auth.oidc.client_id",
        kind=OneLine(),
        metavar="NAME",
        default=None,
        default_words="none; auth.oidc.issuer needs it",
        field="oidc_client_id",
        used_by=_HOSTS,
        words="The name under which the provider knows this server.",
    ),
    Setting(
        name="auth.oidc.client_secret",
        kind=SecretReference(),
        metavar="secret:NAME",
        default=None,
        default_words="a public client",
        field="oidc_client_secret",
        used_by=_HOSTS,
        words="The secret by which this server proves that. Let its tenants be an empty list.",
    ),
    Setting(
        name="auth.oidc.name",
        kind=OneLine(),
        metavar="TEXT",
        default=None,
        default_words="the provider's host",
        field="oidc_name",
        used_by=_HOSTS,
        words="What the login page calls the provider.",
    ),
    Setting(
        name="auth.oidc.scopes",
        kind=Several(words="list of scopes", is_needed=True),
        default=("openid", "email", "profile"),
        field="oidc_scopes",
        used_by=_HOSTS,
        words="What the provider is asked for.",
    ),
    Setting(
        name="auth.oidc.groups",
        kind=GroupRoles(),
        default=(),
        default_words="none; auth.oidc.issuer needs some",
        field="oidc_groups",
        used_by=_HOSTS,
        words="What members of the provider's groups may do, set again at each login. Who is in none of them is not let"
        " in.",
    ),
    Setting(
        name="auth.oidc.groups_claim",
        kind=OneLine(),
        metavar="NAME",
        default="groups",
        field="oidc_groups_claim",
        used_by=_HOSTS,
        words="The claim of ID tokens that names the groups: a text, or a list of them. `email` counts only if it is"
        " verified.",
    ),
)
