"""What a method takes and gives, by its descriptors: from files, or from the server itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from mainspring.errors import InvalidInput
from mainspring.executors._grpc.answers import check_size
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
            Swollen: it is far too large as JSON.
        """
        try:
            message = self._reply.FromString(data)
            check_size(message, self._pool)
            text = json_format.MessageToJson(
                message, indent=None, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (
            DecodeError,
            json_format.SerializeToJsonError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
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
    files = _Files()
    wanted = [request(file_containing_symbol=service)]
    while wanted:
        answer = await _read_one(ask(wanted.pop(), timeout=timeout))
        if answer.HasField("error_response"):
            raise Undescribed(
                f"the server does not know {service}: {answer.error_response.error_message[:500]}"
            )
        missing = files.take(answer.file_descriptor_response.file_descriptor_proto)
        wanted += [request(file_by_filename=name) for name in missing]
    return _make_pool(files.data)


async def _read_one(call: Any) -> Any:
    try:
        answer = await call.read()
    finally:
        call.cancel()
    if answer is grpc.aio.EOF:
        raise Undescribed("the server ended its reflection before it had told all")
    return answer


class _Files:
    """What a server has told so far, and what was asked for."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self._size = 0
        self._asked: set[str] = set()

    def take(self, given: Iterable[bytes]) -> list[str]:
        """Take in what an answer tells. Return the files that are still to be asked for.

        Raises:
            Undescribed: it is no descriptor, or there are too many.
        """
        imported: set[str] = set()
        for data in given:
            try:
                file = FileDescriptorProto.FromString(data)
            except DecodeError as error:
                raise Undescribed(f"the server's reflection tells what is no descriptor: {error}") from None
            self._size += len(data)
            self.data[file.name] = data
            imported.update(file.dependency)
            if len(self.data) + len(imported) > 2 * _MOST_FILES or self._size > _MOST_BYTES:
                raise _too_many()
        missing = [name for name in sorted(imported - self.data.keys() - self._asked) if _own(name) is None]
        self._asked.update(missing)
        if len(self.data.keys() | self._asked) > _MOST_FILES:
            raise _too_many()
        return missing


def _too_many() -> Undescribed:
    return Undescribed(f"the server describes more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB")


@cache
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
    for name in _in_order(files):
        try:
            pool.AddSerializedFile(_find(files, name))
        except (TypeError, ValueError, KeyError) as error:
            raise Undescribed(f"the descriptors of {name} contradict others: {error}") from None
    return pool


def _in_order(files: Mapping[str, bytes]) -> Iterable[str]:
    """Yield the names of files, each behind all that it imports. They may import each other in a chain of any length.

    Raises:
        Undescribed: one is missing, or some import each other in a ring.
    """
    done: set[str] = set()
    for first in sorted(files):
        under_way = {} if first in done else {first: _imports(files, first)}
        while under_way:
            name, left = next(reversed(under_way.items()))
            needed = next((one for one in left if one not in done), None)
            if needed is None:
                del under_way[name]
                done.add(name)
                yield name
            elif needed in under_way:
                raise Undescribed(f"the descriptors import each other: {needed}")
            else:
                under_way[needed] = _imports(files, needed)


def _imports(files: Mapping[str, bytes], name: str) -> Iterator[str]:
    return iter(FileDescriptorProto.FromString(_find(files, name)).dependency)


def _find(files: Mapping[str, bytes], name: str) -> bytes:
    data = files.get(name) or _own(name)
    if data is None:
        raise Undescribed(f"the descriptors lack {name}, which they import")
    return data
