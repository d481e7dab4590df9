"""Ciphertexts decrypt with their key, for what they belong to, and for nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ciphertexts import FIRST_BYTE, is_encrypted_bytes
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys, make_key, parse_keys, read_keys
from mainspring.errors import CannotDecrypt, InvalidInput

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
ONE = Cipher(Keys("old", {"old": OLD}))
BOTH = Cipher(Keys("new", {"new": NEW, "old": OLD}))


@given(st.binary(max_size=300), st.binary(max_size=60))
def test_what_was_encrypted_is_decrypted(plain: bytes, context: bytes) -> None:
    data = ONE.encrypt(plain, context)
    assert is_encrypted_bytes(data)
    assert plain not in data or len(plain) < 8
    assert ONE.decrypt(data, context) == plain
    assert BOTH.decrypt(data, context) == plain
    assert ONE.encrypt(plain, context) != data


@given(st.binary(max_size=60), st.data())
def test_one_changed_byte_is_noticed(plain: bytes, data: st.DataObject) -> None:
    good = ONE.encrypt(plain, b"here")
    place = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CannotDecrypt):
        ONE.decrypt(bytes(bad), b"here")


@given(st.integers(0, 120))
def test_what_is_cut_off_is_noticed(length: int) -> None:
    good = ONE.encrypt(b"some payload that is a little longer", b"")
    if length < len(good):
        with pytest.raises(CannotDecrypt):
            ONE.decrypt(good[:length], b"")


def test_another_context_is_refused() -> None:
    data = ONE.encrypt(b"plain", b"here")
    with pytest.raises(CannotDecrypt, match="belongs to something else") as refused:
        ONE.decrypt(data, b"there")
    assert refused.value.key_id is None


def test_missing_key_is_named() -> None:
    data = BOTH.encrypt(b"plain", b"here")
    with pytest.raises(CannotDecrypt, match="the key 'new', which is not in the keys_file") as refused:
        ONE.decrypt(data, b"here")
    assert refused.value.key_id == "new"


def test_other_key_of_the_same_id_is_refused() -> None:
    with pytest.raises(CannotDecrypt, match="it was changed"):
        Cipher(Keys("old", {"old": NEW})).decrypt(ONE.encrypt(b"plain", b""), b"")


def test_each_process_encrypts_under_a_key_of_its_own() -> None:
    again = Cipher(Keys("old", {"old": OLD}))
    head = FIRST_BYTE + b"mse1:old:"
    one, two = ONE.encrypt(b"", b""), again.encrypt(b"", b"")
    assert one.startswith(head)
    assert one[len(head) :][:16] == ONE.encrypt(b"", b"")[len(head) :][:16] != two[len(head) :][:16]


def test_salt_is_drawn_anew_after_its_share_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.encryption.cipher._MOST_MESSAGES", 3)
    cipher = Cipher(Keys("old", {"old": OLD}))
    salts = [cipher.encrypt(b"", b"")[10:26] for _ in range(7)]
    assert salts[0] == salts[1] == salts[2] != salts[3] == salts[4] == salts[5] != salts[6]
    assert len(set(salts)) == 3


def test_check_tells_keys_apart_and_is_not_the_key() -> None:
    assert ONE.check_of("old") == BOTH.check_of("old") != BOTH.check_of("new")
    assert ONE.check_of("new") is None
    assert OLD not in (ONE.check_of("old") or b"")


def test_keys_are_not_shown() -> None:
    assert "\\x01" not in repr(Keys("old", {"old": OLD}))


LINE = make_key("2026-11")


def test_file_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f'# ours\n\n{LINE}\n old="{make_key("x").partition(" = ")[2]}"\n')
    file.chmod(0o600)
    keys = read_keys(str(file))
    assert (keys.current, list(keys.by_id)) == ("2026-11", ["2026-11", "old"])
    assert {len(key) for key in keys.by_id.values()} == {32}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no key"),
        ("# only this", "has no key"),
        ("2026-11", "line 1 is not ID = KEY"),
        (f"a b{LINE[7:]}", "line 1 is not ID = KEY"),
        (f"-a{LINE[7:]}", "line 1 is not ID = KEY"),
        ("a = c2hvcnQ=", "line 1 has no key of 32 bytes in base64"),
        ("a = !", "line 1 has no key of 32 bytes in base64"),
        (f"{LINE}\n{LINE}", "line 2 has a second key with the id '2026-11'"),
        (f"{LINE}\nb{LINE[7:]}", "has one key under two ids"),
        ("\n".join(make_key(f"k{number}") for number in range(101)), "has 101 keys; at most 100"),
    ],
    ids=map(str, range(10)),  # the keys are drawn
)
def test_wrong_file_is_told_without_its_keys(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        parse_keys(text, "/k")
    assert str(refused.value).startswith("keys_file: /k")
    assert LINE.partition(" = ")[2] not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "keys"
    file.write_text(LINE)
    file.chmod(mode)
    with pytest.raises(InvalidInput, match=r"run chmod 600 "):
        read_keys(str(file))


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        read_keys(str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="is not a regular file"):
        read_keys(str(tmp_path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(InvalidInput, match="is not a regular file"):
        read_keys(str(pipe))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    binary.chmod(0o600)
    with pytest.raises(InvalidInput, match="is not UTF-8"):
        read_keys(str(binary))
    binary.write_bytes(b"#" * 70_000)
    with pytest.raises(InvalidInput, match="is no file of keys"):
        read_keys(str(binary))


@pytest.mark.parametrize("key_id", ["", "a b", "ä", "-a", "a" * 33, "a:b", "a=b"])
def test_id_of_a_key(key_id: str) -> None:
    with pytest.raises(InvalidInput, match="id: must be 1 to 32 letters"):
        make_key(key_id)


def test_extra_that_is_missing_is_named(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["cryptography"] = None
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys
Cipher(Keys("a", {"a": bytes(32)}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (
        "MissingExtra: keys_file: the extra 'crypto' is not installed here; pip install 'mainspring[crypto]'"
        in done.stderr
    )


def test_without_keys_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = """
import sys
import mainspring.runtime, mainspring.engine.assembly, mainspring.cli.commands.up
print(sorted(name for name in sys.modules if name.startswith(("cryptography", "mainspring.encryption"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "[]\n"


def test_a_request_is_known_again_by_every_key_and_by_no_other() -> None:
    digest = bytes(range(32))
    [old] = ONE.mark_request(digest, b"shop")
    new, again = BOTH.mark_request(digest, b"shop")
    assert again == old
    assert len({old, new, digest}) == 3
    assert ONE.mark_request(digest, b"mall") != (old,)
    assert ONE.mark_request(digest[::-1], b"shop") != (old,)
