"""File, environment and options: who wins, and what is said of mistakes."""

from __future__ import annotations

import errno
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.config.processes import check, read_direct_store, settings_of, shown, store_option
from mainspring.config.setting import PROCESSES
from mainspring.config.settings import Settings, StoreLocation
from mainspring.config.sources import Choices, Level, find_misspelt, read_file, read_sources
from mainspring.config.table import SETTINGS
from mainspring.errors import InvalidInput

DSN = "postgresql://me:secret@db/x"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "some.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(
    folder: Path,
    text: str = "",
    flags: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
) -> Choices:
    return read_sources(flags, environment=environment or {}, config=str(written(folder, text)))


def problems(folder: Path, text: str | bytes) -> list[str]:
    return [str(problem) for problem in read_file(written(folder, text))[1]]


def test_later_sources_win(tmp_path: Path) -> None:
    text = "[worker]\nslots = 1\nqueues = ['a']\nlabels = ['x']\n"
    environment = {"MAINSPRING_WORKER_SLOTS": "2", "MAINSPRING_WORKER_QUEUES": "b, c"}
    choices = read(tmp_path, text, {"worker.slots": "3"}, environment)
    found = {
        name: (choices[name].value, choices[name].level, choices[name].place)
        for name in ("worker.slots", "worker.queues", "worker.labels", "drain")
    }
    assert found == {
        "worker.slots": (3, Level.FLAG, "--slots"),
        "worker.queues": (("b", "c"), Level.ENVIRONMENT, "MAINSPRING_WORKER_QUEUES"),
        "worker.labels": (("x",), Level.FILE, str(tmp_path / "some.toml")),
        "drain": (timedelta(seconds=30), Level.DEFAULT, ""),
    }


