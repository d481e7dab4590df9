from datetime import timedelta
from typing import Any

import pytest

from mainspring.config.settings import Settings
from mainspring.config.table import SETTINGS
from mainspring.config.vault_settings import POD_TOKEN, read_rules
from mainspring.core.vault import AppRoleLogin, KubernetesLogin, TokenLogin, VaultRules
from mainspring.errors import InvalidInput

ADDRESS = "https://vault.example.com:8200"


def read(environment: dict[str, str] | None = None, **given: Any) -> VaultRules:
    made = Settings(**{f"vault_{name}": value for name, value in given.items()})
    return read_rules(made.by_name, environment or {})


def test_variables_of_vault_count_where_the_settings_say_nothing() -> None:
    environment = {
        "VAULT_ADDR": f"{ADDRESS}/",
        "VAULT_TOKEN": " hvs.one\n",
        "VAULT_NAMESPACE": "shop",
        "VAULT_CACERT": "/ca.pem",
        "VAULT_CAPATH": "/authorities",
        "VAULT_CLIENT_CERT": "/cert.pem",
        "VAULT_CLIENT_KEY": "/key.pem",
    }
    rules = read(environment)
    assert rules == VaultRules(
        address=ADDRESS,
        login=TokenLogin(token="hvs.one"),
        namespace="shop",
        ca="/ca.pem",
        ca_folder="/authorities",
        client_cert="/cert.pem",
        client_key="/key.pem",
    )
    of_openbao = {"BAO_ADDR": "http://127.0.0.1:8300", "BAO_TOKEN": "s.two", "BAO_NAMESPACE": ""}
    mixed = read(environment | of_openbao)
    assert (mixed.address, mixed.login, mixed.namespace) == (
        "http://127.0.0.1:8300",
        TokenLogin(token="s.two"),
        "shop",
    )


def test_settings_win_over_variables() -> None:
    environment = {
        "VAULT_ADDR": "http://other:8200",
        "VAULT_TOKEN": "t",
        "VAULT_NAMESPACE": "other",
        "VAULT_CACERT": "/other.pem",
        "VAULT_CAPATH": "/other",
        "VAULT_CLIENT_CERT": "/other.pem",
        "VAULT_CLIENT_KEY": "/other.key",
    }
    rules = read(
        environment,
        address=ADDRESS,
        namespace="mine",
        ca="/mine.pem",
        client_cert="/mine.cert",
        token_file="/run/token",
        refresh=timedelta(seconds=5),
        keep=timedelta(0),
        timeout=timedelta(seconds=2),
    )
    assert rules == VaultRules(
        address=ADDRESS,
        login=TokenLogin(file="/run/token"),
        namespace="mine",
        ca="/mine.pem",
        client_cert="/mine.cert",
        refresh=5.0,
        keep=0.0,
        timeout=2.0,
    )


def test_ways_in() -> None:
    assert read(address=ADDRESS, role_id="r").login == AppRoleLogin(
        mount="approle", role_id="r", secret_id_file=None
    )
    given = read(address=ADDRESS, role_id="r", secret_id_file="/id", login_mount="ours/roles").login
    assert given == AppRoleLogin(mount="ours/roles", role_id="r", secret_id_file="/id")
    assert read(address=ADDRESS, kubernetes_role="r").login == KubernetesLogin(
        mount="kubernetes", role="r", token_file=POD_TOKEN
    )


@pytest.mark.parametrize(
    ("environment", "given", "said"),
    [
        ({}, {}, "vault.address: is needed, as a secret is in Vault; give it, like https://"),
        ({"VAULT_ADDR": "hunter2"}, {}, "vault.address: must be the address of Vault, like "),
        ({"BAO_ADDR": "hunter2"}, {}, "vault.address: must be the address of Vault, like "),
        (
            {},
            {"address": ADDRESS},
            "vault.token_file: is needed, as a secret is in Vault; give it, or vault.",
        ),
        ({}, {"address": "vault:8200"}, "vault.address: must be the address of Vault, like "),
        ({}, {"address": "https://u:hunter2@vault"}, "vault.address: must be the address of Vault, like "),
        ({}, {"address": f"{ADDRESS}?hunter2"}, "vault.address: must be the address of Vault, like "),
        ({}, {"token_file": "/t", "role_id": "r"}, "vault.role_id: is another way in than vault.token_file;"),
        (
            {},
            {"role_id": "r", "kubernetes_role": "r"},
            "vault.kubernetes_role: is another way in than vault.role_id;",
        ),
        ({}, {"secret_id_file": "/id"}, "vault.secret_id_file: goes with a role of AppRole;"),
        ({}, {"login_mount": "ours"}, "vault.login_mount: goes with a login;"),
        ({}, {"login_mount": "auth/ours", "role_id": "r"}, "vault.login_mount: must be where the method"),
        ({}, {"login_mount": "/ours", "role_id": "r"}, "vault.login_mount: must be where the method"),
        ({}, {"client_key": "/key"}, "vault.client_key: goes with a certificate;"),
    ],
)
def test_settings_that_do_not_go_together(
    environment: dict[str, str], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(environment, **given)
    assert str(refused.value).startswith(said)
    assert "hunter2" not in str(refused.value)


def test_an_address_with_a_password_is_hidden_nowhere_because_it_is_refused() -> None:
    assert SETTINGS["vault.address"].is_url
