"""One class name has one meaning: no two public classes of the package share one."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mainspring"
CONFORMANCE = SOURCE / "testing" / "conformance"
"""Its classes are named after what they test; nobody imports them by name but the suite."""

APART = {"Call": "users' functions get a Call of a batch; the Call of a request never leaves the API"}
"""Names that two classes have whose readers never meet."""


def public_classes() -> dict[str, list[str]]:
    """Return where each public class of the package is defined, by name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(CONFORMANCE):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(SOURCE).as_posix())
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: places for name, places in public_classes().items() if len(places) > 1}
    assert {name: places for name, places in shared.items() if name not in APART} == {}