def test_every_setting_has_a_variable_and_a_place_in_the_file(tmp_path: Path) -> None:
    values = {
        "store": ('"postgresql://db/x"', "postgresql://db/x"),
        "listen_store": ('"postgresql://db/y"', "postgresql://db/y"),
        "server": ('["http://a"]', "http://a"),
        "worker.name": ('"w"', "w"),
        "executors.function.threads": ("7", "7"),
        "executors.process.most": ("7", "7"),
        "executors.grpc.ca": ('"/run/ca.pem"', "/run/ca.pem"),
        "executors.grpc.client_cert": ('"/run/cert.pem"', "/run/cert.pem"),
        "executors.grpc.client_key": ('"/run/key.pem"', "/run/key.pem"),
        "executors.kubernetes.kubeconfig": ('"/run/config"', "/run/config"),
        "executors.kubernetes.context": ('"prod"', "prod"),
        "tls.cert": ('"/run/cert.pem"', "/run/cert.pem"),
        "tls.key": ('"/run/key.pem"', "/run/key.pem"),
        "tls.client_ca": ('"/run/ca.pem"', "/run/ca.pem"),
        "behind_proxy": ('"10.0.0.9"', "10.0.0.9"),
        "auth.admin_token_file": ('"/run/token"', "/run/token"),
        "auth.oidc.issuer": ('"https://login.example.com"', "https://login.example.com"),
        "auth.oidc.client_id": ('"mainspring"', "mainspring"),
        "auth.oidc.client_secret": ('"secret:login"', "secret:login"),
        "auth.oidc.name": ('"Example"', "Example"),
        "auth.oidc.groups": ('{ ops = ["viewer@*"] }', '{"ops": ["viewer@*"]}'),
        "keys_file": ('"/run/keys"', "/run/keys"),
        "vault.address": ('"https://vault:8200"', "https://vault:8200"),
        "vault.namespace": ('"shop/"', "shop/"),
        "vault.ca": ('"/run/ca.pem"', "/run/ca.pem"),
        "vault.client_cert": ('"/run/cert.pem"', "/run/cert.pem"),
        "vault.client_key": ('"/run/key.pem"', "/run/key.pem"),
        "vault.token_file": ('"/run/token"', "/run/token"),
        "vault.role_id": ('"r"', "r"),
        "vault.secret_id_file": ('"/run/id"', "/run/id"),
        "vault.kubernetes_role": ('"r"', "r"),
        "vault.login_mount": ('"ours"', "ours"),
        "telemetry.otlp": ('"http://c:4318"', "http://c:4318"),
        "metrics.port": ("9620", "9620"),
        "executors.shell.limits": ("{ nproc = 5 }", "nproc=5"),
        "archive.url": ('"/srv/archive"', "/srv/archive"),
        "archive.memory": ('"1GB"', "1GB"),
        "events.keep": ('"2d"', "2d"),
        "artifacts.url": ('"s3://files"', "s3://files"),
        "artifacts.limit": ('"1GB"', "1GB"),
        "artifacts.keep": ('"7d"', "7d"),
        "public_url": ('"https://jobs.example.org"', "https://jobs.example.org"),
        "watchdog.ping_url": ('"https://hc.example.com/0e1f"', "https://hc.example.com/0e1f"),
        "mail.url": ('"smtp://me@mail.example.com"', "smtp://me@mail.example.com"),
        "mail.from": ('"me@example.com"', "me@example.com"),
        "mail.password": ('"secret:smtp"', "secret:smtp"),
        "secrets": (
            '{ hook = { from = "env:HOOK", tenants = ["a"] } }',
            '{"hook": {"from": "env:HOOK", "tenants": ["a"]}}',
        ),
        "logging.format": ('"json"', "json"),
        "logging.level": ('"debug"', "debug"),
    }
    for name, setting in SETTINGS.items():
        plain = setting.kind.show(setting.default) if setting.default is not None else None
        toml, text = values.get(name, (str(plain).lower(), str(plain)))
        if name not in values and isinstance(plain, str):
            toml = f'"{plain}"'
        if name not in values and isinstance(plain, list):
            toml, text = '["a"]', "a"
        table, _, key = name.rpartition(".")
        of_file = read(tmp_path, f"[{table}]\n{key} = {toml}" if table else f"{key} = {toml}")
        of_variable = read(tmp_path, "", environment={setting.variable: text})
        assert of_file.problems == of_variable.problems == ()
        assert of_file[name].value == of_variable[name].value
        assert (of_file[name].level, of_variable[name].level) == (Level.FILE, Level.ENVIRONMENT)


def test_names_variables_options_and_fields_are_unlike() -> None:
    for words in (
        [setting.variable for setting in SETTINGS.values()],
        [setting.flag for setting in SETTINGS.values() if setting.flag],
        [setting.field for setting in SETTINGS.values() if setting.field],
    ):
        assert len(set(words)) == len(words)


