"""Each field is bound to its tenant, its job and itself: moved elsewhere, its bytes do not decrypt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ciphertexts import ENCRYPTED, has_encrypted
from mainspring.core.dead_letters import group_of
from mainspring.core.ids import RunId
from mainspring.core.model import JobSpec, Target
from mainspring.core.targets import TARGETS
from mainspring.core.targets.http import HttpType
from mainspring.core.types import Types
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.fields import Fields, Place
from mainspring.encryption.keys import Keys
from mainspring.errors import CannotDecrypt, InvalidInput
from mainspring.ports.codec import decode_spec, encode_spec
from mainspring.testing.factories import IdSequence

FIELDS = Fields(Cipher(Keys("k1", {"k1": bytes(32)})))
OTHER = Fields(Cipher(Keys("k2", {"k2": b"\1" * 32})))
IDS = IdSequence()
JOB, NEIGHBOUR = IDS.new_job_id(), IDS.new_job_id()
HERE = Place("shop", JOB)
ELSEWHERE = [Place("bank", JOB), Place("shop", NEIGHBOUR)]
RUN, NEXT = RunId(256), RunId(512)

HTTP = Target(
    "http",
    {
        "url": "https://example.com/canary",
        "method": "PUT",
        "headers": {"Authorization": "canary"},
        "signing": "secret:x",
    },
)
SPEC = JobSpec(name="report", target=HTTP, payload=b'{"canary":"\xc3\xa4"}')


@given(st.binary(max_size=80).map(lambda data: b'"' + data))
def test_payload_and_result_make_the_round_trip(data: bytes) -> None:
    assert FIELDS.decrypt_payload(FIELDS.encrypt_payload(data, HERE), HERE) == data
    result = FIELDS.encrypt_result(data, HERE, RUN)
    assert result is not None
    assert FIELDS.decrypt_result(result, HERE, RUN) == data


@given(st.text(max_size=80))
def test_texts_make_the_round_trip(text: str) -> None:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    error, output = FIELDS.encrypt_error(text, HERE, RUN), FIELDS.encrypt_output(text, HERE, RUN)
    assert error is not None
    assert error.isascii()
    assert FIELDS.show_text(error, "error", HERE, RUN) == text
    assert FIELDS.show_text(output, "output", HERE, RUN) == text


def test_none_and_plain_stay() -> None:
    assert FIELDS.decrypt_payload(None, HERE) is None
    assert FIELDS.decrypt_payload(b'{"a":1}', HERE) == b'{"a":1}'
    assert FIELDS.encrypt_result(None, HERE, RUN) is None
    assert FIELDS.decrypt_result(None, HERE, RUN) is None
    assert FIELDS.encrypt_error(None, HERE, RUN) is None
    assert FIELDS.encrypt_output(None, HERE, RUN) is None
    assert FIELDS.show_text("ValueError", "error", HERE, RUN) == "ValueError"
    assert FIELDS.show_text(None, "error", HERE, RUN) is None
    assert FIELDS.decrypt_spec(SPEC, HERE) is SPEC


@pytest.mark.parametrize("place", ELSEWHERE, ids=["tenant", "job"])
def test_moved_to_another_tenant_or_job_nothing_decrypts(place: Place) -> None:
    with pytest.raises(CannotDecrypt):
        FIELDS.decrypt_payload(FIELDS.encrypt_payload(b"1", HERE), place)
    with pytest.raises(CannotDecrypt):
        FIELDS.decrypt_result(FIELDS.encrypt_result(b"1", HERE, RUN), place, RUN)
    with pytest.raises(CannotDecrypt, match=r"^the definition of job job_"):
        FIELDS.decrypt_spec(FIELDS.encrypt_spec(SPEC, HERE), place)
    for field, text in (
        ("error", FIELDS.encrypt_error("canary", HERE, RUN)),
        ("output", FIELDS.encrypt_output("canary", HERE, RUN)),
    ):
        shown = FIELDS.show_text(text, field, place, RUN)
        assert shown is not None
        assert shown.startswith("[cannot be decrypted: it was changed in the store")


def test_moved_to_another_field_or_run_nothing_decrypts() -> None:
    payload = FIELDS.encrypt_payload(b"1", HERE)
    result = FIELDS.encrypt_result(b"1", HERE, RUN)
    error, output = FIELDS.encrypt_error("canary", HERE, RUN), FIELDS.encrypt_output("canary", HERE, RUN)
    with pytest.raises(CannotDecrypt):
        FIELDS.decrypt_result(payload, HERE, RUN)
    with pytest.raises(CannotDecrypt):
        FIELDS.decrypt_payload(result, HERE)
    with pytest.raises(CannotDecrypt):
        FIELDS.decrypt_result(result, HERE, NEXT)
    for text, field, run_id in ((error, "output", RUN), (output, "error", RUN), (error, "error", NEXT)):
        assert "canary" not in (FIELDS.show_text(text, field, HERE, run_id) or "")


def test_texts_that_are_no_ciphertext_say_so() -> None:
    for text in (
        "mainspring-encrypted:1:",
        "mainspring-encrypted:1:k1:x:%%%",
        "mainspring-encrypted:1:k1::QQ==",
    ):
        assert (FIELDS.show_text(text, "error", HERE, RUN) or "").startswith("[cannot be decrypted: ")


def test_definition_keeps_what_the_store_goes_by_and_hides_the_rest() -> None:
    encrypted = FIELDS.encrypt_spec(SPEC, HERE)
    text = encode_spec(encrypted)
    assert b"canary" not in text
    assert b"secret:x" not in text
    assert encrypted.payload is None
    assert encrypted.target.params.keys() == {"method", ENCRYPTED}
    assert encrypted.route == SPEC.route
    back = FIELDS.decrypt_spec(decode_spec(text), HERE)
    assert back == SPEC
    assert back.target.params == HTTP.params
    assert list(back.target.params) == list(HTTP.params)


def test_function_keeps_its_name_for_claims() -> None:
    spec = JobSpec(name="f", target=Target("function", {"function": "app.report"}), payload=b'{"a":1}')
    encrypted = FIELDS.encrypt_spec(spec, HERE)
    assert encrypted.route == spec.route == "function:app.report"
    assert FIELDS.decrypt_spec(encrypted, HERE) == spec
    without = replace(spec, payload=None)
    assert FIELDS.encrypt_spec(without, HERE) is without


def test_isolation_stays_plain_for_claims() -> None:
    target = Target("function", {"function": "app.report", "isolation": "process"})
    spec = JobSpec(name="f", target=target, payload=b'{"a":1}')
    encrypted = FIELDS.encrypt_spec(spec, HERE)
    assert encrypted.route == spec.route == "function:app.report+*process"
    assert FIELDS.decrypt_spec(encrypted, HERE) == spec


class Placed(HttpType):
    """A package's type, for which workers are found by a parameter that is hidden."""

    name = "placed"
    short: ClassVar[Mapping[str, str]] = {}

    def route(self, params: Mapping[str, Any]) -> str:
        return f"placed:{params['url']}"


