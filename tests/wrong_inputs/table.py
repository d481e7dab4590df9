"""All wrong inputs, the scene in which they are tried, and the table of what came of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes.processes import server
from tests.wrong_inputs import calls, lines
from tests.wrong_inputs.trying import Answer, Case, Scene, faults_of

SUPPORT = Path(__file__).parents[1] / "support"
CASES = [
    *lines.COMMANDS,
    *lines.DSNS,
    *lines.CRON,
    *lines.FILES,
    *calls.DEFINITIONS,
    *calls.CALLS,
    *calls.REQUESTS,
]
_ENABLED = {
    "MAINSPRING_EXECUTORS_GRPC_ENABLED": "true",
    "MAINSPRING_EXECUTORS_CONTAINER_ENABLED": "true",
    "MAINSPRING_EXECUTORS_KUBERNETES_ENABLED": "true",
    "MAINSPRING_EXECUTORS_KUBERNETES_KUBECONFIG": str(SUPPORT / "kubernetes" / "config.json"),
    "MAINSPRING_EXECUTORS_CONTAINER_PROGRAM": "true",  # which every host has, and no case gets as far as that
}
_SHOP = """from mainspring import App

app = App()


@app.job()
def add(x: int, y: int = 0) -> int:
    return x + y


@app.job()
def take(**anything: object) -> None: ...
"""


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Serve an app with two jobs."""
    (folder / "counter.py").write_text(_SHOP)
    with server("counter:app", cwd=folder, **_ENABLED) as (_, url):
        yield Scene(folder, url)


def attempt(case: Case, number: int, scene: Scene) -> Answer:
    """Give one input, in a folder of its own."""
    folder = scene.folder / f"input-{number}"
    folder.mkdir()
    return case.trial.answer(Scene(folder, scene.server))


def row(case: Case, answer: Answer, folder: Path) -> str:
    """Return a row of the table: surface, input, message, verdict."""
    told = [line for line in answer.text.splitlines() if line.strip()]
    message = " ".join(told).replace(str(folder), "…")
    verdict = "; ".join(faults_of(case, answer)) or "right"
    cells = (case.surface, f"`{case.trial.shown}`", message, verdict)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