def test_every_field_of_settings_is_a_setting_with_its_default() -> None:
    fields = {setting.field: setting.default for setting in SETTINGS.values() if setting.field}
    made = Settings()
    assert {name: getattr(made, name) for name in Settings.__dataclass_fields__ if name != "store"} == fields


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worker]\nslot = 1", "worker.slot: there is no such setting; did you mean 'worker.slots'?"),
        ("slots = 1", "slots: there is no such setting; did you mean 'worker.slots'?"),
        ("[wroker]\nslots = 1", "wroker: there is no such table; known are api, archive, artifacts, audit,"),
        ("callback_allow = []", "callback_allow: there is no such setting; did you mean 'executors.http.allow'?"),
        ("no_api = true", "no_api: there is no such setting; did you mean 'api.enabled'?"),
        ("zzz = 1", "zzz: there is no such setting; `mainspring config show` lists all"),
        ("worker = 1", "worker: is a table; write [worker] on a line of its own"),
        ("worker.slots = '1'", "worker.slots: must be a whole number from 0 to 10000, not text"),
        ("worker.slots = true", "worker.slots: must be a whole number from 0 to 10000, not true or false"),
        ("worker.slots = 1.5", "worker.slots: must be a whole number from 0 to 10000, not 1.5"),
        ("worker.slots = -1", "worker.slots: -1 is not between 0 and 10000"),
        ("drain = nan", "drain: nan is not a number of seconds"),
        ("drain = 'inf'", "drain: inf is not a number of seconds, nor text like '90s'"),
        ("drain = '1 day'", "drain: must be seconds or text like"),
        ("drain = 2020-01-01", "drain: must be seconds or text like '90s', '5m', '1h30m', not a date or time"),
        ("history.keep = '1s'", "history.keep: must be between 1m and 3650d, not 1s"),
        ("trusted_network = 'yes'", "trusted_network: must be true or false without quotes, not text"),
        ("allow_host = [1]", 'allow_host: must be a list of texts like ["a", "b"]'),
        ("worker.queues = ['a b']", "worker.queues: "),
        ("server = []", "server: is an empty list"),
        ("logging.level = 'loud'", "logging.level: must be one of debug, info, warning, error, not 'loud'"),
        ("executors.shell.limits = { ram = 1 }", "executors.shell.limits: there is no limit 'ram'; known are as,"),
        ("executors.shell.limits = { as = -1 }", "executors.shell.limits: 'as' must be a number of 0 or more"),
        ("executors.shell.limits = 1", "executors.shell.limits: must be a table like"),
        ("store = ['postgresql://a:secret@b/c']", "store: must be text in quotes, not a list"),
        ("host = ''", "host: must have 1 to 4096 characters, not 0"),
        ("host = \"a\\nb\"", "host: holds characters that cannot be printed"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_what_would_be_right(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(said)
    assert problem.endswith(f"(in {tmp_path / 'some.toml'})")
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "is not TOML: Invalid value (at end of document)"),
        ("a = " + "[" * 5000, "is not TOML: it is nested"),
        ("a = " + "9" * 5000, "is not TOML: it is nested too deeply"),
        (b"host = '\xff'", "is not UTF-8: byte 8 is no text"),
        (b"#" * (1024 * 1024 + 1), "cannot be read (it has more than 1048576 bytes)"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str | bytes, said: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"config: {tmp_path / 'some.toml'} {said}")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("absent", os.strerror(errno.ENOENT)), ("pipe", "it is not a regular file")):
        (problem,) = read_sources(environment={"MAINSPRING_CONFIG": str(tmp_path / name)}).problems
        assert str(problem) == f"config: {tmp_path / name} cannot be read ({said})"
    (problem,) = read_sources(environment={}, config=str(tmp_path)).problems
    assert str(problem).startswith(f"config: {tmp_path} cannot be read")
    assert read_sources(environment={}, config="a\0b").problems
    assert not read_sources(environment={"MAINSPRING_CONFIG": os.devnull}).problems


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    choices = read(tmp_path, "prot = 1\nport = 'x'\n", {"drain": "soon"}, {"MAINSPRING_WORKER_SLOTS": "many"})
    assert [problem.field for problem in choices.problems] == ["prot", "port", "worker.slots", "drain"]
    with pytest.raises(
        InvalidInput, match=r"^prot: .* \(and 3 more problems: see `mainspring config check`\)$"
    ):
        settings_of("up", choices)


