"""The settings of Vault: where it is, how a process gets in, and how often it reads.

They are a part of `table`, and like it import nothing slow. Where the file says nothing, the variables count that
Vault's own tools read, and those of OpenBao before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from mainspring.config.kinds import OneLine, SecretUrl, is_address
from mainspring.config.setting import Setting
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.core.vault import AppRoleLogin, KubernetesLogin, Login, TokenLogin, VaultRules
from mainspring.errors import InvalidInput

POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a file's name
_EXAMPLE = "https://vault.example.com:8200"
Values = Callable[[str], Any]
"""From a setting's name to its value."""


@value()
class VaultUrl(SecretUrl):
    """The address of Vault."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address."""
        text = SecretUrl.read(self, value, path, old)
        if not is_address(text) or {"?", "#", "@"} & {*text}:
            raise InvalidInput(path, f"must be the address of Vault, like {_EXAMPLE}")
        return text.rstrip("/")


@value()
class MountName(OneLine):
    """Where a method of login is mounted, without `auth/`."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a path."""
        text = OneLine.read(self, value, path, old)
        steps = text.split("/")
        if not text.isprintable() or {"", ".", ".."} & {*steps} or steps[0] == "auth" or text != text.strip():
            raise InvalidInput(
                path, "must be where the method is mounted, like approle, without auth/ before it"
            )
        return text


def check_vault(values: Values) -> None:
    """Refuse settings of Vault that do not go together.

    Raises:
        InvalidInput: names one of them.
    """
    ways = [
        name
        for name in ("vault.token_file", "vault.role_id", "vault.kubernetes_role")
        if values(name) is not None
    ]
    if len(ways) > 1:
        raise InvalidInput(ways[1], f"is another way in than {ways[0]}; give one of them")
    if values("vault.secret_id_file") is not None and values("vault.role_id") is None:
        raise InvalidInput("vault.secret_id_file", "goes with a role of AppRole; set vault.role_id, too")
    if values("vault.login_mount") is not None and not {"vault.role_id", "vault.kubernetes_role"} & {*ways}:
        message = "goes with a login; set vault.role_id or vault.kubernetes_role, too"
        raise InvalidInput("vault.login_mount", message)
    if values("vault.client_key") is not None and values("vault.client_cert") is None:
        raise InvalidInput("vault.client_key", "goes with a certificate; set vault.client_cert, too")


def read_rules(values: Values, environment: Mapping[str, str]) -> VaultRules:
    """Return how a process reaches Vault.

    Args:
        environment: the variables of the process.

    Raises:
        InvalidInput: the address or the way in is missing or wrong.
    """
    check_vault(values)
    address = values("vault.address")
    if address is None:
        address, variable = _find(environment, "ADDR")
        if address is None:
            message = f"is needed, as a secret is in Vault; give it, like {_EXAMPLE}, or set VAULT_ADDR"
            raise InvalidInput("vault.address", message)
        try:
            address = VaultUrl().read(address, "vault.address", None)
        except InvalidInput as error:
            raise InvalidInput("vault.address", f"{error.message} (in {variable})") from None
    has_ca = values("vault.ca") is not None
    has_pair = values("vault.client_cert") is not None
    return VaultRules(
        address=address,
        login=_read_login(values, environment),
        namespace=values("vault.namespace") or _find(environment, "NAMESPACE")[0],
        ca=values("vault.ca") or _find(environment, "CACERT")[0],
        ca_folder=None if has_ca else _find(environment, "CAPATH")[0],
        client_cert=values("vault.client_cert") or _find(environment, "CLIENT_CERT")[0],
        client_key=values("vault.client_key") if has_pair else _find(environment, "CLIENT_KEY")[0],
        refresh=values("vault.refresh").total_seconds(),
        keep=values("vault.keep").total_seconds(),
        timeout=values("vault.timeout").total_seconds(),
    )


