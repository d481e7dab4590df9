"""`make proof`: switch off each guard and see when the judge notices; write the table into the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.simulation.guards import GUARDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "guards.md"
MOST = 500
"""Seeds within which every guard must be missed."""


def try_guard(name: str, most: int = MOST) -> dict[str, Any]:
    """Return within how many seeds the loss of a guard was noticed, by which rules, with the first story."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutant", name, str(most)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_page(found: dict[str, dict[str, Any]]) -> str:
    """Return the page with the table and the stories."""
    lines = [
        "# Who checks the checker",
        "",
        "<!-- Made by `make proof` from tests/simulation/guards.py; do not edit. -->",
        "",
        "The judge must notice when a guard of the product is missing. For this page, each guard was switched off,",
        "alone or with the other guard of the same thing. Then the simulator ran until the judge found a broken rule.",
        "The seeds are those of `make simulate`, from 0 on.",
        "",
        "| without | what it protects | seeds until noticed | rules broken |",
        "|---|---|---|---|",
    ]
    for guard in GUARDS:
        result = found[guard.name]
        seeds = result["seeds"] if result["rules"] else f"not within {result['seeds']}"
        lines.append(f"| {guard.name} | {guard.protects} | {seeds} | {', '.join(result['rules'])} |")
    lines += ["", "## The stories", ""]
    for guard in GUARDS:
        story = found[guard.name]["story"]
        if story:
            lines += [f"### Without: {guard.name}", "", "```text", *story[0].splitlines()[:14], "```", ""]
    return "\n".join(lines)


def main() -> int:
    names = [guard.name for guard in GUARDS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(names, pool.map(try_guard, names), strict=True))
    for name, result in results.items():
        print(
            f"{result['seeds']:>5} seeds  {name}: {', '.join(result['rules']) or 'NOT NOTICED'}", flush=True
        )
    PAGE.write_text(write_page(results))
    return 0 if all(result["rules"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
