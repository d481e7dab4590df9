"""Write what is made from code, pages and a module; with --check, only say whether they are current.

.venv/bin/python scripts/generate_docs.py [--check]
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mainspring.config.setting import PROCESSES, Setting
from mainspring.config.table import GROUPS
from mainspring.core.channel_settings import CHANNEL_OPTIONS
from mainspring.core.definition.batch import BATCH
from mainspring.core.definition.limits import JOB_RATE
from mainspring.core.definition.maps import MAP
from mainspring.core.definition.once import DEBOUNCE, THROTTLE, UNIQUE
from mainspring.core.definition.options import NAME, OPTIONS
from mainspring.core.definition.policies import MISFIRE, Group
from mainspring.core.definition.retry import RETRY, RULE
from mainspring.core.definition.steps import STEP_NAME, STEP_OPTIONS
from mainspring.core.definition.waits import APPROVAL, EVENT, WAIT
from mainspring.core.options import REQUIRED, Option
from mainspring.core.states import EDGES, FINAL_STATES, READY_STATES, RunState
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import TRIGGERS
from mainspring.core.types import DefinedType
from mainspring.ports.telemetry import METRICS
from mainspring.wire.operation import Parameter
from mainspring.wire.operations import OPERATIONS

ROOT = Path(__file__).parents[1]
SDK = ROOT / "src" / "mainspring" / "sdk"
MEANINGS = {
    RunState.PENDING: "waits for its time or for a slot",
    RunState.BLOCKED: "waits for its parents or for a signal",
    RunState.RUNNING: "a worker holds a lease on it",
    RunState.RETRYING: "waits for its backoff to pass",
    RunState.SUCCEEDED: "the work is done",
    RunState.FAILED: "it used up its attempts, or may not be tried again: the dead letter queue",
    RunState.CANCELLED: "it ended because of a cancel request",
    RunState.SKIPPED: "a fire that did not become work, with the reason",
}


def state_machine() -> str:
    """Return the page on the states of a run."""
    lines = [
        "# The states of a run",
        "",
        "Every run is in exactly one of these states. Use this page to read what the API, the command line and the",
        "tables show.",
        "",
        "<!-- Made by `make docs-generate` from src/mainspring/core/states.py; do not edit. -->",
        "",
        "| state | a run in it | |",
        "|---|---|---|",
    ]
    for state in RunState:
        kind = "final" if state in FINAL_STATES else "can be claimed" if state in READY_STATES else ""
        lines.append(f"| `{state}` | {MEANINGS[state]} | {kind} |")
    lines += ["", "```mermaid", "stateDiagram-v2"]
    lines += [f"    {edge.source} --> {edge.target}" for edge in EDGES]
    lines += [f"    {state} --> [*]" for state in RunState if state in FINAL_STATES]
    lines += ["```", "", "| from | to | when |", "|---|---|---|"]
    lines += [f"| `{edge.source}` | `{edge.target}` | {edge.when} |" for edge in EDGES]
    lines += [
        "",
        "The store refuses any other change.",
        "",
        "- A first attempt that succeeds writes no attempt row; failures, losses and retries do.",
        '- "3 retries" means at most four attempts. A lost attempt counts as a crash, not as an attempt.',
        "- A run that waits to be redriven stays `FAILED`. The redrive is a new run that names the old one.",
        "",
    ]
    return "\n".join(lines)


SHOWN = re.compile(r"(<!-- Shows (\S+); [^>]*-->\n\n```\w+\n).*?(```\n)", re.DOTALL)


def shows_files(name: str) -> Callable[[], str]:
    """Make what returns a how-to page with the files in it that it says it shows."""

    def page() -> str:
        text = (ROOT / "docs" / "howto" / name).read_text()
        return SHOWN.sub(lambda found: found[1] + (ROOT / found[2]).read_text() + found[3], text)

    return page


CONFIGURATION = re.compile(
    r"(<!-- The settings, made by [^>]*-->\n).*?(<!-- End of the settings -->)", re.DOTALL
)


def configuration() -> str:
    """Return the page on settings, with the tables of all settings in it."""
    lines = []
    for title, settings in GROUPS.items():
        lines += [
            "",
            f"### {title}",
            "",
            "| setting | value | default | option | used by |",
            "|---|---|---|---|---|",
        ]
        for setting in settings:
            option = f"`{setting.flag}`" if setting.flag else ""
            users = "all" if setting.used_by == PROCESSES else ", ".join(setting.used_by)
            limits = setting.kind.limits()
            lines.append(f"| `{setting.name}` | {limits} | {_show_default(setting)} | {option} | {users} |")
        lines.append("")
        for setting in settings:
            lines += textwrap.wrap(f"- `{setting.name}`: {setting.words}", 118, subsequent_indent="  ")
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    return CONFIGURATION.sub(lambda found: found[1] + "\n".join(lines) + "\n\n" + found[2], page)


def _show_default(setting: Setting) -> str:
    if setting.default in {None, ()}:
        return setting.default_words or "none"
    plain: Any = setting.kind.show(setting.default)
    return f"`{str(plain).lower() if isinstance(plain, bool) else plain[0] if isinstance(plain, list) else plain}`"


def telemetry() -> str:
    """Return the page on what a process counts."""
    lines = [
        "# Figures",
        "",
        "<!-- Made by `make docs-generate` from src/mainspring/ports/telemetry.py; do not edit. -->",
        "",
        "Every process counts what it does. [Prometheus reads it](../howto/measure.md) at `/metrics`, where each name",
        "begins with `mainspring_`, and distributions are histograms. Servers show the figures that name no tenant in",
        "`/health`, too, under `figures`. A worker writes those that are not 0 into its log when it stops",
        "(`worker_stopped`). In code, `engine.telemetry.snapshot()` returns them. Counters start at 0 with the",
        "process.",
        "",
        "In `/health`, a figure with a label is shown as `NAME.LABEL`, and a distribution as two, `NAME_count.LABEL`",
        "and `NAME_sum.LABEL`. [Dashboards](../howto/alert.md) show all of them.",
        "",
        "| figure | kind | label | what it means | what to do |",
        "|---|---|---|---|---|",
    ]
    advice: dict[str, str] = tomllib.loads((ROOT / "scripts" / "figures.toml").read_text())
    if advice.keys() != METRICS.keys():
        wrong = ", ".join(sorted(advice.keys() ^ METRICS.keys()))
        raise SystemExit(f"scripts/figures.toml and METRICS differ in: {wrong}")
    lines += [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.words} | {advice[metric.name]} |"
        for metric in METRICS.values()
    ]
    return "\n".join([*lines, ""])


MADE = re.compile(
    r"(<!-- (\w+) from src/mainspring/wire/operations, [^>]*-->\n\n).*?(<!-- End\. -->\n)", re.DOTALL
)


def http_api() -> str:
    """Return the page on the HTTP API, with the tables in it that come from the table of operations."""
    tables = {"Routes": routes, "Queries": queries}
    page = (ROOT / "docs" / "reference" / "http-api.md").read_text()
    return MADE.sub(lambda found: f"{found[1]}{tables[found[2]]()}\n{found[3]}", page)


def routes() -> str:
    lines = ["| route | does | right | answers |", "|---|---|---|---|"]
    for operation in OPERATIONS:
        if operation.is_described:
            statuses = ", ".join(map(str, operation.statuses))
            route = f"`{operation.method} {operation.path}`"
            lines.append(f"| {route} | {operation.description} | {operation.right} | {statuses} |")
    return "\n".join(lines) + "\n"


def _shown(number: int) -> str:
    """Write a number as the pages do."""
    return "2^31-1" if number == 2**31 - 1 else f"{number:,}"


def queries() -> str:
    places: dict[Parameter, list[str]] = {}
    for operation in OPERATIONS:
        for parameter in operation.query if operation.is_described else ():
            places.setdefault(parameter, []).append(f"`{operation.path.removeprefix('/api/v1')}`")
    lines = ["| parameter | of | default | |", "|---|---|---|---|"]
    for parameter, paths in places.items():
        default = "required" if parameter.is_required else ""
        if parameter.default is not None:
            default = f"`{parameter.default}`"
        bounds = "" if parameter.bounds is None else " From {} to {}.".format(*map(_shown, parameter.bounds))
        lines.append(
            f"| `{parameter.name}` | {', '.join(paths)} | {default} | {parameter.description}{bounds} |"
        )
    return "\n".join(lines) + "\n"


DESCRIBED = re.compile(
    r"(<!-- Made by `make docs-generate` from ([a-z-]+);[^>]*-->\n\n).*?(\n<!-- end -->)", re.DOTALL
)


def job_definition() -> str:
    """Return the page on a job's definition, with the tables that its descriptions make."""
    page = (ROOT / "docs" / "reference" / "job-definition.md").read_text()
    tables = {
        "targets": lambda: _forms(TARGETS),
        "triggers": lambda: _forms(TRIGGERS),
        "steps": lambda: _table([STEP_NAME, *STEP_OPTIONS]),
        "map": lambda: _table(MAP.options),
        "wait": lambda: _table(WAIT.options),
        "approval": lambda: _table(APPROVAL.options),
        "event": lambda: _table(EVENT.options),
        "options": lambda: _table([NAME, *OPTIONS, JOB_RATE]),
        "retry": lambda: _table(RETRY.options),
        "retry-rules": lambda: _table(RULE),
        "misfire": lambda: _table(MISFIRE.options),
        "unique": lambda: _table(UNIQUE.options),
        "debounce": lambda: _table(DEBOUNCE.options),
        "throttle": lambda: _table(THROTTLE.options),
        "batch": lambda: _table(BATCH.options),
    }
    return DESCRIBED.sub(lambda found: found[1] + tables[found[2]]() + found[3], page)


