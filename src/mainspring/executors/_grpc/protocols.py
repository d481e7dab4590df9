"""The messages of gRPC's own services, which would otherwise need a package each.

They are described here field by field, as `grpc/health/v1`, `grpc/reflection` and `google/rpc` have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import any_pb2, duration_pb2, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

_Fields = Mapping[str, tuple[int, str]]
_STRING, _BYTES, _INT, _MESSAGE = (
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_BYTES,
    FieldDescriptorProto.TYPE_INT32,
    FieldDescriptorProto.TYPE_MESSAGE,
)
_PLAIN = {"string": _STRING, "bytes": _BYTES, "int32": _INT}
REFLECTIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""The packages of reflection, the newest first."""
SERVING, NOT_SERVING = 1, 2


@cache
def health_messages() -> tuple[type[Any], type[Any]]:
    """Return the request and the response of `grpc.health.v1.Health/Check`."""
    pool = _make_pool(
        "grpc.health.v1",
        {
            "HealthCheckRequest": {"service": (1, "string")},
            "HealthCheckResponse": {"status": (1, "int32")},  # an enum, which is on the wire what a number is
        },
    )
    return _classes(pool, "grpc.health.v1", "HealthCheckRequest", "HealthCheckResponse")


@cache
def reflection_messages(package: str) -> tuple[type[Any], type[Any]]:
    """Return the request and the response of a package's `ServerReflection/ServerReflectionInfo`."""
    pool = _make_pool(
        package,
        {
            "FileDescriptorResponse": {"file_descriptor_proto": (1, "repeated bytes")},
            "ErrorResponse": {"error_code": (1, "int32"), "error_message": (2, "string")},
            "ServerReflectionRequest": {
                "host": (1, "string"),
                "file_by_filename": (3, "string"),
                "file_containing_symbol": (4, "string"),
            },
            "ServerReflectionResponse": {
                "file_descriptor_response": (4, "FileDescriptorResponse"),
                "error_response": (7, "ErrorResponse"),
            },
        },
    )
    return _classes(pool, package, "ServerReflectionRequest", "ServerReflectionResponse")


@cache
def status_messages() -> tuple[type[Any], type[Any]]:
    """Return `google.rpc.Status` and `google.rpc.RetryInfo`."""
    pool = _make_pool(
        "google.rpc",
        {
            "Status": {
                "code": (1, "int32"),
                "message": (2, "string"),
                "details": (3, "repeated .google.protobuf.Any"),
            },
            "RetryInfo": {"retry_delay": (1, ".google.protobuf.Duration")},
        },
        (any_pb2, duration_pb2),
    )
    return _classes(pool, "google.rpc", "Status", "RetryInfo")


def _make_pool(
    package: str, messages: Mapping[str, _Fields], imports: tuple[Any, ...] = ()
) -> DescriptorPool:
    pool = DescriptorPool()
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for module in imports:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        file.dependency.append(module.DESCRIPTOR.name)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, text) in fields.items():
            kind = text.removeprefix("repeated ")
            added = message.field.add(name=field, number=number, type=_PLAIN.get(kind, _MESSAGE))
            added.label = added.LABEL_OPTIONAL if kind == text else added.LABEL_REPEATED
            if kind not in _PLAIN:
                added.type_name = kind if kind.startswith(".") else f".{package}.{kind}"
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _classes(pool: DescriptorPool, package: str, first: str, second: str) -> tuple[type[Any], type[Any]]:
    return (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{first}")),
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{second}")),
    )
