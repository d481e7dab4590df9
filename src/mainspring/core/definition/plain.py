"""The full form of a definition, and back: an exact round trip."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from mainspring.core.definition.options import OPTIONS
from mainspring.core.definition.policies import Group
from mainspring.core.fields import decode_payload, encode_payload
from mainspring.core.kinds import Words
from mainspring.core.model import JobSpec, Target
from mainspring.core.options import Option, Options
from mainspring.core.times import Durations
from mainspring.core.triggers import load_trigger, store_trigger

_REMEMBERED = 1024
"""Sets of options of which one serves all definitions: most are alike, and a scheduler holds many."""


def plain_from_spec(spec: JobSpec, show_payload: Callable[[bytes], Any] = decode_payload) -> dict[str, Any]:
    """Return the full form: dicts, lists, strings, numbers and None only.

    Args:
        show_payload: makes of a payload's JSON text what stands in the full form. An encoder that can take the text as
            it is need not decode it first.
    """
    plain: dict[str, Any] = {
        "name": spec.name,
        "target": {"type": spec.target.type, **spec.target.params},
        "trigger": store_trigger(spec.trigger),
        "payload": None if spec.payload is None else show_payload(spec.payload),
    }
    _SHARED.store_into(plain, spec)
    return plain


def spec_from_plain(plain: Mapping[str, Any]) -> JobSpec:
    """Read a full form that `plain_from_spec` wrote, of this release or an earlier one; it is trusted, not checked."""
    target = dict(plain["target"])
    payload = plain["payload"]
    try:
        options = _known[_identify(plain)]
    except KeyError:
        options = _load_options(plain)
    return JobSpec(
        name=plain["name"],
        target=Target(target.pop("type"), target),
        trigger=load_trigger(plain["trigger"]),
        payload=None if payload is None else encode_payload(payload),
        **options,
    )


_SHARED = Options(*(option for option in OPTIONS if option.name != "payload"))


def _make_identify() -> Callable[[Mapping[str, Any]], Hashable]:
    """Make what says which kept forms have the same options, in much less time than reading them takes."""
    groups = [(option.key, option.kind.options) for option in _SHARED if isinstance(option.kind, Group)]
    scalars, lists = _split(option for option in _SHARED if not isinstance(option.kind, Group))
    insides = [(key, *_split(options)) for key, options in groups]

    def identify(plain: Mapping[str, Any]) -> Hashable:
        found = [scalars(plain)]
        for key in lists:
            found.append(tuple(plain[key]))  # noqa: PERF401 - dearer for one
        for group, inner_scalars, inner_lists in insides:
            inside = plain[group]
            found.append(inner_scalars(inside))
            for key in inner_lists:
                found.append(tuple(inside[key]))  # noqa: PERF401 - the same
        return tuple(found)

    return identify


def _split(options: Iterable[Option]) -> tuple[Callable[[Mapping[str, Any]], tuple[Any, ...]], list[str]]:
    """Return what gets the values of the options whose kept form is no list, and the keys of the others."""
    every = list(options)
    lists = [option.key for option in every if isinstance(option.kind, Words | Durations)]
    return itemgetter(*(option.key for option in every if option.key not in lists)), lists


_identify = _make_identify()
_known: dict[Hashable, dict[str, Any]] = {}


def _load_options(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options but the payload, and remember them."""
    values = _SHARED.load(plain)
    try:
        identity = _identify(plain)
    except KeyError:  # an option is younger than what is kept: it has its default
        return values
    if len(_known) >= _REMEMBERED:
        _known.clear()
    _known[identity] = values
    return values
