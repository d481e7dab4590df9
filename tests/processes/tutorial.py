"""Reads a page as its reader does: writes its files, types its commands, and compares what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ID = re.compile(r"run_[0-9a-z]{13}")


@dataclass(frozen=True, slots=True)
class FileStep:
    """A file, or a change of one."""

    name: str
    text: str
    is_continued: bool
    replaced: str

    def apply(self, before: str) -> str:
        """Return the file's text after this step."""
        if self.replaced:
            assert before.count(self.replaced) == 1, self.replaced
            return before.replace(self.replaced, self.text.rstrip("\n"))
        return f"{before}\n\n{self.text}" if self.is_continued else self.text


@dataclass(frozen=True, slots=True)
class CommandStep:
    """A command line, and what the page shows of its answer: `…` stands for anything."""

    line: str
    shown: tuple[str, ...]


def steps_of(page: str) -> Iterator[FileStep | CommandStep]:
    """Yield what the reader of a page does, in order."""
    for kind, text in _BLOCK.findall(page):
        if kind == "python":
            head, _, rest = text.partition("\n")
            found = re.fullmatch(r'# (\w+\.py)(, continued)?(?:, with "(.*)" replaced)?', head)
            assert found is not None, head
            yield FileStep(found[1], rest, bool(found[2]), found[3] or "")
            continue
        commands = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        for line, *shown in (command.rstrip("\n").split("\n") for command in commands):
            yield CommandStep(line, tuple(shown))


class Ids:
    """The ids that stand on the page, and those that the product gave instead."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def put_into(self, line: str) -> str:
        """Return a command line with the ids that the product gave."""
        return _ID.sub(lambda found: self._real[found[0]], line)

    def learn(self, shown: tuple[str, ...], answer: str) -> bool:
        """Say whether an answer has the lines that are shown, in order; if so, learn the ids in them."""
        names: list[str] = []

        def pattern(line: str) -> str:
            parts = []
            for part in re.split(r"(…|run_[0-9a-z]{13}|\s+)", line):
                if part == "…":
                    parts.append(".*")
                elif _ID.fullmatch(part) and part not in self._real and part not in names:
                    names.append(part)
                    parts.append(f"(?P<id{len(names)}>run_[0-9a-z]{{13}})")
                elif part.isspace():
                    parts.append(r"\s+")
                else:
                    parts.append(re.escape(self._real.get(part, part)))
            return "".join(parts)

        wanted = [re.compile(pattern(line)) for line in shown if line != "…"]
        lines = iter(answer.splitlines())
        learnt: dict[str, str] = {}
        for expected in wanted:
            found = next((match for line in lines if (match := expected.match(line)) is not None), None)
            if found is None:
                return False
            learnt |= {names[int(group[2:]) - 1]: real for group, real in found.groupdict().items() if real}
        self._real |= learnt
        return True
