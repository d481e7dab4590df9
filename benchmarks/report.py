"""Where figures go: the screen, `benchmarks/results/latest.json`, and the table in `benchmarks/results/latest.md`.

A row is a dict: `name`, `value`, `unit`; where several are compared `contestant`, the value then being the median of
rounds with `low` and `high`; and `detail`, a dict of further figures. Parts that take long are measured apart: what is
new replaces the rows of its own part, each of which says when, on what and from which commit it is.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.aims import AIMS, Aim

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results"
OURS = "Mainspring"
SETTINGS = "fsync and synchronous_commit on, shared_buffers 1 GB, max_wal_size 4 GB, min_wal_size 1 GB"
"""As `scripts/services --durable` sets them."""


def print_rows(rows: Iterable[Row], *, as_json: bool = False) -> None:
    """Print figures as `name: value` lines, or one JSON object a line."""
    for row in rows:
        if as_json:
            print(json.dumps(row), flush=True)
            continue
        who = f", {row['contestant']}" if "contestant" in row else ""
        spread = f" [{row['low']:,}-{row['high']:,}]" if "low" in row else ""
        print(f"{row['name'] + who + ':':<88} {row['value']:>12,} {row['unit']}{spread}", flush=True)
        for name, value in row.get("detail", {}).items():
            print(f"    {name}: {value:,}" if isinstance(value, int | float) else f"    {name}: {value}")


def publish(part: str, rows: Sequence[Row], *, is_kept: bool = True) -> None:
    """Print what was measured, keep it in place of what this part said before, and write the table anew."""
    print_rows(rows)
    if not is_kept:
        return
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "latest.json"
    parts = json.loads(file.read_text()) if file.exists() else {}
    parts[part] = {**describe_surroundings(), "rows": list(rows)}
    file.write_text(json.dumps(parts, indent=1, sort_keys=True) + "\n")
    (RESULTS / "latest.md").write_text("\n".join(make_table(parts)) + "\n")


def describe_surroundings() -> dict[str, str]:
    """Say when this is measured, of what and on what."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "machine": f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.freedesktop_os_release()['PRETTY_NAME']}",
        "python": platform.python_version(),
        "postgresql": f"{_output('psql', '--version').rpartition(') ')[2]}, {SETTINGS}",
    }


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not to be had"  # an exported tree has no history


def make_table(parts: dict[str, Any]) -> list[str]:
    """Return the aims as lines of Markdown, each with what was measured for it."""
    lines = [
        "| what | Mainspring | beside it | aim | reached | measured |",
        "|---|---|---|---|---|---|",
    ]
    for aim in AIMS:
        rows = parts.get(aim.part, {}).get("rows", ())
        found = {row.get("contestant", OURS): row for row in rows if row["name"] == aim.name}
        if OURS in found:
            surroundings = parts[aim.part]
            lines.append(_line(aim, found, f"{surroundings['at']}, {surroundings['commit']}"))
    lines += ["", "Surroundings:", ""]
    told = {
        f"{part['machine']}; Python {part['python']}; PostgreSQL {part['postgresql']}"
        for part in parts.values()
    }
    return [*lines, *(f"- {text}" for text in sorted(told))]


def _line(aim: Aim, found: dict[str, Row], measured: str) -> str:
    ours = found[OURS]
    peers = {name: row for name, row in found.items() if name != OURS}
    beside = "; ".join(f"{name} {_figure(row)}" for name, row in peers.items()) or "-"
    target, text = aim.target({name: row["value"] for name, row in peers.items()})
    if target is None:
        reached = "not measured beside it"
    else:
        reached = (
            "yes" if aim.is_reached(ours["value"], target) else f"no: {ours['value'] / target:.2f} of it"
        )
    return f"| {aim.name} | {_figure(ours)} | {beside} | {text} | {reached} | {measured} |"


def _figure(row: Row) -> str:
    spread = f" [{row['low']:,}-{row['high']:,}]" if "low" in row else ""
    return f"{row['value']:,} {row['unit']}{spread}"
