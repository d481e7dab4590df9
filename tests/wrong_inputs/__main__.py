"""Prints the table of wrong inputs in Markdown; exit code 1 unless each verdict is `right`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.wrong_inputs.table import CASES, attempt, row, scene
from tests.wrong_inputs.trying import faults_of


def main() -> int:
    """Try every input and print what came of it."""
    wrong = 0
    print("| way | input | message | verdict |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, scene(Path(folder)) as here:
        for number, case in enumerate(CASES):
            answer = attempt(case, number, here)
            wrong += bool(faults_of(case, answer))
            print(row(case, answer, Path(folder)), flush=True)
    print(f"\n{len(CASES)} inputs, {len(CASES) - wrong} of them answered as they should be.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
