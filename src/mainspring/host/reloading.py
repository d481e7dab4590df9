"""Tells whether this process is to serve at all: the parent of a reloader, most commands, and tests are not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_WERKZEUG, _DJANGO = "WERKZEUG_RUN_MAIN", "RUN_MAIN"
"""The variables that the reloaders of Flask and Django set for the process that serves."""
_DJANGO_SERVERS = ("runserver", "runserver_plus", "testserver")
_DJANGO_SCRIPTS = ("manage.py", "django-admin", "django-admin.py")


def why_not_to_serve() -> str | None:
    """Return why this process is not to serve; None if it is.

    Other servers load the app only in the processes that serve, and call lifespans only there.
    """
    if "_pytest.main" in sys.modules:
        return "this process runs tests"
    if "mainspring.cli.main" in sys.modules:
        return "this is a command of Mainspring"
    return _of_flask() or _of_django()


def _of_flask() -> str | None:
    """Look at the command of Flask that is under way. Its parent loads the app before it starts the reloader."""
    click: Any = sys.modules.get("click")
    context = None if click is None else click.get_current_context(silent=True)
    if context is None or type(context.find_root().command).__name__ != "FlaskGroup":
        return None
    if context.info_name != "run":
        return "this command of Flask serves nothing"
    reloads = context.params.get("reload")
    if reloads is None:
        from flask.helpers import get_debug_flag

        reloads = get_debug_flag()
    return _parent() if reloads and os.environ.get(_WERKZEUG) != "true" else None


def _of_django() -> str | None:
    if Path(sys.argv[0]).name not in _DJANGO_SCRIPTS or len(sys.argv) < 2:
        return None
    if sys.argv[1] not in _DJANGO_SERVERS:
        return "this command of Django serves nothing"
    reloads = sys.argv[1] != "testserver" and "--noreload" not in sys.argv
    is_child = os.environ.get(_DJANGO) == "true" or os.environ.get(_WERKZEUG) == "true"
    return _parent() if reloads and not is_child else None


def _parent() -> str:
    return "this is the parent process of a reloader, which starts another one that serves"


class _Watch:
    """Calls functions when this process is about to start a reloader's child, and so to serve no longer.

    `web.run(debug=True)` of Flask is called after the app has been made and started, so nothing tells it in time.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def add(self, call: Callable[[], None]) -> None:
        if not self._calls:
            sys.addaudithook(self._look)
        if call not in self._calls:
            self._calls.append(call)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen":
            return
        environment = arguments[3]
        if isinstance(environment, Mapping) and environment.get(_WERKZEUG) == "true":
            for call in self._calls:
                call()


_watch = _Watch()


def call_before_reloading(call: Callable[[], None]) -> None:
    """Have a function called when this process turns out to be the parent of Flask's reloader."""
    if "werkzeug.serving" in sys.modules and os.environ.get(_WERKZEUG) != "true":
        _watch.add(call)
