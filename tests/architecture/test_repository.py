"""What holds for the files of the repository as such."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Put together from pieces, so that this file does not contain what it forbids.
FORBIDDEN = {
    "a path of somebody's machine": re.compile(r"(?<![\w.])/" + "wor" + "k/"),
    "a package index": re.compile("pypi" + r"\.org|" + "pythonhosted" + r"\.org|" + "registry" + r"\.npmjs"),
    "an index option": re.compile("--" + "(extra-)?index-url|--" + "find-links "),
    "an unresolved merge": re.compile("^(" + "<" * 7 + "|" + ">" * 7 + ") ", re.MULTILINE),
}
EXECUTABLE = re.compile(rb"#!.*\b(?:bash|sh|python3)\b")


def repository_files() -> list[Path]:
    """Return what is tracked or would be with the next `git add`."""
    # whoever runs the tests may not be who owns the folder
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not in a git repository")
    return [ROOT / name for name in sorted(set(done.stdout.split("\0")) - {""}) if (ROOT / name).is_file()]


def project() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_no_file_names_a_machine_or_an_index() -> None:
    found = []
    for path in repository_files():
        text = path.read_bytes().decode(errors="replace")
        found += [
            f"{path.relative_to(ROOT)}: {what}" for what, word in FORBIDDEN.items() if word.search(text)
        ]
    assert found == []


def test_scripts_are_executable() -> None:
    scripts = [path for path in repository_files() if EXECUTABLE.match(path.read_bytes()[:80])]
    assert [path.name for path in scripts if not os.access(path, os.X_OK)] == []


def test_locks_hold_every_dependency_and_agree() -> None:
    table = project()
    dependencies, extras = table["dependencies"], table["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    runtime, dev = locked("runtime.lock"), locked("dev.lock")
    names = [re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0] for requirement in dependencies]
    assert [name for name in names if name not in runtime] == []
    names = [re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0] for requirement in extras["dev"]]
    assert [name for name in names if name not in dev] == []
    for extra in (
        "archive",
        "cel",
        "crypto",
        "grpc",
        "ics",
        "kubernetes",
        "login",
        "mail",
        "objects",
        "otel",
    ):
        with_extra = locked(f"{extra}.lock")
        names = [re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0] for requirement in extras[extra]]
        assert [name for name in names if name not in with_extra or name in runtime] == []
        assert runtime.items() <= with_extra.items() <= dev.items()


def test_every_lint_exception_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    ignores = text.partition("[tool.ruff.lint]")[2].partition("[tool.ruff.lint.isort]")[0]
    entries = [
        line for line in ignores.partition("ignore = [")[2].splitlines() if line.strip().startswith('"')
    ]
    bare = [line for line in entries if "#" not in line and not line.rstrip().endswith("[")]
    assert entries
    assert bare == []


def test_every_make_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## ", text, re.MULTILINE))
    declared = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    assert targets == explained == declared
