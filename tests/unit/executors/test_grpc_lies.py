"""Servers that tell of themselves what is not so, or too much: each fails its own call, soon and in little memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import any_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from mainspring.core.outcomes import Failure
from mainspring.core.results import LeftOut, read_mark
from mainspring.executors import GrpcExecutor
from mainspring.executors._grpc.protocols import reflection_messages
from mainspring.ports.executor import Outcome, Success
from tests.support.grpc_server import SERVICE, describe, make_pool
from tests.unit.executors.attempts import make_attempt

_PACKAGE = "grpc.reflection.v1"
_MESSAGE = FieldDescriptorProto.TYPE_MESSAGE
Tell = Callable[[Any], list[bytes]]


@asynccontextmanager
async def lying(tell: Tell, answer: bytes = b"") -> AsyncIterator[int]:
    """Serve a reflection that tells what `tell` says, and a method that answers with these bytes. Give the port."""
    request, response = reflection_messages(_PACKAGE)

    async def reflect(asked: AsyncIterator[Any], context: object) -> AsyncIterator[Any]:
        async for one in asked:
            told = response()
            told.file_descriptor_response.file_descriptor_proto.extend(tell(one))
            yield told

    async def settle(message: bytes, context: object) -> bytes:
        return answer

    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    reflection = grpc.stream_stream_rpc_method_handler(
        reflect, request_deserializer=request.FromString, response_serializer=response.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                f"{_PACKAGE}.ServerReflection", {"ServerReflectionInfo": reflection}
            ),
            grpc.method_handlers_generic_handler(
                SERVICE, {"Settle": grpc.unary_unary_rpc_method_handler(settle)}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def call(tell: Tell, answer: bytes = b"") -> Outcome:
    executor = GrpcExecutor(allow=["127.0.0.0/8"])
    async with lying(tell, answer) as port:
        await executor.start()
        target = {"url": f"grpc://127.0.0.1:{port}", "method": f"{SERVICE}/Settle"}
        try:
            return await executor.execute(make_attempt(target, timeout=50))
        finally:
            await executor.stop()


async def fail(tell: Tell, answer: bytes = b"") -> Failure:
    outcome = await call(tell, answer)
    assert isinstance(outcome, Failure), outcome
    return outcome


def link(number: int, *more: str) -> bytes:
    """Return a file that imports the next one."""
    imports = [f"{number + 1}.proto", *more]
    data: bytes = FileDescriptorProto(name=f"{number}.proto", dependency=imports).SerializeToString()
    return data


def number_of(asked: Any) -> int:
    name: str = asked.file_by_filename.partition(".")[0]
    return int(name or 0)


async def test_a_chain_of_imports_without_end_is_broken_off() -> None:
    failure = await fail(lambda asked: [link(number_of(asked))])
    assert failure.error == "the server describes more than 1000 files or 16 MiB"
    assert not failure.is_retryable


async def test_a_long_chain_of_imports_is_read() -> None:
    def tell(asked: Any) -> list[bytes]:
        last = describe()
        last.dependency.append("1.proto")
        ends = FileDescriptorProto(name="950.proto", syntax="proto3").SerializeToString()
        return [last.SerializeToString(), *(link(number) for number in range(1, 950)), ends]

    assert isinstance(await call(tell), Success)


async def test_files_that_import_each_other_are_refused() -> None:
    ends = FileDescriptorProto(name="3.proto", dependency=["0.proto"]).SerializeToString()
    failure = await fail(lambda asked: [link(0), link(1), link(2), ends])
    assert failure.error == "the descriptors import each other: 0.proto"


@pytest.mark.timeout(20)  # it took a minute, and ended all the same
async def test_what_is_asked_for_in_vain_is_counted_too() -> None:
    file = FileDescriptorProto(name="0.proto", dependency=[f"{number}.proto" for number in range(1, 50_000)])
    data = file.SerializeToString()
    failure = await fail(lambda asked: [data])
    assert "describes more than 1000 files" in failure.error


@pytest.mark.timeout(20)  # it took a minute, and ended all the same
async def test_answers_that_grow_are_not_read_again_and_again() -> None:
    filler = "x" * 15_000

    def tell(asked: Any) -> list[bytes]:
        file = FileDescriptorProto.FromString(link(number_of(asked)))
        for number in range(900):
            file.message_type.add(name=f"M{number_of(asked)}x{number}")
        file.options.java_package = filler
        return [file.SerializeToString()]

    failure = await fail(tell)
    assert "describes more than" in failure.error


def swollen() -> FileDescriptorProto:
    """Return the shop's file with an answer that holds many messages of many fields with long names."""
    file = describe()
    row = file.message_type.add(name="Row")
    for number in range(1, 100):
        row.field.add(
            name=f"field_{number}_" + "x" * 200,
            number=number,
            type=FieldDescriptorProto.TYPE_STRING,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    file.dependency.append("google/protobuf/any.proto")
    reply = file.message_type[1]
    for number, (name, kind) in enumerate(
        {"rows": ".shop.v1.Row", "more": ".google.protobuf.Any"}.items(), 50
    ):
        reply.field.add(
            name=name, number=number, type=_MESSAGE, type_name=kind, label=FieldDescriptorProto.LABEL_REPEATED
        )
    return file


ROW = b"\x92\x03\x00"  # field 50, of length 0


@pytest.mark.timeout(20)  # likewise
@pytest.mark.parametrize("is_packed", [False, True])
async def test_an_answer_that_swells_as_json_is_left_out(is_packed: bool) -> None:
    answer = ROW * 500_000
    if is_packed:
        packed = any_pb2.Any(type_url="x/shop.v1.SettleReply", value=answer).SerializeToString()
        answer = b"\x9a\x03" + varint(len(packed)) + packed
    outcome = await call(lambda asked: [swollen().SerializeToString()], answer)
    assert isinstance(outcome, Success), outcome
    mark = read_mark(outcome.result)
    assert mark is not None
    assert mark.reason is LeftOut.TOO_LARGE
    assert mark.note == "the answer is more than 1,048,576 bytes of JSON; at most 65,536 can be kept"


def varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


async def test_messages_packed_in_each_other_without_end_fail_the_call() -> None:
    packed: Message = any_pb2.Any(type_url="x/shop.v1.Row")
    for _ in range(2000):
        packed = any_pb2.Any(type_url="x/google.protobuf.Any", value=packed.SerializeToString())
    data = packed.SerializeToString()
    failure = await fail(
        lambda asked: [swollen().SerializeToString()], b"\x9a\x03" + varint(len(data)) + data
    )
    assert failure.error.startswith("the answer is not what its descriptors say")


async def test_an_answer_that_is_too_long_is_not_asked_for_again() -> None:
    failure = await fail(lambda asked: [describe().SerializeToString()], b"\0" * 5_000_000)
    assert failure.error == "the method has answered with 5,000,000 bytes; a call takes at most 4,194,304"
    assert not failure.is_retryable


def test_the_shop_is_described() -> None:
    assert make_pool(describe()).FindServiceByName(SERVICE)
