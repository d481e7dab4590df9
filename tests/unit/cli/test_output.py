"""What users, jobs and servers elsewhere have written steers no terminal on which it is told."""

import pytest

from mainspring.cli.commands.run_detail import print_text
from mainspring.cli.output import print_fields, print_table

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x9b31mc\x08\r"


def is_tame(text: str) -> bool:
    return all(letter.isprintable() or letter in "\n\t" for letter in text)


def test_tables_and_fields_hold_no_codes(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "WHY"), [(HOSTILE, {"key": HOSTILE}), ("plain", None)], empty="")
    print_fields({"error": HOSTILE, "payload": [HOSTILE]})
    told = capsys.readouterr().out
    assert is_tame(told)
    assert "error    ab31mc\n" in told


def test_output_and_errors_hold_no_codes(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("output", f"one\n\ttwo {HOSTILE}\n")
    told = capsys.readouterr().out
    assert is_tame(told)
    assert told == "\noutput:\none\n\ttwo ab31mc\n"