def test_a_mistake_is_named_as_it_was_written(tmp_path: Path) -> None:
    for flags, environment, said in (
        ({"worker.slots": "x"}, {}, "slots: 'x' is not a whole number from 0 to 10000"),
        ({}, {"MAINSPRING_WORKER_SLOTS": "x"}, "worker.slots: 'x' is not .* \\(in MAINSPRING_WORKER_SLOTS\\)"),
        ({"worker.slots": "0"}, {}, "slots: a worker needs at least one"),
        ({}, {"MAINSPRING_WORKER_SLOTS": "0"}, "worker.slots: a worker needs .* \\(in MAINSPRING_WORKER_SLOTS\\)"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"^{said}"):
            settings_of("worker", read(tmp_path, "", flags, environment))


def test_a_shared_file_does_no_harm_to_whom_it_does_not_concern(tmp_path: Path) -> None:
    text = f"""
        store = "{DSN}"
        listen_store = "{DSN}"
        server = "http://a"
        host = "10.0.0.1"
        [scheduler]
        enabled = false
        [worker]
        slots = 7
    """
    choices = read(tmp_path, text)
    worker = settings_of("worker", choices)
    assert (worker.slots, worker.host, worker.has_scheduler) == (7, "127.0.0.1", True)
    assert read_direct_store(choices) is None
    with pytest.raises(InvalidInput, match=r"^host: 10.0.0.1 is not a loopback address.*some.toml\)$"):
        settings_of("server", choices)
    server = settings_of("server", read(tmp_path, text, {"trusted_network": True}))
    assert (server.slots, server.has_scheduler, server.store.target) == (0, False, DSN)
    assert settings_of("up", read(tmp_path, text, {"trusted_network": True})).has_scheduler


@pytest.mark.parametrize(
    ("text", "flags", "environment", "is_direct"),
    [
        (f"store = '{DSN}'", {}, {}, True),
        (f"store = '{DSN}'\nserver = 'http://a'", {}, {}, False),
        (f"store = '{DSN}'", {}, {"MAINSPRING_SERVER": "http://a"}, False),
        ("server = 'http://a'", {}, {"MAINSPRING_STORE": DSN}, True),
        ("", {}, {"MAINSPRING_STORE": DSN, "MAINSPRING_SERVER": "http://a"}, True),
        ("", {"server": ("http://a",)}, {"MAINSPRING_STORE": DSN}, False),
        ("", {"store": DSN}, {"MAINSPRING_SERVER": "http://a"}, True),
        ("store = 'sqlite:///data'", {}, {}, False),
        ("data = 'data'", {}, {}, False),
    ],
)
def test_whom_a_worker_works_for(
    tmp_path: Path, text: str, flags: dict[str, Any], environment: dict[str, str], is_direct: bool
) -> None:
    choices = read(tmp_path, text, flags, environment)
    assert (read_direct_store(choices) is not None) is is_direct
    settings_of("worker", choices)


def test_a_store_given_later_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    given_later = read(tmp_path, "data = 'a'", environment={"MAINSPRING_STORE": "memory://"})
    assert settings_of("up", given_later).store == StoreLocation("memory", "")
    assert store_option(given_later) == "store"
    given_first = read(tmp_path, f"store = '{DSN}'\nlisten_store = '{DSN}'", {"data": "b"})
    assert settings_of("up", given_first).store == StoreLocation("sqlite", "b")
    assert store_option(given_first) == "data"
    with pytest.raises(InvalidInput, match=r"^store: says the same as data; give one of them \(in .*toml\)"):
        settings_of("up", read(tmp_path, "data = 'a'\nstore = 'memory://'"))


def test_options_of_lists_take_the_place_of_the_files(tmp_path: Path) -> None:
    choices = read(tmp_path, "worker.queues = ['a']", {"worker.queues": ("b", "c")})
    assert choices["worker.queues"].value == ("b", "c")
    with pytest.raises(InvalidInput, match=r"^queue: "):
        read(tmp_path, "", {"worker.queues": ("a b",)}).require()


def test_switches_by_option_and_variable(tmp_path: Path) -> None:
    store = {"store": DSN}
    assert not settings_of("server", read(tmp_path, "", {"api.enabled": True, **store})).has_api
    environment = {"MAINSPRING_API_ENABLED": "off", "MAINSPRING_EXECUTORS_SHELL_ENABLED": "1"}
    settings_ = settings_of("server", read(tmp_path, "", store, environment))
    assert (settings_.has_api, settings_.allow_shell) == (False, True)
    (problem,) = read(tmp_path, "", {}, {"MAINSPRING_TRUSTED_NETWORK": "perhaps"}).problems
    assert str(problem).startswith("trusted_network: must be 1 or 0, true or false, not 'perhaps'")


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    choices = read(tmp_path, f"store = '{DSN}'\nserver = ['http://me:secret@a', 'http://b']")
    assert shown(SETTINGS["store"], choices["store"]) == "postgresql://me:***@db/x"
    assert shown(SETTINGS["server"], choices["server"]) == ["http://me:***@a", "http://b"]


def test_variables_that_are_nearly_a_settings_are_told() -> None:
    environment = {"MAINSPRING_WORKER_SLOT": "1", "MAINSPRING_APP": "a", "MAINSPRING_RUN_ID": "1", "PATH": ""}
    (problem,) = find_misspelt(environment)
    assert str(problem).startswith("MAINSPRING_WORKER_SLOT: there is no such variable; did you mean")


PAGES = Path(__file__).parents[3] / "docs"
NO_SETTINGS = ("[build-system]", "# pyproject.toml", "[[jobs]]", "# The job '")
"""In files of a package or of jobs, which have tests of their own."""
EXAMPLES = [
    (page.name, block)
    for page in sorted(PAGES.rglob("*.md"))
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    if not any(mark in block for mark in NO_SETTINGS)
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_files_on_the_pages_are_right(tmp_path: Path, page: str, text: str) -> None:
    assert problems(tmp_path, text) == [], page


NAMES = st.sampled_from([*SETTINGS, "worker", "executors", "executors.shell", "x", '"ä\\n"', "a.b.c"])
VALUES = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "''", "'1s'", "[]", "{}", "[1, 'a']", "{ nproc = 'x' }", "2020-01-01", "'\\u0000'"]),
    st.text(alphabet=st.characters(exclude_characters="'\n\r", exclude_categories=["Cs", "Cc"])).map(
        lambda text: f"'{text}'"
    ),
    st.text(max_size=9),
)  # fmt: skip
FILES = st.lists(st.tuples(NAMES, VALUES), max_size=6).map(
    lambda lines: "\n".join(f"{name} = {value}" for name, value in lines)
)


