"""Finds chains, groups and chords in the source of Celery's tasks, and says how each is written here."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

_CANVAS = frozenset({"chain", "chord", "group"})
_MANY = frozenset({"map", "starmap", "chunks", "xmap", "xstarmap"})
_SUBMITS = frozenset({"delay", "apply_async"})
_WAITS = {"countdown": "delay", "eta": "run_at"}
EXAMPLE = "chain(a.s(1), b.s()).enqueue_sync()"


def tell_source(function: Callable[..., Any]) -> tuple[list[str], list[str]] | None:
    """Return what each canvas in the source of a function becomes, and how it submits tasks besides.

    None: its source is not to be had.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    names = _Names(function, tree)
    canvases = list(_outermost(tree, names))
    within = {id(part) for canvas in canvases for part in ast.walk(canvas)}
    calls = (part for part in ast.walk(tree) if isinstance(part, ast.Call) and id(part) not in within)
    submits = {name for call in calls if (name := _name_of(call.func)) in {*_SUBMITS, "send_task"}}
    return [f"line {first + node.lineno - 1}: {_tell(node, names)}" for node in canvases], sorted(submits)


class _Names:
    """What names in a function mean: other libraries have a `chain`, a `group` and a `map`, too."""

    def __init__(self, function: Callable[..., Any], tree: ast.AST) -> None:
        import celery

        self._kinds = {id(celery.chain): "chain", id(celery.chord): "chord", id(celery.group): "group"}
        self._values: dict[str, Any] = dict(getattr(function, "__globals__", {}))
        with suppress(TypeError, ValueError):
            self._values |= inspect.getclosurevars(function).nonlocals
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                is_theirs = (node.module or "").partition(".")[0] == "celery"
                for each in node.names:
                    found = getattr(celery, each.name, None) if is_theirs else None
                    self._values[each.asname or each.name] = found

    def made_by(self, func: ast.expr) -> str | None:
        """Return which of Celery's functions a call calls: `chain`, `chord` or `group`."""
        if isinstance(func, ast.Name):
            return self._kinds.get(id(self._values.get(func.id)))
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            owner = self._values.get(func.value.id)
            if isinstance(owner, ModuleType):
                return self._kinds.get(id(getattr(owner, func.attr, None)))
        return None

    def is_canvas(self, node: ast.expr) -> bool:
        """Say whether an expression is a canvas, or what is called of one."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitOr) and (
                self._is_signature(node.left) or self._is_signature(node.right)
            )
        if isinstance(node, ast.Attribute):
            return isinstance(node.value, ast.Call | ast.BinOp) and self.is_canvas(node.value)
        if not isinstance(node, ast.Call):
            return False
        return self.is_many(node) or self.made_by(node.func) is not None or self.is_canvas(node.func)

    def is_many(self, node: ast.AST) -> bool:
        """Say whether it is a call that makes many calls of a task."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        task = self._values.get(node.func.value.id) if isinstance(node.func.value, ast.Name) else None
        return node.func.attr in _MANY and hasattr(task, "apply_async")

    def _is_signature(self, node: ast.expr) -> bool:
        is_own = isinstance(node, ast.Call) and _name_of(node.func) in {"s", "si", "signature", "subtask"}
        return is_own or self.is_canvas(node)


def _outermost(node: ast.AST, names: _Names) -> Iterator[ast.expr]:
    """Yield the expressions that are canvases, each with all that is around it."""
    if isinstance(node, ast.expr) and names.is_canvas(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost(child, names)


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _tell(node: ast.expr, names: _Names) -> str:
    shown = _short(node)
    if any(names.is_many(part) for part in ast.walk(node)):
        return (
            f"{shown} still goes to Celery; here, App.workflow(…).map(…) runs a step for each item of a list, and "
            "f.enqueue_many([…]) submits many runs"
        )
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    made = sorted({kind for call in calls if (kind := names.made_by(call.func)) is not None})
    used = f", with from mainspring import {', '.join(made)}" if made else ""
    return f"{shown} still goes to Celery; write {_short(_Rewrite(names).visit(node))}{used}"


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 200 else f"{text[:199]}…"


class _Rewrite(ast.NodeTransformer):
    """Writes a canvas of Celery as one of ours."""

    def __init__(self, names: _Names) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        func = node.func
        kind = self._names.made_by(func)
        if kind is not None:
            return ast.Call(ast.Name(kind, ast.Load()), node.args, node.keywords)
        if (
            isinstance(func, ast.Call) and (kind := _name_of(func.func)) in _CANVAS
        ):  # chain(…)(…), chord(…)(body)
            if kind == "chord" and len(func.args) == 1 and node.args:
                return _submit(ast.Call(func.func, [*func.args, *node.args], []), [], [])
            return _submit(func, node.args, [])
        if isinstance(func, ast.Attribute) and func.attr in _SUBMITS and self._is_ours(func.value):
            return self._submitted(node, func)
        if isinstance(func, ast.Attribute) and func.attr == "link_error":
            return ast.Call(ast.Attribute(func.value, "on_error", ast.Load()), node.args, node.keywords)
        return node

    def _is_ours(self, node: ast.expr) -> bool:
        """Say whether what is submitted was rewritten, and is no single task."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and _name_of(node.func) in _CANVAS)

    def _submitted(self, node: ast.Call, func: ast.Attribute) -> ast.expr:
        if func.attr == "delay":
            return _submit(func.value, node.args, [])
        args: list[ast.expr] = []
        if node.args:
            first = node.args[0]
            args = (
                list(first.elts)
                if isinstance(first, ast.Tuple | ast.List)
                else [ast.Starred(first, ast.Load())]
            )
        waits = [ast.keyword(_WAITS[word.arg], word.value) for word in node.keywords if word.arg in _WAITS]
        return _submit(func.value, args, waits)


def _submit(canvas: ast.expr, args: list[ast.expr], options: list[ast.keyword]) -> ast.Call:
    if options:
        canvas = ast.Call(ast.Attribute(canvas, "options", ast.Load()), [], options)
    return ast.Call(ast.Attribute(canvas, "enqueue_sync", ast.Load()), args, [])
