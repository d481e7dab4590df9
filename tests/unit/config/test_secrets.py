import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import LARGEST, ConfiguredSecrets
from mainspring.config.settings import Settings
from mainspring.config.sources import read_sources
from mainspring.config.table import SETTINGS
from mainspring.core.vault import VaultFailed, VaultPlace
from mainspring.errors import InvalidInput
from mainspring.ports.secrets import SecretMissing

KIND = SETTINGS["secrets"]


def make(*places: SecretPlace, **environment: str) -> ConfiguredSecrets:
    return ConfiguredSecrets(places, environment)


def test_secret_comes_from_a_variable_or_a_file_and_may_change(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(" one two \n")
    secrets = make(
        SecretPlace("a", "env:A", ("shop",)),
        SecretPlace("b", f"file:{path}", ("*",)),
        A="from a variable\r\n",
    )
    assert secrets.reveal("a", "shop") == "from a variable"
    assert secrets.reveal("b", "anyone") == " one two "
    path.write_text("three")
    assert secrets.reveal("b", "anyone") == "three"


def test_a_tenant_gets_only_its_own_and_cannot_tell_others_from_none() -> None:
    secrets = make(SecretPlace("a", "env:A", ("shop",)), SecretPlace("own", "env:A", ()), A="x")
    for name in ("a", "own", "nothing"):
        for act in (secrets.check, secrets.reveal):
            with pytest.raises(SecretMissing) as refused:
                act(name, "bank")
            assert str(refused.value) == (
                f"there is no secret {name!r} for tenant 'bank' in the settings of this process"
            )
    secrets.check("a", "shop")
    assert secrets.reveal("own", None) == secrets.reveal("a", None) == "x"
    with pytest.raises(SecretMissing):
        secrets.reveal("own", "*")


def test_secret_that_cannot_be_read_is_told_in_the_log_only(tmp_path: Path) -> None:
    binary, large, empty, pipe = (tmp_path / name for name in ("binary", "large", "empty", "pipe"))
    binary.write_bytes(b"\xff\xfe")
    large.write_bytes(b"x" * (LARGEST + 1))
    empty.write_text("\n")
    os.mkfifo(pipe)
    places = {
        "unset": ("env:NOT_SET", "the variable NOT_SET is not set"),
        "none": (f"file:{tmp_path}/none", "cannot be read (No such file or directory)"),
        "folder": (f"file:{tmp_path}", "cannot be read ("),
        "pipe": (f"file:{pipe}", "cannot be read (it is not a regular file)"),
        "binary": (f"file:{binary}", "is not UTF-8"),
        "large": (f"file:{large}", f"cannot be read (it has more than {LARGEST} bytes)"),
        "empty": (f"file:{empty}", "is empty"),
    }
    secrets = make(*(SecretPlace(name, source, ("*",)) for name, (source, _) in places.items()))
    for name, (_, problem) in places.items():
        secrets.check(name, "shop")  # it is defined
        with capture_logs() as logs, pytest.raises(SecretMissing) as refused:
            secrets.reveal(name, "shop")
        assert str(refused.value) == f"the secret {name!r} cannot be read on this host; its log says why"
        [line] = logs
        assert (line["event"], line["log_level"]) == ("secret_unread", "warning")
        assert (line["secret"], problem in line["problem"]) == (name, True)


class Kept:
    def __init__(self, **found: str) -> None:
        self.found = found

    def reveal(self, place: VaultPlace) -> str:
        if place.path not in self.found:
            raise VaultFailed("missing", f"there is nothing at {place.path}")
        return f"{self.found[place.path]}-{place.field}"


def test_secrets_in_vault_are_of_their_tenants_and_told_in_the_log_only() -> None:
    places = [
        SecretPlace("a", "vault:reports#token", ("shop",)),
        SecretPlace("b", "vault:other#token", ("shop",)),
    ]
    secrets = ConfiguredSecrets(places, {}, vault=Kept(reports="first"))
    assert secrets.reveal("a", "shop") == "first-token"
    with pytest.raises(SecretMissing) as refused:
        secrets.reveal("a", "bank")
    assert str(refused.value) == "there is no secret 'a' for tenant 'bank' in the settings of this process"
    for found, problem in (
        (secrets, "there is nothing at other"),
        (ConfiguredSecrets(places, {}), "this process reads nothing from Vault"),
    ):
        with capture_logs() as logs, pytest.raises(SecretMissing) as refused:
            found.reveal("b", "shop")
        assert str(refused.value) == "the secret 'b' cannot be read on this host; its log says why"
        assert [line["problem"] for line in logs] == [problem]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("secrets = 1", "secrets: must be a table like ops-hook = "),
        ("secrets.a = 'env:A'", "secrets: 'a' must be a table like"),
        ("[secrets.a]\ntenants = []", "secrets: 'a' needs from:"),
        ("[secrets.a]\nfrom = 'env:A'", "secrets: 'a' needs tenants: those that may use it"),
        (
            "[secrets.a]\nfrom = 'hunter2'\ntenants = []",
            "secrets: 'a' has a wrong from; write \"env:VARIABLE\"",
        ),
        ("[secrets.a]\nfrom = 'env:'\ntenants = []", "secrets: 'a' has a wrong from"),
        ("[secrets.a]\nfrom = 'env:A B'\ntenants = []", "secrets: 'a' has a wrong from"),
        ("[secrets.a]\nfrom = 'file:x'\ntenants = []", "secrets: 'a' has a wrong from"),
        (
            "[secrets.a]\nfrom = 'vault:hunter2'\ntenants = []",
            "secrets: 'a' has a wrong from: #FIELD is missing; a secret in Vault is",
        ),
        ("[secrets.a]\nfrom = 'Vault:secret/x#y'\ntenants = []", "secrets: 'a' has a wrong from; write"),
        ("[secrets.a]\nfrom = 3\ntenants = []", "secrets: 'a' has a wrong from"),
        ("[secrets.a]\nfrom = 'env:A'\ntenants = 'shop'", "secrets: 'a' has wrong tenants: a list like"),
        ("[secrets.a]\nfrom = 'env:A'\ntenants = ['a b']", "secrets: 'a' must be 1 to 64 of A-Z a-z 0-9"),
        ("[secrets.a]\nfrom = 'env:A'\ntenant = ['a']", "secrets: 'a' there is no such field; did you mean"),
        ("[secrets.'a b']\nfrom = 'env:A'\ntenants = []", "secrets: 'a b' must be 1 to 64 of"),
    ],
)
def test_wrong_tables_are_told_without_what_may_be_a_secret(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mainspring.toml"
    path.write_text(text)
    choices = read_sources(environment={}, config=str(path))
    (problem,) = choices.problems
    assert str(problem).startswith(said)
    assert "hunter2" not in str(problem)


def test_variable_that_is_no_json_is_not_shown() -> None:
    choices = read_sources(environment={"MAINSPRING_SECRETS": "hunter2"})
    (problem,) = choices.problems
    assert str(problem).startswith('secrets: must be JSON like {"ops-hook": ')
    assert "hunter2" not in str(problem)


def test_places_that_were_read_can_be_read_again_and_shown() -> None:
    places = KIND.read(
        {
            "b": {"from": "env:B", "tenants": []},
            "a": {"from": "file:/a", "tenants": ["x", "x", "*"]},
            "c": {"from": "vault:secret/c#d", "tenants": []},
        }
    )
    assert places == (
        SecretPlace("a", "file:/a", ("x", "*")),
        SecretPlace("b", "env:B", ()),
        SecretPlace("c", "vault:secret/c#d", ()),
    )
    assert KIND.read(places) == places
    assert KIND.kind.load(KIND.kind.store(places)) == places


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mail_from": "a@b.c"}, "mail.from: goes with a mail server; set mail.url, too"),
        ({"mail_url": "smtp://h"}, "mail.url: needs the address that mail comes from; set mail.from, too"),
        ({"mail_url": "http://h"}, "mail.url: must be like smtp://"),
        ({"mail_url": "smtp://h:x"}, "mail.url: is no URL"),
        ({"mail_url": "smtp://h/path", "mail_from": "a@b.c"}, "mail.url: must be like"),
        ({"mail_url": "smtp://u:hunter2@h", "mail_from": "a@b.c"}, "mail.url: must not hold a password"),
        ({"mail_url": "smtp://u@h", "mail_from": "a@b.c"}, "mail.url: has a user; name the secret"),
        ({"mail_url": "smtp://h?tls=maybe", "mail_from": "a@b.c"}, "mail.url: has an unknown parameter"),
        ({"mail_url": "smtps://h?tls=never", "mail_from": "a@b.c"}, "mail.url: has an unknown parameter"),
        (
            {"mail_url": "smtp://h", "mail_from": "a@b.c", "mail_password": "secret:p"},
            "mail.password: goes with a user",
        ),
        (
            {"mail_url": "smtp://u@h?tls=never", "mail_from": "a@b.c", "mail_password": "secret:p"},
            "mail.url: would send the password without TLS",
        ),
        (
            {"mail_url": "smtp://u@h", "mail_from": "a@b.c", "mail_password": "secret:p"},
            "mail.password: there is no secret 'p' in the table secrets",
        ),
        ({"mail_url": "smtp://h", "mail_from": "a@b.c>"}, "mail.from: must be like alerts@example.com"),
        ({"mail_url": "smtp://h", "mail_from": "a\n@b.c"}, "mail.from: "),
        (
            {"mail_url": "smtp://h", "mail_from": "a@b.c", "mail_password": "p"},
            "mail.password: must name a secret",
        ),
    ],
)
def test_settings_of_mail_that_do_not_go_together(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings(**given)  # type: ignore[arg-type]  # checked as they come from sources
    assert str(refused.value).startswith(said)
    assert "hunter2" not in str(refused.value)


def test_mail_server_is_read_from_its_settings() -> None:
    made = Settings(
        mail_url="smtp://a%40b@mail.example.com",
        mail_from="Mainspring <alerts@example.com>",
        mail_password="secret:p",
        secrets=(SecretPlace("p", "env:P", ()),),
    ).mail_server
    assert made is not None
    assert (made.host, made.port, made.user, made.password) == ("mail.example.com", 587, "a@b", "p")
    assert (made.is_tls, made.is_plain, made.sender) == (False, False, "Mainspring <alerts@example.com>")
    assert Settings().mail_server is None
    plain = Settings(mail_url="smtp://127.0.0.1:25?tls=never", mail_from="a@b.c").mail_server
    assert plain is not None
    assert (plain.port, plain.is_plain) == (25, True)
    secure = Settings(mail_url="smtps://[::1]", mail_from="a@b.c").mail_server
    assert secure is not None
    assert (secure.host, secure.port, secure.is_tls) == ("::1", 465, True)
