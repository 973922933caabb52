"""Copy the repository's pages into one folder for the site, and mend the links that leave ``docs``.

On a code-hosting page ``docs/hosts.md`` links to ``../bench/README.md``. The site has that page under another name, so
the copy links to the other name. Files that are no pages, such as examples, are copied beside the pages.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from os.path import relpath
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

OUTSIDE_DOCS: Final[Mapping[str, str]] = {
    "README.md": "overview.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "figures.md",
    "chaos/README.md": "faults.md",
    "model/README.md": "model.md",
    "fuzz/README.md": "fuzzing.md",
    "clients/javascript/README.md": "javascript.md",
}
FILES: Final = "files"  # the staged folder for files that are no pages
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)")
_OTHER_SITE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
_FENCE: Final = re.compile(r"\s*(```|~~~)")
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) ")


def stage(root: Path, target: Path) -> None:
    """Replace the folder ``target`` with the pages and pictures of the repository ``root``."""
    shutil.rmtree(target, ignore_errors=True)
    pages = dict(OUTSIDE_DOCS)
    for path in sorted((root / "docs").rglob("*")):
        inside = path.relative_to(root / "docs").as_posix()
        if path.suffix == ".md":
            pages[f"docs/{inside}"] = inside
        elif path.suffix in {".svg", ".png", ".css"}:
            _copy(path, target / inside)
    for source, staged in pages.items():
        if (root / source).exists():
            text = mend((root / source).read_text("utf-8"), source, staged, pages, root, target)
            _write(target / staged, text)


def mend(text: str, source: str, staged: str, pages: Mapping[str, str], root: Path, target: Path) -> str:
    """Return the text of the page ``source`` as the page ``staged``: links resolved, lists set off by a blank line.

    A link to a file that is no page copies the file. A link to a folder becomes its text. A link to nothing stays as it
    is, so that the strict build names it.
    """

    def resolved(link: re.Match[str]) -> str:
        address, mark, anchor = link["target"].partition("#")
        if _OTHER_SITE.match(link["target"]):
            return link[0]
        place = normpath(str(PurePosixPath(source).parent / address))
        if place in pages:
            there = pages[place]
        elif (root / place).is_dir():
            return link["text"]
        elif not place.startswith("../") and (root / place).is_file():
            there = place.removeprefix("docs/") if place.startswith("docs/") else f"{FILES}/{place}"
            _copy(root / place, target / there)
        else:
            return link[0]
        here = str(PurePosixPath(staged).parent)
        return f"{link['image']}[{link['text']}]({relpath(there, here)}{mark}{anchor})"

    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            starts_list = _ITEM.match(line) and lines and lines[-1].strip()
            if starts_list and not _ITEM.match(lines[-1]) and not lines[-1].startswith(" "):
                lines.append("")  # Python-Markdown starts a list only after a blank line
            line = _LINK.sub(resolved, line)  # noqa: PLW2901 - the line as the site shows it
        lines.append(line)
    return "\n".join(lines) + "\n"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