@settings(max_examples=400, deadline=None)
@given(text=st.one_of(FILES, st.text()), raw=st.binary(max_size=40))
def test_no_file_brings_anything_but_problems(
    tmp_path_factory: pytest.TempPathFactory, text: str, raw: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for content in (text.encode("utf-8", "surrogatepass"), raw):
        path = written(folder, content)
        choices = read_sources(environment={}, config=str(path))
        found = [*choices.problems]
        for process in PROCESSES:
            found += check(process, choices)
        for problem in found:
            assert problem.field
            assert problem.field.isprintable()
            assert str(problem).isprintable()
            assert len(str(problem)) < 1000


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(SETTINGS)), text=st.text(max_size=30))
def test_no_variable_brings_anything_but_problems(name: str, text: str) -> None:
    choices = read_sources(environment={SETTINGS[name].variable: text, "MAINSPRING_CONFIG": os.devnull})
    for problem in [*choices.problems, *(each for process in PROCESSES for each in check(process, choices))]:
        assert str(problem)
        assert problem.field in SETTINGS


@pytest.mark.parametrize(
    "pairs", [("nproc",), ("nproc=5",), (1, 2), (("nproc", 1, 2),), (([], 1),), ((1, 2),), (None,), ("as",)]
)
def test_limits_that_are_no_pairs_are_refused(pairs: tuple[object, ...]) -> None:
    with pytest.raises(
        InvalidInput, match=r"^executors.shell.limits: must be a table like \{ nproc = 200 \}, "
    ):
        SETTINGS["executors.shell.limits"].read(pairs)


