"""The graph of a workflow as text: drawn for people, or in the languages of programs that draw graphs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from mainspring.cli.graph_drawing import Label, draw_graph
from mainspring.cli.output import print_table
from mainspring.cli.terminal import Terminal
from mainspring.core.workflows.graph import Graph
from mainspring.core.workflows.rules import StepRule

if TYPE_CHECKING:
    from mainspring.wire.workflows import GraphStepView, GraphView

WIDTH_OF_FILES = 160
"""Columns of a drawing that no terminal shows."""


def graph_of(view: GraphView) -> Graph:
    """Return the graph that an answer shows."""
    places = {step.name: place for place, step in enumerate(view.steps)}
    return Graph.of([[places[name] for name in step.after] for step in view.steps])


def print_graph(view: GraphView) -> None:
    """Draw a graph, or list its steps where the drawing has no room; then tell what is special about steps."""
    terminal = Terminal.of_output()
    width = WIDTH_OF_FILES if terminal is None else terminal.columns
    labels = [Label(step.name, step.name) for step in view.steps]
    drawing = draw_graph(graph_of(view), labels, width=width) if can_draw() else None
    if drawing is None:
        print_table(
            ("STEP", "AFTER", "RULE", "LEVEL"),
            [(one.name, ", ".join(one.after) or "-", one.rule, one.level) for one in in_order(view)],
            empty="",
        )
    else:
        for line in drawing:
            click.echo(line)
    notes = [(one.name, ", ".join(_notes(one))) for one in in_order(view) if any(_notes(one))]
    width = max((len(name) for name, _ in notes), default=0)
    if notes:
        click.echo()
    for name, note in notes:
        click.echo(f"{name.ljust(width)}  {note}")


def in_order(view: GraphView) -> Iterator[GraphStepView]:
    """Yield the steps, parents before their children."""
    steps = {step.name: step for step in view.steps}
    return (steps[name] for name in view.order)


def can_draw() -> bool:
    """Say whether the output can show the signs of which lines are made."""
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def _notes(step: GraphStepView) -> Iterator[str]:
    if step.rule != StepRule.ALL_SUCCESS:
        yield f"rule {step.rule}"
    if step.when is not None:
        yield f"when {' '.join(step.when.split())}"
    if step.allow_failure:
        yield "may fail"
    if step.at_end:
        yield "at the end"
    if step.undoes is not None:
        yield f"undoes {step.undoes}"


def write_mermaid(view: GraphView, name: str) -> Iterator[str]:
    """Yield the lines of a graph in Mermaid, which pages and repositories draw."""
    del name
    yield "flowchart LR"
    for place, step in enumerate(view.steps):
        text = "<br>".join(map(_quote_mermaid, [step.name, *_notes(step)]))
        yield f'    s{place}["{text}"]'
    places = {step.name: place for place, step in enumerate(view.steps)}
    for edge in view.edges:
        yield f"    s{places[edge.parent]} --> s{places[edge.child]}"


def _quote_mermaid(text: str) -> str:
    """Return text as it stands in a node: the signs that mean something there are written by their numbers."""
    return "".join(f"#{ord(sign)};" if sign in '"#<>&' else sign for sign in text)


def write_dot(view: GraphView, name: str) -> Iterator[str]:
    """Yield the lines of a graph in the language of Graphviz."""
    yield f"digraph {json.dumps(name, ensure_ascii=False)} {{"
    yield "    rankdir=LR; node [shape=box];"
    for step in view.steps:
        label = "\\n".join(json.dumps(one, ensure_ascii=False)[1:-1] for one in [step.name, *_notes(step)])
        yield f'    "{step.name}" [label="{label}"];'
    for edge in view.edges:
        yield f'    "{edge.parent}" -> "{edge.child}";'
    yield "}"


WRITERS: dict[str, Callable[[GraphView, str], Iterator[str]]] = {"mermaid": write_mermaid, "dot": write_dot}
"""What writes a graph, by the name of the language."""
