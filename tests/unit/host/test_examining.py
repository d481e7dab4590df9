"""What the doctor finds out of this host: its certificate, its secrets, its settings, its file systems."""

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.config.sources import read_sources
from mainspring.core.doctor import SettingFacts
from mainspring.encryption.keys import make_key
from mainspring.host.certificate_ends import read_end
from mainspring.host.examining import look_at_secret, read_settings
from mainspring.stores.sqlite.doctor import filesystem_of
from tests.support.certificates import make_authority, make_certificate

MOUNTS = """/dev/vda1 / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
files:/x /srv/with\\040blank nfs4 rw 0 0
/dev/vdb1 /srv/with\\040blank/local xfs rw 0 0
"""


@pytest.mark.parametrize("has_chain", [False, True])
def test_the_end_of_the_servers_certificate_is_read(tmp_path: Path, has_chain: bool) -> None:
    authority = make_authority(tmp_path)
    pair = make_certificate(tmp_path, authority)
    said = subprocess.run(
        ["openssl", "x509", "-enddate", "-noout", "-in", str(pair.cert)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if has_chain:
        pair.cert.write_text(pair.cert.read_text() + authority.cert.read_text())
    end = read_end(pair.cert.read_text())
    assert f"notAfter={end:%b} {end.day:>2} {end:%H:%M:%S %Y} GMT\n" == said
    assert timedelta(days=1) < end - datetime.now(UTC) <= timedelta(days=2)


def test_an_end_after_2050_is_read(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(tmp_path / "key"), "-out", str(cert), "-subj", "/CN=x", "-days", "20000"]
    subprocess.run(command, check=True, capture_output=True)
    assert read_end(cert.read_text()).year > 2050


@pytest.mark.parametrize(
    "pem", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"]
)
def test_what_is_no_certificate_is_refused(pem: str) -> None:
    with pytest.raises(ValueError, match=r"there is no certificate|cannot be read"):
        read_end(pem)


@pytest.mark.parametrize(
    ("mode", "is_private"), [(0o600, True), (0o400, True), (0o640, False), (0o604, False)]
)
def test_a_secret_is_for_one_user(tmp_path: Path, mode: int, is_private: bool) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    file.chmod(mode)
    assert look_at_secret("tls.key", str(file)).is_private is is_private
    assert look_at_secret("tls.key", str(tmp_path / "absent")).is_private is None


def test_a_folder_or_a_pipe_is_no_secret(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe"):
        assert look_at_secret("secrets.hook", str(path)).is_private is None


def test_files_of_the_table_of_secrets_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("x")
    (tmp_path / "hook").chmod(0o644)
    file = tmp_path / "mainspring.toml"
    file.write_text(
        f'[secrets.ops-hook]\nfrom = "file:{tmp_path}/hook"\ntenants = []\n'
        f'[secrets.smtp]\nfrom = "file:{tmp_path}/absent"\ntenants = ["*"]\n'
        '[secrets.token]\nfrom = "env:TOKEN"\ntenants = ["*"]\n'
    )
    found = read_settings(read_sources({}, config=str(file)), {})
    assert {secret.setting: secret.is_private for secret in found.secrets} == {
        "secrets.ops-hook": False,
        "secrets.smtp": None,
    }


def test_what_executors_lack_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mainspring.toml"
    file.write_text("[executors.grpc]\nenabled = true\n[executors.process]\nenabled = true\n")
    choices = read_sources({}, config=str(file))
    assert read_settings(choices, {}).executor_problems == []
    monkeypatch.setattr("mainspring.host.examining.find_spec", lambda name: None)
    found = read_settings(choices, {})
    assert found.executors == ["process", "grpc"]
    assert found.executor_problems == [
        (
            "executors.grpc.enabled is set, and the extra 'grpc' is not installed here",
            "pip install 'mainspring[grpc]'",
        )
    ]


def test_settings_are_read_as_they_are(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path, make_authority(tmp_path))
    token = tmp_path / "token"
    token.write_text("x")
    file = tmp_path / "mainspring.toml"
    file.write_text(
        f'host = "0.0.0.0"\n[tls]\ncert = "{pair.cert}"\nkey = "{pair.key}"\n[executors.shell]\nenabled = true\n'
    )
    found = read_settings(
        read_sources({}, config=str(file)), {"MAINSPRING_TOKEN_FILE": str(token), "MAINSPRING_PROT": "1"}
    )
    assert (found.is_open, found.is_encrypted, found.allows_shell, found.has_shell_list) == (
        False,
        True,
        True,
        False,
    )
    assert [secret.setting for secret in found.secrets] == ["tls.key", "MAINSPRING_TOKEN_FILE"]
    assert found.certificate_ends_in is not None
    assert 86_400 < found.certificate_ends_in <= 2 * 86_400
    [problem] = found.problems
    assert "MAINSPRING_PROT" in problem
    file.write_text('host = "0.0.0.0"\ntrusted_network = true\n')
    assert read_settings(read_sources({}, config=str(file)), {}).is_open


def test_ids_of_keys_are_read_and_their_file_is_looked_at(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text(f"{make_key('b')}\n{make_key('a')}\n")

    def read() -> SettingFacts:
        return read_settings(read_sources({}, config=str(file)), {})

    file = tmp_path / "mainspring.toml"
    file.write_text(f'keys_file = "{keys}"\n')
    assert read().keys == ["b", "a"]
    assert set(read().key_checks) == {"a", "b"}
    assert len(set(read().key_checks.values())) == 2
    assert [(one.setting, one.is_private) for one in read().secrets] == [("keys_file", True)]
    keys.chmod(0o644)
    assert read().keys is None
    assert [(one.setting, one.is_private) for one in read().secrets] == [("keys_file", False)]
    file.write_text("")
    assert read().keys is None


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/mainspring", "ext4"),
        ("/dev/shm/x", "tmpfs"),
        ("/dev/shmx", "ext4"),
        ("/srv/with blank/data", "nfs4"),
        ("/srv/with blank/local/data", "xfs"),
    ],
)
def test_a_folder_is_on_the_file_system_that_is_mounted_nearest(folder: str, kind: str) -> None:
    assert filesystem_of(Path(folder), MOUNTS) == kind
    assert filesystem_of(Path(folder), "") == "unknown"
