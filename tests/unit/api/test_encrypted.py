"""What the API says of values that cannot be decrypted here."""

from __future__ import annotations

import json

from mainspring.api.errors import answer_error
from mainspring.errors import CannotDecrypt
from mainspring.wire.views import raw_json


def test_error_says_why() -> None:
    reply = answer_error(CannotDecrypt("the key 'k' is missing", key_id="k"), path="/x", request_id="r")
    assert reply.status == 500
    assert json.loads(reply.body)["detail"] == "the key 'k' is missing"


def test_value_that_a_process_without_keys_shows_is_json_that_says_so() -> None:
    shown = raw_json(b"\x01mse1:k:\x00\xff")
    assert shown is not None
    assert json.loads(bytes(shown)).startswith("[cannot be decrypted: this process has no keys_file")
    assert json.loads(bytes(raw_json(b"[1]") or b"")) == [1]
    assert raw_json(None) is None
