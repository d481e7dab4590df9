"""The examples in docs/howto/test-your-jobs.md are a suite that passes under the settings that the page shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "test-your-jobs.md"
ASYNC_TESTS = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")


def test_examples_of_the_page_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        name = block.partition("\n")[0].removeprefix("# ")
        (pytester.path / name).write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(pytester.path)
    tests = sum(len(re.findall(r"^(?:async )?def test_", block, re.MULTILINE)) for block in blocks)
    try:
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *ASYNC_TESTS)
    finally:
        sys.modules.pop("shop", None)
    assert tests > 10
    result.assert_outcomes(passed=tests)