def test_type_whose_workers_are_found_by_what_is_hidden_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.core.model.TARGETS", Types("target", *TARGETS, Placed()))
    spec = replace(SPEC, target=Target("placed", HTTP.params))
    assert spec.route == "placed:https://example.com/canary"
    with pytest.raises(InvalidInput, match=r"^target: workers are found by parameters of 'placed' that"):
        FIELDS.encrypt_spec(spec, HERE)


def test_name_of_a_function_that_was_changed_in_the_store_is_not_called() -> None:
    spec = JobSpec(name="f", target=Target("function", {"function": "app.report"}), payload=b"{}")
    encrypted = FIELDS.encrypt_spec(spec, HERE)
    changed = replace(
        encrypted, target=Target("function", {**encrypted.target.params, "function": "app.evil"})
    )
    assert FIELDS.decrypt_spec(changed, HERE).target.params == {"function": "app.report"}


@pytest.mark.parametrize("wrong", ["", "%%%", "QQ==", 7, None])
def test_definition_that_was_changed_is_an_error(wrong: object) -> None:
    encrypted = FIELDS.encrypt_spec(SPEC, HERE)
    changed = replace(encrypted, target=Target("http", {**encrypted.target.params, ENCRYPTED: wrong}))
    with pytest.raises(CannotDecrypt, match="the definition of job job_"):
        FIELDS.decrypt_spec(changed, HERE)


def test_definition_that_could_not_be_decrypted_is_never_encrypted_again() -> None:
    encrypted = FIELDS.encrypt_spec(SPEC, HERE)
    assert has_encrypted(encrypted.target.params)
    with pytest.raises(CannotDecrypt, match="write it anew"):
        FIELDS.encrypt_spec(encrypted, HERE)


def test_missing_key_is_told_with_the_job() -> None:
    with pytest.raises(CannotDecrypt, match=r"the definition of job job_.* the key 'k2', which is not"):
        FIELDS.decrypt_spec(OTHER.encrypt_spec(SPEC, HERE), HERE)


def test_errors_that_failed_alike_have_one_group_which_tells_nothing() -> None:
    one, two, three = (
        FIELDS.encrypt_error(error, HERE, RUN) for error in ("canary 17 is odd", "canary 19 is odd", "other")
    )
    assert group_of(one) == group_of(two) != group_of(three)
    assert group_of(one).startswith("encrypted with k1: ")
    assert "canary" not in group_of(one)
    assert group_of(FIELDS.encrypt_error("other", ELSEWHERE[0], RUN)) != group_of(three)
    assert group_of("mainspring-encrypted:1:") == group_of("mainspring-encrypted:1:k") == "encrypted"
