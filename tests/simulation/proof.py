"""`make proof`: switch off each guard and see when the judge notices; write the table into the docs.

Given names of guards, it tries those and writes nothing.
"""

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
    """Return within how many seeds the loss of a guard was noticed, by which rules, with the first story.

    An error that ends the simulator is not the judge's word: it counts as not noticed, and its text is the story.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.mutant", name, str(most)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return {"seeds": 0, "rules": [], "story": [done.stderr[-2000:]]}
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
        "The seeds are those of `make simulate`, from 0 on. For guards with a star, what a seed draws is changed,",
        "so that their loss shows. It is without faults, with just the loss of all workers, or with one server stopped",
        "after the other. Or it has requests that arrive late, a worker of one tenant and access tokens, workflows, or",
        "durable functions.",
        "",
        "| without | what it protects | seeds until noticed | rules broken |",
        "|---|---|---|---|",
    ]
    for guard in GUARDS:
        result = found[guard.name]
        name, rules = guard.name + "*" * bool(guard.staging), ", ".join(result["rules"])
        lines.append(f"| {name} | {guard.protects} | {result['seeds']} | {rules} |")
    lines += ["", "## The stories", ""]
    for guard in GUARDS:
        story = found[guard.name]["story"]
        if story:
            lines += [f"### Without: {guard.name}", "", "```text", *story[0].splitlines()[:14], "```", ""]
    return "\n".join(lines)


def main() -> int:
    wanted = sys.argv[1:]
    names = [guard.name for guard in GUARDS if not wanted or guard.name in wanted]
    results = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, result in zip(names, pool.map(try_guard, names), strict=True):
            results[name] = result
            rules = ", ".join(result["rules"]) or "NOT NOTICED"
            print(f"{result['seeds']:>5} seeds  {name}: {rules}", flush=True)
    missed = [name for name, result in results.items() if not result["rules"]]
    for name in missed:
        print(f"\n{name}:", *results[name]["story"], sep="\n")
    if not missed and not wanted:
        PAGE.write_text(write_page(results))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
