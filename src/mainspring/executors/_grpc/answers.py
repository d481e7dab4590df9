"""How large an answer would be as JSON: a server may have described it so that few bytes become very many."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

LONGEST_JSON = 1 << 20
"""Bytes of JSON that an answer may come to. Of a result, 64 KiB are kept."""
_ANY = "google.protobuf.Any"
_OWN = "google.protobuf."


class Swollen(Exception):
    """An answer comes to more than `LONGEST_JSON`."""


def check_size(message: Any, pool: DescriptorPool) -> None:
    """Refuse a message that is far too large as JSON, without making the JSON.

    Raises:
        Swollen: it is.
    """
    size = 0
    for part in _walk(message, pool):
        size += part
        if size > LONGEST_JSON:
            raise Swollen


def _walk(message: Any, pool: DescriptorPool) -> Iterator[int]:
    """Yield the least sizes of a message's parts."""
    kind = message.DESCRIPTOR
    yield _size_of_names(kind)
    if kind.full_name == _ANY:
        yield from _walk_packed(message, pool)
        return
    for field, value in message.ListFields():
        if field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
            yield from map(_size_of_text, [value] if isinstance(value, str | bytes) else value)
        elif field.message_type is None:
            yield 2 * len(value) if hasattr(value, "__len__") else 1
        elif field.message_type.GetOptions().map_entry:
            yield from _walk_map(field, value, pool)
        else:
            for one in [value] if hasattr(value, "DESCRIPTOR") else value:
                yield from _walk(one, pool)


def _walk_map(field: Any, value: Any, pool: DescriptorPool) -> Iterator[int]:
    of_messages = field.message_type.fields_by_name["value"].message_type is not None
    for key in value:
        yield len(str(key)) + 5
        if of_messages:
            yield from _walk(value[key], pool)
        elif isinstance(value[key], str | bytes):
            yield len(value[key])


def _walk_packed(message: Any, pool: DescriptorPool) -> Iterator[int]:
    """Yield the parts of the message that another one holds. If its type is not known, making JSON fails soon."""
    try:
        described = pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
    except KeyError:
        return
    packed = message_factory.GetMessageClass(described)()
    packed.ParseFromString(message.value)
    yield from _walk(packed, pool)


def _size_of_text(text: str | bytes) -> int:
    return len(text) + 2


@lru_cache(1024)
def _size_of_names(kind: Any) -> int:
    """Return the size of what stands in JSON for each message of a type: the fields that always do."""
    if kind.full_name.startswith(_OWN):
        return 2
    return 2 + sum(len(field.json_name) + 5 for field in kind.fields if not field.has_presence)
