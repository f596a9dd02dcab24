"""Rule pages, taken apart."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

HEADINGS = (
    "What it does",
    "Why it is wrong",
    "Example",
    "Use instead",
    "When it stays silent",
    "Known limits",
    "Fix safety",
    "References",
)
TITLE = re.compile(r'title="([^"]+)"')
SHOWS = re.compile(r"^`dpcheck verify (.*)train\.py` shows it[.:]", re.MULTILINE)
CANNOT_SHOW = re.compile(r"^(- )?`dpcheck verify` cannot show this: \w", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Section:
    """A level-two heading, what stands below it, and the files that its Python blocks make up."""

    heading: str
    text: str
    files: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Page:
    title: str
    sections: tuple[Section, ...]

    def section(self, heading: str) -> Section:
        return next(section for section in self.sections if section.heading == heading)

    @property
    def proof(self) -> list[str] | None:
        """The options with which `dpcheck verify` shows the example's defect; None where the page names no command."""
        match = SHOWS.search(self.section("Example").text)
        return match[1].split() if match else None

    @property
    def says_unprovable(self) -> bool:
        """Whether the page says that `dpcheck verify` cannot show the defect."""
        return CANNOT_SHOW.search(self.section("Known limits").text) is not None


def parse(text: str) -> Page:
    """Take a page apart. A Python block is the file that its `title` names, train.py without one."""
    title = ""
    sections: list[Section] = []
    fence = name = ""
    body: list[str] = []
    prose: list[str] = []
    for line in text.splitlines():
        if fence:
            if line.strip() == fence:
                if name:
                    files = sections[-1].files
                    assert name not in files, f"two blocks of {sections[-1].heading!r} are called {name}"
                    files[name] = "\n".join(body) + "\n"
                fence, body = "", []
            else:
                body.append(line)
        elif line.startswith("```"):
            fence = "```"
            language, _, rest = line[3:].partition(" ")
            match = TITLE.search(rest)
            name = (match[1] if match else "train.py") if language == "python" else ""
        elif line.startswith("# "):
            title = line[2:]
        elif line.startswith("## "):
            prose = []
            sections.append(Section(line[3:], "", {}))
        elif sections:
            prose.append(line)
            sections[-1] = dataclasses.replace(sections[-1], text="\n".join(prose).strip())
    return Page(title, tuple(sections))


def write(files: dict[str, str], folder: Path) -> None:
    """Lay the files of a section out in a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
