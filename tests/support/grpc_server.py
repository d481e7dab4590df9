"""A real gRPC server with a service of a shop, whose messages no code was generated for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tests.support.certificates import Pair

SERVICE = "shop.v1.Orders"
_TEXT, _WHOLE, _NUMBER, _MESSAGE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_DOUBLE,
    FieldDescriptorProto.TYPE_MESSAGE,
)
_FIELDS = {"order": _TEXT, "cents": _WHOLE, "fail": _TEXT, "wait": _NUMBER}


def describe(*more: str) -> FileDescriptorProto:
    """Return the service's file; `more` are further texts that `Settle` takes and gives."""
    file = FileDescriptorProto(name="shop/v1/orders.proto", package="shop.v1", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    for name in ("SettleRequest", "SettleReply"):
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate({**_FIELDS, **dict.fromkeys(more, _TEXT)}.items(), 1):
            message.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
        due = message.field.add(
            name="due", number=99, type=_MESSAGE, label=FieldDescriptorProto.LABEL_OPTIONAL
        )
        due.type_name = ".google.protobuf.Timestamp"
    service = file.service.add(name="Orders")
    for name in ("Settle", "Follow"):
        service.method.add(
            name=name,
            input_type=".shop.v1.SettleRequest",
            output_type=".shop.v1.SettleReply",
            server_streaming=name == "Follow",
        )
    return file


def make_pool(file: FileDescriptorProto) -> DescriptorPool:
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def write_descriptors(path: Path, *, is_whole: bool = True) -> str:
    """Write the service's file as protoc does, with what it imports or without."""
    files = [describe()]
    if is_whole:
        files.insert(0, FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
    path.write_bytes(FileDescriptorSet(file=files).SerializeToString())
    return str(path)


class Orders:
    """The service, and what it was asked.

    Attributes:
        metadata: of each call.
        health: the service's own health; None where the server has no such service.
        trailing: what goes with a failure.
        is_entered: set when a call that is to wait has begun.
        is_cancelled: set when such a call was cancelled.
    """

    def __init__(self) -> None:
        self.port = 0
        self.metadata: list[dict[str, Any]] = []
        self.trailing: tuple[tuple[str, bytes], ...] = ()
        self.details = "no such order"
        self.is_entered = asyncio.Event()
        self.is_cancelled = asyncio.Event()
        self.health = health.aio.HealthServicer()
        self.reply: Any = None

    async def settle(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        self.metadata.append(dict(context.invocation_metadata() or ()))
        if request.fail:
            await context.abort(grpc.StatusCode[request.fail], self.details, self.trailing)
        if request.wait:
            self.is_entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.is_cancelled.set()
                raise
        reply = self.reply()
        reply.ParseFromString(request.SerializeToString())
        return reply

    async def set_health(self, name: str, status: str) -> None:
        await self.health.set(name, health_pb2.HealthCheckResponse.ServingStatus.Value(status))


@asynccontextmanager
async def serving(
    *,
    port: int = 0,
    pair: Pair | None = None,
    fields: tuple[str, ...] = (),
    has_reflection: bool = True,
    has_health: bool = True,
) -> AsyncIterator[Orders]:
    """Serve the shop on loopback, with TLS if there is a certificate."""
    orders, pool = Orders(), make_pool(describe(*fields))
    request = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.SettleRequest"))
    orders.reply = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.SettleReply"))
    handler = grpc.unary_unary_rpc_method_handler(
        orders.settle,
        request_deserializer=request.FromString,
        response_serializer=orders.reply.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Settle": handler}),))
    if has_health:
        health_pb2_grpc.add_HealthServicer_to_server(orders.health, server)
    if has_reflection:
        reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server, pool)
    if pair is None:
        orders.port = server.add_insecure_port(f"127.0.0.1:{port}")
    else:
        credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())])
        orders.port = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield orders
    finally:
        await server.stop(None)
