"""What is encrypted, field by field, and what each ciphertext belongs to."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import replace

from mainspring.core.ciphertexts import (
    ENCRYPTED,
    FIRST_BYTE,
    PLAIN_PARAMS,
    UNREADABLE,
    has_encrypted,
    is_encrypted_bytes,
    is_encrypted_text,
    note_unreadable,
)
from mainspring.core.dead_letters import group_of
from mainspring.core.ids import JobId, RunId, format_job_id
from mainspring.core.model import JobSpec, Target
from mainspring.core.values import value
from mainspring.encryption.cipher import Cipher
from mainspring.errors import CannotDecrypt, InvalidInput
from mainspring.ports.store.runs import IdempotencyKey


@value()
class Place:
    """Whose a value is: it decrypts nowhere else."""

    tenant: str
    job_id: JobId

    def context(self, field: str, run_id: RunId | None = None) -> bytes:
        """Return what a ciphertext is bound to."""
        return f"{self.tenant}\0{self.job_id}\0{field}\0{'' if run_id is None else run_id}".encode()


class Fields:
    """Encrypts and decrypts the fields of definitions, runs and attempts. None stays None, and plain stays plain."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def encrypt_payload(self, payload: bytes, place: Place) -> bytes:
        """Encrypt a run's own payload.

        Raises:
            CannotDecrypt: it is that of a run which could not be decrypted.
        """
        if payload[:1] == FIRST_BYTE:
            raise CannotDecrypt("the payload could not be decrypted, so no run can be made with it")
        return self._cipher.encrypt(payload, place.context("payload"))

    def decrypt_payload(self, payload: bytes | None, place: Place) -> bytes | None:
        """Decrypt a run's own payload.

        Raises:
            CannotDecrypt: it is a ciphertext that cannot be read here.
        """
        if not is_encrypted_bytes(payload) or payload is None:
            return payload
        return self._cipher.decrypt(payload, place.context("payload"))

    def encrypt_result(self, result: bytes | None, place: Place, run_id: RunId) -> bytes | None:
        """Encrypt a run's result."""
        return None if result is None else self._cipher.encrypt(result, place.context("result", run_id))

    def decrypt_result(self, result: bytes | None, place: Place, run_id: RunId) -> bytes | None:
        """Decrypt a run's result.

        Raises:
            CannotDecrypt: it is a ciphertext that cannot be read here.
        """
        if not is_encrypted_bytes(result) or result is None:
            return result
        return self._cipher.decrypt(result, place.context("result", run_id))

    def encrypt_flow(self, data: bytes, field: str, place: Place, flow_id: RunId) -> bytes:
        """Encrypt what is kept of a flow: its state, or what a step has left for others."""
        return self._cipher.encrypt(data, place.context(f"flow {field}", flow_id))

    def decrypt_flow(self, data: bytes, field: str, place: Place, flow_id: RunId) -> bytes:
        """Decrypt what is kept of a flow.

        Raises:
            CannotDecrypt: it is a ciphertext that cannot be read here.
        """
        if not is_encrypted_bytes(data):
            return data
        return self._cipher.decrypt(data, place.context(f"flow {field}", flow_id))

    def encrypt_error(self, error: str | None, place: Place, run_id: RunId) -> str | None:
        """Encrypt an error. Its head has the mark of its group."""
        if error is None:
            return None
        mark = self._cipher.mark_group(group_of(error), f"{place.tenant}\0".encode())
        return self._encrypt_text(error, place.context("error", run_id), mark)

    def encrypt_output(self, output: str | None, place: Place, run_id: RunId) -> str | None:
        """Encrypt an output."""
        return None if output is None else self._encrypt_text(output, place.context("output", run_id), "")

    def encrypt_message(self, message: str | None, place: Place, run_id: RunId) -> str | None:
        """Encrypt what a run says beside its progress."""
        return None if message is None else self._encrypt_text(message, place.context("progress", run_id), "")

    def encrypt_log(self, data: bytes, place: Place, run_id: RunId, token: int, start: int) -> bytes:
        """Encrypt a part of what an attempt wrote."""
        return self._cipher.encrypt(data, place.context(f"log {token} {start}", run_id))

    def decrypt_log(self, data: bytes, place: Place, run_id: RunId, token: int, start: int) -> bytes:
        """Decrypt a part of what an attempt wrote.

        Raises:
            CannotDecrypt: it is a ciphertext that cannot be read here.
        """
        if not is_encrypted_bytes(data):
            return data
        return self._cipher.decrypt(data, place.context(f"log {token} {start}", run_id))

    def encrypt_step(
        self, data: bytes | None, place: Place, run_id: RunId, name: str, number: int
    ) -> bytes | None:
        """Encrypt what a step of a durable function has come to."""
        if data is None:
            return None
        return self._cipher.encrypt(data, place.context(f"step {number} {name}", run_id))

    def decrypt_step(
        self, data: bytes | None, place: Place, run_id: RunId, name: str, number: int
    ) -> bytes | None:
        """Decrypt what a step has come to.

        Raises:
            CannotDecrypt: it is a ciphertext that cannot be read here.
        """
        if data is None or not is_encrypted_bytes(data):
            return data
        return self._cipher.decrypt(data, place.context(f"step {number} {name}", run_id))

    def show_text(self, text: str | None, field: str, place: Place, run_id: RunId) -> str | None:
        """Return an error or output for people: one that cannot be decrypted says so."""
        if not is_encrypted_text(text) or text is None:
            return text
        try:
            data = base64.b64decode(text.rpartition(":")[2], validate=True)
            return self._cipher.decrypt(FIRST_BYTE + data, place.context(field, run_id)).decode()
        except CannotDecrypt as error:
            return f"[{UNREADABLE}: {error}]"
        except (binascii.Error, UnicodeDecodeError):
            return f"[{UNREADABLE}: it was changed in the store]"

    def mark_request(self, key: IdempotencyKey, tenant: str) -> IdempotencyKey:
        """Replace a request's plain digest, by which who reads the store could find out a payload that they guess.

        What was submitted before a key was changed, or before anything was encrypted, is known again.
        """
        marks = self._cipher.mark_request(key.request_hash, f"{tenant}\0".encode())
        return replace(key, request_hash=marks[0], former_hashes=(*marks[1:], key.request_hash))

    def encrypt_spec(self, spec: JobSpec, place: Place) -> JobSpec:
        """Encrypt a definition's payload, and what its target is called with.

        Raises:
            CannotDecrypt: it holds what could not be decrypted when it was read.
            InvalidInput: claims go by more of its target than may stay plain.
        """
        params = spec.target.params
        if has_encrypted(params):
            message = (
                f"the definition of job {format_job_id(place.job_id)} could not be decrypted; write it anew"
            )
            raise CannotDecrypt(message)
        if spec.payload is None and params.keys() <= PLAIN_PARAMS:
            return spec
        payload = None if spec.payload is None else spec.payload.decode()
        plain = json.dumps({"params": dict(params), "payload": payload}).encode()
        data = self._cipher.encrypt(plain, place.context("definition"))
        shown = {name: item for name, item in params.items() if name in PLAIN_PARAMS}
        target = Target(spec.target.type, shown | {ENCRYPTED: _to_text(data)})
        encrypted = replace(spec, payload=None, target=target)
        _check_route(spec, encrypted)
        return encrypted

    def decrypt_spec(self, spec: JobSpec, place: Place) -> JobSpec:
        """Decrypt a definition.

        Raises:
            CannotDecrypt: it is encrypted, and cannot be read here.
        """
        if not has_encrypted(spec.target.params):
            return spec
        text = spec.target.params[ENCRYPTED]
        try:
            data = FIRST_BYTE + base64.b64decode(text, validate=True)
            plain = json.loads(self._cipher.decrypt(data, place.context("definition")))
        except CannotDecrypt as error:
            message = f"the definition of job {format_job_id(place.job_id)} {UNREADABLE}: {error}"
            raise CannotDecrypt(message, key_id=error.key_id) from None
        except (binascii.Error, TypeError, ValueError):
            message = f"the definition of job {format_job_id(place.job_id)} was changed in the store"
            raise CannotDecrypt(message) from None
        payload: str | None = plain["payload"]
        return replace(
            spec,
            target=Target(spec.target.type, plain["params"]),
            payload=None if payload is None else payload.encode(),
        )

    def show_spec(self, spec: JobSpec, place: Place) -> JobSpec:
        """Decrypt a definition. One that cannot be read here says why, and cannot be written again."""
        try:
            return self.decrypt_spec(spec, place)
        except CannotDecrypt as error:
            params = note_unreadable(spec.target.params, str(error), error.key_id)
            return replace(spec, target=Target(spec.target.type, params))

    def _encrypt_text(self, text: str, context: bytes, mark: str) -> str:
        data = self._cipher.encrypt(text.encode("utf-8", "replace"), context)
        return f"{self._cipher.text_head(mark)}{_to_text(data)}"


def _check_route(spec: JobSpec, encrypted: JobSpec) -> None:
    """Refuse a definition whose route is another one without what is hidden: no worker would get its runs."""
    try:
        is_same = encrypted.route == spec.route
    except (KeyError, TypeError, AttributeError):  # a package's type, which reads what is hidden
        is_same = False
    if not is_same:
        message = f"workers are found by parameters of {spec.target.type!r} that cannot be encrypted"
        raise InvalidInput("target", f"{message}; use another type, or a store without keys_file")


def _to_text(data: bytes) -> str:
    """Return a ciphertext as text, without the byte that tells it from JSON."""
    return base64.b64encode(data.removeprefix(FIRST_BYTE)).decode()
