"""The pages make a site, without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deployment.compose import ROOT


@pytest.mark.timeout(300)
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    command = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-c", "docs"]
    folders = ["-d", str(tmp_path / "read"), ".", str(tmp_path / "site")]
    made = subprocess.run(
        [sys.executable, *command, *folders], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")
    first = (tmp_path / "site" / "docs" / "index.html").read_text()
    missing = [
        page.stem for page in (ROOT / "docs" / "howto").glob("*.md") if f"howto/{page.stem}.html" not in first
    ]
    assert missing == []
