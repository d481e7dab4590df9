"""What a method takes and gives, by its descriptors: from files, or from the server itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from mainspring.errors import InvalidInput
from mainspring.executors._grpc.protocols import REFLECTIONS, reflection_messages

_MOST_FILES = 1_000
_MOST_BYTES = 16 * 1024 * 1024


class Undescribed(Exception):
    """Nobody says what a method takes and gives. The message says who was asked."""


class Misfit(Exception):
    """A payload is not what a method takes."""


class Method:
    """A method that takes one message and gives one.

    Args:
        pool: has its messages, and those that they may hold.
    """

    def __init__(self, described: Any, pool: descriptor_pool.DescriptorPool) -> None:
        self._request = message_factory.GetMessageClass(described.input_type)
        self._reply = message_factory.GetMessageClass(described.output_type)
        self._takes = described.input_type.full_name
        self._pool = pool

    def encode(self, payload: bytes | None) -> bytes:
        """Return a JSON payload as the message that the method takes; none is an empty one.

        Raises:
            Misfit: it does not fit; fields that the message does not have are refused, too.
        """
        message = self._request()
        try:
            if payload is not None and payload != b"null":
                json_format.Parse(payload, message, descriptor_pool=self._pool)
            encoded: bytes = message.SerializeToString()
        except (json_format.ParseError, ValueError, RecursionError, TypeError) as error:
            raise Misfit(f"the payload does not fit {self._takes}: {error}") from None
        return encoded

    def decode(self, data: bytes) -> bytes:
        """Return the message that the method gave as JSON, every field in it.

        Raises:
            Misfit: it is not what the descriptors say.
        """
        try:
            message = self._reply.FromString(data)
            text = json_format.MessageToJson(
                message, indent=None, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (DecodeError, json_format.SerializeToJsonError, TypeError, ValueError) as error:
            raise Misfit(f"the answer is not what its descriptors say: {error}") from None
        return str(text).encode()


def find_method(pool: descriptor_pool.DescriptorPool, name: str) -> Method | None:
    """Return a method by its full name; None if the pool has none of that name.

    Raises:
        InvalidInput: it streams.
    """
    service, _, method = name.partition("/")
    try:
        described = pool.FindServiceByName(service).methods_by_name.get(method)
    except KeyError:
        return None
    if described is None:
        return None
    if described.client_streaming or described.server_streaming:
        raise InvalidInput(
            "target.method", f"{name} streams; a job can call a method of one message and one answer"
        )
    return Method(described, pool)


def read_files(paths: Iterable[str]) -> descriptor_pool.DescriptorPool:
    """Return what files of descriptors describe.

    Raises:
        InvalidInput: one cannot be read, or lacks what it imports.
    """
    files: dict[str, bytes] = {}
    for path in paths:
        try:
            read = FileDescriptorSet.FromString(Path(path).read_bytes())
        except (OSError, DecodeError) as error:
            raise InvalidInput("executors.grpc.descriptors", f"{path}: cannot be read: {error}") from None
        files |= {file.name: file.SerializeToString() for file in read.file}
    try:
        return _make_pool(files)
    except Undescribed as error:
        raise InvalidInput(
            "executors.grpc.descriptors", f"{error}; make the file with protoc --include_imports"
        ) from None


async def ask_server(
    channel: grpc.aio.Channel, service: str, timeout: float
) -> descriptor_pool.DescriptorPool:
    """Return what a server tells of a service by reflection.

    Args:
        timeout: in seconds, for all questions together.

    Raises:
        Undescribed: it has no reflection, or does not know the service.
        AioRpcError: it does not answer.
    """
    for package in REFLECTIONS:
        try:
            return await _ask(channel, package, service, timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    raise Undescribed(
        "the server has no reflection; name a file that describes it in executors.grpc.descriptors, on the worker"
    )


async def _ask(
    channel: grpc.aio.Channel, package: str, service: str, timeout: float
) -> descriptor_pool.DescriptorPool:
    request, response = reflection_messages(package)
    ask = channel.unary_stream(  # each question by itself: one sent after a refusal would hide why it was refused
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    files: dict[str, bytes] = {}
    wanted = [request(file_containing_symbol=service)]
    asked: set[str] = set()
    while wanted:
        answer = await _read_one(ask(wanted.pop(), timeout=timeout))
        if answer.HasField("error_response"):
            raise Undescribed(
                f"the server does not know {service}: {answer.error_response.error_message[:500]}"
            )
        for missing in _take(files, answer.file_descriptor_response.file_descriptor_proto):
            if missing not in asked:
                asked.add(missing)
                wanted.append(request(file_by_filename=missing))
    return _make_pool(files)


async def _read_one(call: Any) -> Any:
    try:
        answer = await call.read()
    finally:
        call.cancel()
    if answer is grpc.aio.EOF:
        raise Undescribed("the server ended its reflection before it had told all")
    return answer


def _take(files: dict[str, bytes], given: Iterable[bytes]) -> Iterable[str]:
    """Take in what an answer tells. Return the files that are still missing."""
    for data in given:
        try:
            files[FileDescriptorProto.FromString(data).name] = data
        except DecodeError as error:
            raise Undescribed(f"the server's reflection tells what is no descriptor: {error}") from None
    if len(files) > _MOST_FILES or sum(map(len, files.values())) > _MOST_BYTES:
        raise Undescribed(f"the server describes more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB")
    imported = {name for data in files.values() for name in FileDescriptorProto.FromString(data).dependency}
    return [name for name in sorted(imported - files.keys()) if _own(name) is None]


def _own(name: str) -> bytes | None:
    """Return a file that Protocol Buffers bring themselves, like `google/protobuf/timestamp.proto`."""
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    modules = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    own = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}
    found: bytes | None = own.get(name)
    return found


def _make_pool(files: dict[str, bytes]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    done: set[str] = set()
    under_way: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        data = files.get(name) or _own(name)
        if data is None:
            raise Undescribed(f"the descriptors lack {name}, which they import")
        if name in under_way:
            raise Undescribed(f"the descriptors import each other: {name}")
        under_way.append(name)
        for needed in FileDescriptorProto.FromString(data).dependency:
            add(needed)
        under_way.pop()
        try:
            pool.AddSerializedFile(data)
        except (TypeError, ValueError, KeyError) as error:
            raise Undescribed(f"the descriptors of {name} contradict others: {error}") from None
        done.add(name)

    for name in sorted(files):
        add(name)
    return pool