def _read_login(values: Values, environment: Mapping[str, str]) -> Login:
    mount = values("vault.login_mount")
    if values("vault.role_id") is not None:
        return AppRoleLogin(
            mount=mount or "approle",
            role_id=values("vault.role_id"),
            secret_id_file=values("vault.secret_id_file"),
        )
    if values("vault.kubernetes_role") is not None:
        return KubernetesLogin(
            mount=mount or "kubernetes",
            role=values("vault.kubernetes_role"),
            token_file=values("vault.kubernetes_token_file"),
        )
    if values("vault.token_file") is not None:
        return TokenLogin(file=values("vault.token_file"))
    token, _ = _find(environment, "TOKEN")
    if token is None:
        raise InvalidInput(
            "vault.token_file",
            "is needed, as a secret is in Vault; give it, or vault.role_id, or vault.kubernetes_role, or set"
            " VAULT_TOKEN",
        )
    return TokenLogin(token=token.strip())


def _find(environment: Mapping[str, str], name: str) -> tuple[str | None, str]:
    """Return the value of a variable of OpenBao or Vault, and its name. An empty one counts as not set."""
    for variable in (f"BAO_{name}", f"VAULT_{name}"):
        if environment.get(variable):
            return environment[variable], variable
    return None, ""


VAULT_SETTINGS = (
    Setting(
        name="vault.address",
        kind=VaultUrl(),
        default=None,
        default_words="BAO_ADDR or VAULT_ADDR",
        field="vault_address",
        words="The address of HashiCorp Vault or OpenBao, where secrets with `vault:` are.",
    ),
    Setting(
        name="vault.namespace",
        kind=OneLine(),
        default=None,
        default_words="BAO_NAMESPACE or VAULT_NAMESPACE, else none",
        field="vault_namespace",
        words="The namespace in which the secrets and the way in are.",
    ),
    Setting(
        name="vault.ca",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="BAO_CACERT or VAULT_CACERT, else the system's authorities",
        field="vault_ca",
        words="The authorities that Vault's certificate may be of, in PEM.",
    ),
    Setting(
        name="vault.client_cert",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="BAO_CLIENT_CERT or VAULT_CLIENT_CERT, else none",
        field="vault_client_cert",
        words="The certificate that the process shows to Vault, in PEM.",
    ),
    Setting(
        name="vault.client_key",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="BAO_CLIENT_KEY or VAULT_CLIENT_KEY, else in the certificate's file",
        field="vault_client_key",
        words="The key of that certificate, in PEM.",
    ),
    Setting(
        name="vault.token_file",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="BAO_TOKEN or VAULT_TOKEN",
        field="vault_token_file",
        words="The file of a token, as an agent of Vault writes it. It is read again each time.",
    ),
    Setting(
        name="vault.role_id",
        kind=OneLine(),
        default=None,
        default_words="no login by AppRole",
        field="vault_role_id",
        words="The id of a role of AppRole, by which the process logs in.",
    ),
    Setting(
        name="vault.secret_id_file",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="the role needs none",
        field="vault_secret_id_file",
        words="The file of that role's secret id. It is read again at each login.",
    ),
    Setting(
        name="vault.kubernetes_role",
        kind=OneLine(),
        default=None,
        default_words="no login by Kubernetes",
        field="vault_kubernetes_role",
        words="The role as which the service account of the pod logs in.",
    ),
    Setting(
        name="vault.kubernetes_token_file",
        kind=OneLine(),
        metavar="FILE",
        default=POD_TOKEN,
        field="vault_kubernetes_token_file",
        words="The file of the token of that account. It is read again at each login.",
    ),
    Setting(
        name="vault.login_mount",
        kind=MountName(),
        default=None,
        default_words="approle, or kubernetes",
        field="vault_login_mount",
        words="Where the method of login is mounted, without `auth/`.",
    ),
    Setting(
        name="vault.refresh",
        kind=Duration(timedelta(seconds=1), timedelta(days=1)),
        default=timedelta(minutes=1),
        field="vault_refresh",
        words="How often each secret is read again. A new value counts after this time at the latest.",
    ),
    Setting(
        name="vault.keep",
        kind=Duration(timedelta(0), timedelta(days=30)),
        default=timedelta(hours=1),
        field="vault_keep",
        words="How long the last value of a secret counts while Vault does not answer, or takes no login.",
    ),
    Setting(
        name="vault.timeout",
        kind=Duration(timedelta(milliseconds=100), timedelta(minutes=1)),
        default=timedelta(seconds=5),
        field="vault_timeout",
        words="How long one request to Vault may take.",
    ),
)