def test_limits_that_were_read_can_be_read_again() -> None:
    limits = SETTINGS["executors.shell.limits"]
    read_once = limits.read({"nproc": 5, "as": 9})
    assert limits.read(read_once) == read_once == (("as", 9), ("nproc", 5))


@pytest.mark.parametrize(
    "text",
    [
        "'ftp://x'",
        "['http://a', 'ftp://x']",
        "'http://a,ftp://x'",
        "'http://a,'",
        "'x'",
        "'http://'",
        "'http://a b'",
        "'http://[::1'",
        "'http://a:99999'",
        "'http://a:0'",
        "'http://a:b'",
        "'http://:8620'",
    ],
)
def test_an_address_that_a_worker_would_refuse_is_a_problem(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, f"server = {text}")
    assert problem.startswith("server: must be an address like http://127.0.0.1:8620")


def test_addresses_may_be_a_list_or_separated_by_commas(tmp_path: Path) -> None:
    assert problems(tmp_path, "server = ['http://a/', 'https://b:1']") == []
    assert problems(tmp_path, "server = 'http://a, https://b'") == []
    assert problems(tmp_path, "server = ['http://[::1]:8620', 'http://user:word@a.b/mainspring']") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "executors.http.allow = ['a:b:c', '10.0.0.0/8', 'd:70000']",
            [
                "'a:b:c' is neither a network nor a host, with or without a port",
                "'d:70000' has no port from 1 to 65535",
            ],
        ),
        (
            "channels.allow = ['a b=c', 'shop=10.0.0.0/8', '*=d:70000', 'chat.internal']",
            [
                "must be 1 to 64 of A-Z a-z 0-9 . _ -, not 'a b'",
                "'d:70000' has no port from 1 to 65535",
            ],
        ),
        (
            "worker.queues = ['a b', 'c', 'd e']",
            [f"must be 1 to 64 of A-Z a-z 0-9 . _ -, not {name}" for name in ("'a b'", "'d e'")],
        ),
        ("server = ['ftp://a', 'b']", ["must be an address like http://127.0.0.1:8620"]),
        (
            "executors.shell.limits = { as = -1, nproc = 1, stack = 'x' }",
            [
                "'as' must be a number of 0 or more, and less than 2^63",
                "'stack' must be a number of 0 or more, not text",
            ],
        ),
    ],
)
def test_all_mistakes_in_one_value_are_named(tmp_path: Path, text: str, said: list[str]) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.partition(": ")[2].partition(" (in ")[0].split("; ") == said


@pytest.mark.parametrize(
    "text",
    [
        "jobs.example.org",
        "ftp://a",
        "https://",
        "https://a/?x",
        "https://a/#x",
        "https://u:p@a",
        "https://a b",
    ],
)
def test_a_public_address_is_one_that_others_may_see(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, f"public_url = '{text}'")
    assert problem.startswith("public_url: must be an address like https://jobs.example.org")
    choices = read(tmp_path, "public_url = 'https://a/jobs/'")
    assert choices["public_url"].value == "https://a/jobs"


@pytest.mark.parametrize("text", ["hc.example.com", "ftp://a", "https://a b"])
def test_the_address_of_an_outer_monitor(tmp_path: Path, text: str) -> None:
    (problem,) = problems(tmp_path, f"watchdog.ping_url = '{text}'")
    assert problem.startswith("watchdog.ping_url: must be an address like https://hc.example.com/0e1f")
    for right in ("https://a/${secret:k}", "${secret:k}", "http://127.0.0.1:8000/ping/x"):
        assert problems(tmp_path, f"watchdog.ping_url = '{right}'") == []


def test_all_mistakes_in_one_variable_are_named() -> None:
    choices = read_sources(environment={"MAINSPRING_EXECUTORS_SHELL_LIMITS": "nproc=5 as stack:1"})
    (problem,) = choices.problems
    assert problem.message.startswith(
        "'as' is not of the form NAME=NUMBER, like nproc=200; 'stack:1' is not of"
    )