def channels() -> str:
    """Return the page on channels, with the tables of their settings."""
    page = (ROOT / "docs" / "reference" / "channels.md").read_text()
    parts = [f'### `"kind": "{kind}"`\n\n{_table(options)}' for kind, options in CHANNEL_OPTIONS.items()]
    return DESCRIBED.sub(lambda found: found[1] + "\n".join(parts) + found[3], page)


def _table(options: Iterable[Option]) -> str:
    lines = ["| field | default | values | meaning |", "|---|---|---|---|"]
    for option in options:
        fields = f"`{option.forms[0]}`"
        meaning = " ".join(filter(None, (option.summary, option.detail)))
        lines.append(f"| {fields} | {_default(option)} | {option.kind.limits()} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(option: Option) -> str:
    if option.default is REQUIRED:
        return "required"
    if option.default is None:
        return "none"
    if isinstance(option.kind, Group):
        return "see below"
    shown = option.kind.show(option.default)
    return f"`{shown}`" if isinstance(shown, str) else f"`{json.dumps(shown)}`"


def _forms(types: Iterable[DefinedType]) -> str:
    parts = []
    for one in types:
        shorts = {name: field for field, name in one.short.items()}
        lines = [f'### `"type": "{one.name}"`', "", one.summary, ""]
        lines += ["| field | short form | default | values | meaning |", "|---|---|---|---|---|"]
        for option in one.options:
            names = " or ".join(f"`{form}`" for form in option.forms)
            short = f"`{shorts[option.name]}`" if option.name in shorts else ""
            meaning = " ".join(filter(None, (option.summary, option.detail)))
            lines.append(f"| {names} | {short} | {_default(option)} | {option.kind.limits()} | {meaning} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def sync_client() -> str:
    """Return the module of `SyncClient`: a method for each that `AsyncClient` has, which waits."""
    trees = [
        ast.parse(SDK.joinpath(name).read_text())
        for name in (
            "client.py",
            "definition_calls.py",
            "dead_calls.py",
            "owner_calls.py",
            "access_calls.py",
            "audit_calls.py",
            "monitor_calls.py",
            "objective_calls.py",
            "capacity_calls.py",
            "usage_calls.py",
            "archive_calls.py",
            "artifact_calls.py",
            "checkpoint_calls.py",
            "artifact_files.py",
            "event_calls.py",
            "alert_calls.py",
            "log_calls.py",
            "workflow_calls.py",
            "answer_calls.py",
            "run_log_calls.py",
        )
    ]
    nodes = [node for tree in trees for node in tree.body]
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    constants = [ast.unparse(node) for node in nodes if isinstance(node, ast.Assign)]
    calls = [call for node in nodes if isinstance(node, ast.ClassDef) for call in node.body]
    methods = [_waiting(call) for call in calls if isinstance(call, ast.AsyncFunctionDef)]
    text = SYNC_HEAD.format(imports="\n".join(imports), constants="\n".join(constants)) + "\n".join(methods)
    for command in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "sync_client.py", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def _waiting(method: ast.AsyncFunctionDef) -> str:
    """Return a method of the same arguments that waits for the answer of a client's."""
    given = method.args
    passed = [argument.arg for argument in (*given.posonlyargs, *given.args)][1:]
    passed += [f"{argument.arg}={argument.arg}" for argument in given.kwonlyargs]
    passed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    assert method.returns is not None
    summary = ast.get_docstring(method, clean=False)
    return "\n".join(
        (
            f"    def {method.name}({ast.unparse(given)}) -> {ast.unparse(method.returns)}:",
            f'        """{summary}"""',
            f"        return self._perform(lambda client: client.{method.name}({', '.join(passed)}))",
            "",
        )
    )


SYNC_HEAD = '''"""All routes of the HTTP API as typed methods, for code without an event loop.

Made by `make docs-generate` from `mainspring.sdk.client`; do not edit.
"""

{imports}
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeVar
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.lists import Lists

T = TypeVar("T")
{constants}


class Perform(Protocol):
    """Makes calls with a client while the calling thread waits."""

    def __call__(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]], /) -> T: ...


class SyncClient(Lists):
    """A server's API, for one tenant, as `AsyncClient` has it. `App.sync` is one.

    Args:
        perform: makes a call, and returns its answer.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

'''

PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "explanation" / "state_machine.md": state_machine,
    ROOT / "docs" / "howto" / "extend.md": shows_files("extend.md"),
    ROOT / "docs" / "howto" / "write-a-worker.md": shows_files("write-a-worker.md"),
    ROOT / "docs" / "reference" / "configuration.md": configuration,
    ROOT / "docs" / "reference" / "telemetry.md": telemetry,
    ROOT / "docs" / "reference" / "http-api.md": http_api,
    ROOT / "docs" / "reference" / "channels.md": channels,
    ROOT / "docs" / "reference" / "job-definition.md": job_definition,
    SDK / "sync_client.py": sync_client,
}


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = [path for path, make in PAGES.items() if not path.exists() or path.read_text() != make()]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not current: make docs-generate", file=sys.stderr)
        else:
            path.write_text(PAGES[path]())
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
