"""Where the time of a test run goes, by folder: pytest itself tells of single tests only."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

_PHASES = ("setup", "call", "teardown")


def lines_by_folder(reports: Iterable[object]) -> Iterator[str]:
    """Yield a table of the folders, the one that took longest first, with seconds of all test workers together."""
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_PHASES, 0.0))
    tests: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        if isinstance(report, pytest.TestReport):
            folder = _folder_of(report.nodeid)
            seconds[folder][report.when] += report.duration
            tests[folder].add(report.nodeid)
    yield f"{'seconds':>8} {'setup':>8} {'call':>8} {'teardown':>8} {'tests':>6}"
    for folder, spent in sorted(seconds.items(), key=lambda item: -sum(item[1].values())):
        parts = " ".join(f"{spent[phase]:8.1f}" for phase in _PHASES)
        yield f"{sum(spent.values()):8.1f} {parts} {len(tests[folder]):6} {folder}"


def _folder_of(nodeid: str) -> str:
    """Return the folder below `tests`; those of the unit tests are many, and are told apart."""
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(folders[: 3 if "unit" in folders else 2])
