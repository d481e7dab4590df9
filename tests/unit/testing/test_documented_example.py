"""The example in docs/howto/test-your-jobs.md is a test that passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "test-your-jobs.md"


async def test_example_of_the_page_passes() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    await names["test_report_is_sent_every_morning"]()
