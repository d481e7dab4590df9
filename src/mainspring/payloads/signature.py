"""The annotations of a function, and its arguments and results by them."""

from __future__ import annotations

import inspect
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from mainspring.payloads.codec import Codec
from mainspring.signals import Call


@dataclass(slots=True)
class _Codecs:
    """The codecs of a function's parameters; those of a name are also in `positional`, by their place.

    Attributes:
        rest, others: of what `*rest` and `**others` collect.
        result: of what the function returns.
        item: of the payloads that the function of a batched job gets.
    """

    positional: list[tuple[str, Codec | None]] = field(default_factory=list)
    named: dict[str, Codec] = field(default_factory=dict)
    rest: tuple[str, Codec] | None = None
    others: Codec | None = None
    result: Codec | None = None
    item: Codec | None = None
    names: frozenset[str] = frozenset()
    has_to_read: bool = True


class FunctionTypes:
    """The annotations of a function. They are resolved when they are first needed, as they may name what comes later.

    Args:
        call: the function.
        signature: its signature.
    """

    __slots__ = ("_call", "_known", "_signature")

    def __init__(self, call: Callable[..., Any], signature: inspect.Signature) -> None:
        self._call = call
        self._signature = signature
        self._known: _Codecs | None = None

    @property
    def result(self) -> Codec | None:
        """The codec of what the function returns; None if it has no annotation."""
        return self._codecs().result

    @property
    def item(self) -> Codec | None:
        """The codec of `T` if the function takes a `list[Call[T]]`."""
        return self._codecs().item

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments that fit the signature as JSON values.

        Raises:
            InvalidInput: one of them does not fit its annotation; the field is its name.
        """
        codecs = self._codecs()
        named = {name: self.encode_one(name, value) for name, value in kwargs.items()}
        return [_encode(value, *_codec_at(codecs, place)) for place, value in enumerate(args)], named

    def encode_at(self, place: int, value: object) -> object:
        """Do the same for one argument at a place."""
        return _encode(value, *_codec_at(self._codecs(), place))

    def encode_one(self, name: str, value: object) -> object:
        """Do the same for one argument with a name."""
        codecs = self._codecs()
        return _encode(value, name, codecs.named.get(name) if name in codecs.names else codecs.others)

    def decode(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return JSON values as the arguments that the annotations say.

        Raises:
            InvalidInput: one of them does not fit; the field is its name.
        """
        codecs = self._known or self._codecs()
        if not codecs.has_to_read:
            return args, keywords
        read = [_decode(value, *_codec_at(codecs, place)) for place, value in enumerate(args)]
        for name, value in keywords.items():
            codec = codecs.named.get(name) if name in codecs.names else codecs.others
            keywords[name] = _decode(value, name, codec)
        return tuple(read), keywords

    def _codecs(self) -> _Codecs:
        if self._known is None:
            self._known = _compile(self._signature, _resolve(self._call, self._signature))
        return self._known


def types_of(call: Callable[..., Any], signature: inspect.Signature | None) -> FunctionTypes | None:
    """Return the annotations of a function; None if there is nothing to read or to check by them."""
    if signature is None:
        return None
    annotations = [parameter.annotation for parameter in signature.parameters.values()]
    if all(one is inspect.Parameter.empty for one in [*annotations, signature.return_annotation]):
        return None
    return FunctionTypes(call, signature)


def _codec_at(codecs: _Codecs, place: int) -> tuple[str, Codec | None]:
    """Return the name and the codec of the argument at a place."""
    if place < len(codecs.positional):
        return codecs.positional[place]
    if codecs.rest is None:
        return "payload", None
    name, codec = codecs.rest
    return f"{name}[{place - len(codecs.positional)}]", codec


def _encode(value: object, name: str, codec: Codec | None) -> object:
    return value if codec is None else codec.encode(value, name)


def _decode(value: object, name: str, codec: Codec | None) -> object:
    return value if codec is None or codec.is_plain else codec.decode(value, name)


def _compile(signature: inspect.Signature, hints: Mapping[str, Any]) -> _Codecs:
    codecs = _Codecs()
    for name, parameter in signature.parameters.items():
        hint = hints.get(name, Any)
        codec = None if hint is Any or hint is object else _codec_of(hint, parameter)
        if parameter.kind is parameter.VAR_POSITIONAL:
            codecs.rest = (name, codec) if codec is not None else None
        elif parameter.kind is parameter.VAR_KEYWORD:
            if typing.get_origin(hint) is typing.Unpack:
                _add_fields(codecs, typing.get_args(hint)[0])
            else:
                codecs.others = codec
        else:
            if parameter.kind is not parameter.KEYWORD_ONLY:
                codecs.positional.append((name, codec))
            if parameter.kind is not parameter.POSITIONAL_ONLY and codec is not None:
                codecs.named[name] = codec
            codecs.names |= {name}
    codecs.item = _item_of(hints[name] for name in list(signature.parameters)[:1] if name in hints)
    codecs.result = Codec(hints["return"]) if "return" in hints else None
    found = [*codecs.named.values(), codecs.others, *(codec for _, codec in codecs.positional)]
    found.append(codecs.rest[1] if codecs.rest else None)
    codecs.has_to_read = any(codec is not None and not codec.is_plain for codec in found)
    return codecs


def _codec_of(hint: Any, parameter: inspect.Parameter) -> Codec | None:
    if typing.get_origin(hint) is typing.Unpack:
        return None
    return Codec(hint, default=parameter.default)


def _add_fields(codecs: _Codecs, kind: Any) -> None:
    """Take the fields of a TypedDict for parameters: `**options: Unpack[Options]`."""
    for name, hint in typing.get_type_hints(kind).items():
        codecs.named[name] = Codec(hint)
        codecs.names |= {name}


def _item_of(hints: typing.Iterable[Any]) -> Codec | None:
    for hint in hints:
        if typing.get_origin(hint) in {list, abc.Sequence}:
            [one] = typing.get_args(hint)
            if typing.get_origin(one) is Call and typing.get_args(one)[0] is not Any:
                return Codec(typing.get_args(one)[0])
    return None


def _resolve(call: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Return the annotations by name, `return` for the result's. Text that names what is not known stays text."""
    given = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    given["return"] = signature.return_annotation
    space = _globals_of(call)
    hints: dict[str, Any] = {}
    for name, annotation in given.items():
        if annotation is inspect.Parameter.empty:
            continue
        try:
            hint = _evaluate(annotation, space)
        except Exception:  # noqa: BLE001 -- it is code of the user's
            hint = annotation if isinstance(annotation, str) else Any
        hints[name] = hint
    return hints


def _evaluate(annotation: Any, space: dict[str, Any]) -> Any:
    holder: Any = SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, space, include_extras=True)["it"]


def _globals_of(call: Any) -> dict[str, Any]:
    while isinstance(call, partial):
        call = call.func
    call = inspect.unwrap(call)
    if not inspect.isroutine(call):
        call = getattr(call, "__call__", call)  # noqa: B004 -- its method is wanted, not whether it can be called
    call = getattr(call, "__func__", call)
    return dict(getattr(call, "__globals__", {}))
