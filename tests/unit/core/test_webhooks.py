from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.webhooks import identify, read_keys, sign
from mainspring.errors import InvalidInput

# The vector of the specification's libraries: github.com/standard-webhooks/standard-webhooks, libraries/*/tests.
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = datetime.fromtimestamp(1614265330, UTC)
BODY = b'{"test": 2432232314}'


def test_signature_is_that_of_the_specification() -> None:
    assert sign(read_keys(KEY, "key"), ID, AT, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(
    key=st.binary(min_size=24, max_size=64),
    at=st.integers(0, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC)),
    body=st.text(st.characters(codec="utf-8")),
    name=st.text("abc_0123", min_size=1),
)
def test_signature_is_that_of_another_implementation(key: bytes, at: datetime, body: str, name: str) -> None:
    text = "whsec_" + b64encode(key).decode()
    expected = standardwebhooks.Webhook(text).sign(name, at, body)
    assert sign(read_keys(text, "key"), name, at, body.encode())["webhook-signature"] == expected


def test_each_key_of_a_change_over_signs_and_either_verifies() -> None:
    other = "whsec_" + b64encode(b"x" * 32).decode()
    now = datetime.now(UTC)
    headers = sign(read_keys(f"{KEY}\n{other} ", "key"), ID, now, BODY)
    assert headers["webhook-signature"].count("v1,") == 2
    for key in (KEY, other):
        assert standardwebhooks.Webhook(key).verify(BODY, headers) == {"test": 2432232314}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(other).verify(BODY + b" ", headers)
    late = sign(read_keys(KEY, "key"), ID, now - timedelta(minutes=6), BODY)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(KEY).verify(BODY, late)


def test_message_without_a_key_is_identified_only() -> None:
    assert identify(ID, AT) == {"webhook-id": ID, "webhook-timestamp": "1614265330"}


@pytest.mark.parametrize(
    "text",
    [
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!",
        "whsec_" + b64encode(b"x" * 23).decode(),
        "whsec_" + b64encode(b"x" * 65).decode(),
        f"{KEY} hunter2-hunter2-hunter2",
        "whsec_ключ",
    ],
)
def test_text_that_is_no_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^the secret: is no signing key; write whsec_ and 24 to 64"
    ) as refused:
        read_keys(text, "the secret")
    assert text.removeprefix("whsec_")[-12:] not in str(refused.value) or text == "whsec_"


@pytest.mark.parametrize("size", [24, 64])
def test_keys_of_the_shortest_and_longest_size(size: int) -> None:
    assert read_keys("whsec_" + b64encode(b"k" * size).decode(), "key") == (b"k" * size,)
    assert read_keys("whsec_" + b64encode(b"k" * size).decode().rstrip("="), "key") == (b"k" * size,)


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_secret_holds_no_key(text: Any) -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        read_keys(text, "key")
