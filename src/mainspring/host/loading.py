"""Finds the user's app, `MODULE:APP`. As with python -m, the current folder is on the path."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from mainspring.errors import InvalidInput
from mainspring.executors.output import install

if TYPE_CHECKING:
    from mainspring.sdk.app import App

_FIELD = "MODULE:APP"
_INSTALLED = tuple(
    {f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
"""Where packages are that a user has not written. The user's own line is the one that is wrong, most often."""
_OWN_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"


def load_app(reference: str, *, keeps_output: bool = False) -> App:
    """Import an app.

    Args:
        keeps_output: keep what its functions print. Then the streams are replaced first, because modules may keep a
            reference to them, and handlers of `logging` do.
        reference: `module` or `package.module:name`; the name is `app` if it is left out.

    Raises:
        InvalidInput: there is no such module or name, the module raises an error, or the object is not an `App`.
    """
    from mainspring.sdk.app import App

    value, found = load_object(reference, "app", keeps_output=keeps_output)
    if not isinstance(value, App):
        message = f"{reference!r} is of the type {type(value).__name__}, and not a mainspring.App"
        raise InvalidInput(_FIELD, f"{message}; write app = App() in the module, or name the app that it has")
    value.load_as(found)
    return value


def load_object(reference: str, default: str, *, keeps_output: bool = False) -> tuple[object, str]:
    """Import an object, and return it with its whole reference.

    Args:
        reference: `module` or `package.module:name`.
        default: the name if it is left out.
        keeps_output: as for `load_app`.

    Raises:
        InvalidInput: there is no such module or name, or the module raises an error.
    """
    module_name, _, attribute = reference.partition(":")
    attribute = attribute or default
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise InvalidInput(_FIELD, f"{reference!r} does not have the form module:{default}")
    if module_name.endswith(".py"):
        message = f"{module_name!r} is a file; write {module_name.removesuffix('.py')}:{attribute}"
        raise InvalidInput(_FIELD, message)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if keeps_output:
        install()
    value: object = _import(module_name)
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            message = f"module {module_name!r} has no {attribute!r}; {_others_of(module_name)}"
            raise InvalidInput(_FIELD, message) from None
    return value, f"{module_name}:{attribute}"


def _import(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            message = f"there is no module {missing!r} in {Path.cwd()} or among the installed packages"
            raise InvalidInput(_FIELD, message) from None
        raise InvalidInput(_FIELD, f"{_place(error)} needs {missing!r}, which is not installed") from error
    except InvalidInput as error:  # of a definition; its field and remedy are all that the user needs
        raise InvalidInput(_place(error).rstrip(","), str(error)) from error
    except Exception as error:
        message = f"{_place(error)} raises {type(error).__name__}: {error}"
        raise InvalidInput(_FIELD, message) from error


def _others_of(module_name: str) -> str:
    """Say which other objects a module has, for somebody who named one that it has not."""
    names = [
        name
        for name, value in vars(sys.modules[module_name]).items()
        if not name.startswith("_") and not isinstance(value, type | ModuleType | FunctionType)
    ]
    if not names:
        return "write app = App() in it"
    return f"did you mean {' or '.join(f'{module_name}:{name}' for name in names[:3])}?"


def _place(error: BaseException) -> str:
    """Return where the user's own code raised the error: the last frame outside of what is installed, if any."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _OWN_FOLDER))
    ]
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno},"
    frames = [frame for frame in frames if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    frames = own or frames
    return f"{frames[-1].filename}, line {frames[-1].lineno}," if frames else "it"
