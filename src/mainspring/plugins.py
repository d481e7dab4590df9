"""What packages add: triggers, targets, executors and stores, found by their entry points.

A package names its objects in its metadata::

    [project.entry-points."mainspring.triggers"]
    lunar = "package.module:lunar"          # an instance of TriggerType

    [project.entry-points."mainspring.targets"]
    fax = "package.module:fax"              # an instance of TargetType

    [project.entry-points."mainspring.executors"]
    fax = "package.module:make_executor"    # called with an ExecutorContext, returns the Executor of target type `fax`

    [project.entry-points."mainspring.stores"]
    toy = "package.module:make_store"       # called with the URL, returns the Store of `toy://…`

Every process loads triggers and targets when it starts. Only workers load executors. A store is loaded by the
processes that get its URL. Its `capabilities` say, before it is opened, whether several processes may use it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from mainspring.core.definition.read import OWN_FIELDS
from mainspring.core.targets import BUILT_IN, TARGETS, TargetType
from mainspring.core.triggers import TRIGGERS, TriggerType
from mainspring.core.types import Types
from mainspring.errors import InvalidInput, PluginError
from mainspring.executors.context import ExecutorContext
from mainspring.ports.executor import Executor

if TYPE_CHECKING:
    from mainspring.ports.store import Store

TRIGGERS_GROUP = "mainspring.triggers"
TARGETS_GROUP = "mainspring.targets"
EXECUTORS_GROUP = "mainspring.executors"
STORES_GROUP = "mainspring.stores"
OWN_SCHEMES = ("postgresql", "postgres", "sqlite", "memory")

Find = Callable[[str], Iterable[EntryPoint]]
"""Returns the entry points of a group."""


class Plugins:
    """The plug-ins of the installed packages.

    Args:
        find: returns a group's entry points; by default those of all installed packages.
        triggers: where to register trigger types.
        targets: where to register target types.

    Raises:
        PluginError: a name is taken, or an object is not what its group requires.
    """

    def __init__(
        self,
        find: Find | None = None,
        *,
        triggers: Types[TriggerType] = TRIGGERS,
        targets: Types[TargetType] = TARGETS,
    ) -> None:
        wanted = find or (lambda group: entry_points(group=group))
        self._targets = targets
        self._fields = (triggers.by_field, targets.by_field)
        for entry in _sorted(wanted(TRIGGERS_GROUP)):
            self._add(triggers, entry, TriggerType)
        for entry in _sorted(wanted(TARGETS_GROUP)):
            self._add(targets, entry, TargetType)
        self._executors = {
            name: EntryPoint(name, f"mainspring.executors.{name}:make_executor", EXECUTORS_GROUP)
            for name in BUILT_IN
        }
        for entry in _sorted(wanted(EXECUTORS_GROUP)):
            _register(self._executors, entry)
            if entry.name not in targets.by_name:
                raise _error(
                    entry, f"there is no target type {entry.name!r}; add one to the group {TARGETS_GROUP}"
                )
        self._stores: dict[str, EntryPoint] = {}
        for entry in _sorted(wanted(STORES_GROUP)):
            if entry.name in OWN_SCHEMES:
                raise _error(entry, f"{entry.name}:// is Mainspring's own; choose another scheme")
            _register(self._stores, entry)

    def _add(self, types: Types[Any], entry: EntryPoint, wanted: type[Any]) -> None:
        found = _load(entry)
        if not isinstance(found, wanted):
            right = f"an instance of {wanted.__module__.rpartition('.')[0]}.{wanted.__name__}"
            hint = "; call the class" if isinstance(found, type) and issubclass(found, wanted) else ""
            raise _error(entry, f"must be {right}, not {_kind(found)}{hint}")
        if getattr(found, "name", None) != entry.name:
            message = f"its attribute `name` is {getattr(found, 'name', None)!r}; give both the same name"
            raise _error(entry, message)
        try:
            for field in found.short:
                if field in OWN_FIELDS or any(field in fields for fields in self._fields):
                    raise InvalidInput("short", f"the field {field!r} of a job is taken; choose another")
            types.add(found)
        except InvalidInput as error:
            raise _error(entry, str(error)) from error

    @property
    def schemes(self) -> tuple[str, ...]:
        """The URL schemes for which a package adds a store."""
        return tuple(self._stores)

    def make_store(self, scheme: str, url: str) -> Store:
        """Make the store for a URL, without opening it.

        Raises:
            PluginError: its factory cannot be loaded, is not callable, or does not return a store.
        """
        from mainspring.ports.store import StoreCapabilities  # costs a start, and commands make no store

        entry = self._stores[scheme]
        store: Store = _callable(entry)(url)
        if not isinstance(getattr(store, "capabilities", None), StoreCapabilities):
            right = "mainspring.ports.store.Store"
            raise _error(entry, f"must return a {right}, not {_kind(store)}")
        return store

    def is_shared(self, scheme: str, url: str) -> bool:
        """Say whether several processes may have a store at once, by its capabilities; it is made, but not opened.

        Raises:
            PluginError: as with `make_store`.
        """
        return self.make_store(scheme, url).capabilities.concurrent_writers

    def make_executors(self, context: ExecutorContext) -> dict[str, Executor]:
        """Make the executors that a worker with these settings offers, by target type.

        Raises:
            PluginError: a factory cannot be loaded, or does not make an executor of its type.
        """
        made: dict[str, Executor] = {}
        for name, entry in self._executors.items():
            switch = self._targets.by_name[name].switch
            if switch is not None and not getattr(context.settings, switch):
                continue
            executor = _callable(entry)(context)
            if not all(hasattr(executor, each) for each in ("type", "start", "execute", "stop")):
                right = "mainspring.ports.executor.Executor (type, start, execute, stop)"
                raise _error(entry, f"must return a {right}, not {_kind(executor)}")
            if executor.type != name:
                raise _error(entry, f"its executor's type is {executor.type!r}; it must be {name!r}")
            made[name] = executor
        return made


@cache
def load_plugins() -> Plugins:
    """Register what the installed packages add. Only the first call in a process does so.

    Raises:
        PluginError: a name is taken, or an object is not what its group requires.
    """
    return Plugins()


def _sorted(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return the entry points in an order that does not depend on the file system."""
    return sorted(entries, key=lambda entry: (entry.name, entry.value))


def _register(known: dict[str, EntryPoint], entry: EntryPoint) -> None:
    if entry.name in known:
        owner = _package(known[entry.name])
        raise _error(entry, f"the name {entry.name!r} is taken by {owner}; uninstall one of the two")
    known[entry.name] = entry


def _callable(entry: EntryPoint) -> Callable[..., Any]:
    found = _load(entry)
    if not callable(found):
        raise _error(entry, f"must be callable, not {_kind(found)}")
    made: Callable[..., Any] = found
    return made


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        raise _error(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error


def _error(entry: EntryPoint, message: str) -> PluginError:
    return PluginError(
        f"{_package(entry)}: {entry.name} = {entry.value} in the group {entry.group}: {message}"
    )


def _package(entry: EntryPoint) -> str:
    if entry.dist is None:
        return "mainspring"
    return f"package {entry.dist.name} {entry.dist.version}"


def _kind(found: object) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
