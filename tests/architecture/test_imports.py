"""What the contracts in .importlinter cannot say: which library lives where, and what must load late."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# library -> the modules that may import it; everybody else goes through a port
HOMES = {
    "apscheduler": ("mainspring.importers",),
    "apsw": ("mainspring.stores.sqlite",),
    "asyncpg": ("mainspring.stores.postgres",),
    "cel_expr_python": ("mainspring.expressions",),
    "celery": ("mainspring.importers",),
    "click": ("mainspring.cli",),
    "croniter": (),
    "cryptography": ("mainspring.encryption",),
    "cronsim": (),
    "httpx": (),
    "prometheus_client": ("mainspring.telemetry", "mainspring.api"),
    "rich": (),
    "sqlite3": (),
    "starlette": ("mainspring.api",),
}
# what a command that only asks a question must not pay for
LATE = (
    "aiohttp",
    "apsw",
    "asyncpg",
    "cel_expr_python",
    "cryptography",
    "prometheus_client",
    "starlette",
    "structlog",
    "uvicorn",
    "uvloop",
)


def imports() -> Iterator[tuple[str, str]]:
    """Yield (our module, top-level name of what it imports), type-checking imports included."""
    for path in sorted(SOURCE.rglob("*.py")):
        importer = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((importer, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield importer, node.module.partition(".")[0]


def test_libraries_are_imported_only_in_their_homes() -> None:
    strays = [
        f"{importer} imports {library}"
        for importer, library in imports()
        if library in HOMES and not f"{importer}.".startswith(tuple(f"{home}." for home in HOMES[library]))
    ]
    assert strays == []


@pytest.mark.parametrize("module", ["mainspring", "mainspring.cli.main"])
def test_import_does_not_load_what_is_only_needed_later(module: str) -> None:
    if not (SOURCE / "mainspring" / "cli" / "main.py").exists() or importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} does not exist yet")
    code = f"import {module}, sys; print(*sorted(set({LATE!r}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("page", "heading"),
    [("CONTRIBUTING.md", "Who may import whom"), ("docs/explanation/architecture.md", "Layers")],
)
def test_the_picture_of_the_layers_is_complete(page: str, heading: str) -> None:
    contracts = ConfigParser()
    contracts.read(SOURCE.parent / ".importlinter")
    layers = set(re.findall(r"[a-z]\w+", contracts["importlinter:contract:layers"]["layers"]))
    there = {
        name
        for name in layers
        if list((SOURCE / "mainspring").glob(f"{name}/*.py"))
        or (SOURCE / "mainspring" / f"{name}.py").exists()
    }
    _, _, section = (SOURCE.parent / page).read_text().partition(f"\n## {heading}\n")
    assert {name for name in there if not re.search(rf"\b{name}\b", section.partition("\n## ")[0])} == set()
