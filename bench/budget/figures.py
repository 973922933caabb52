"""Compare measured figures with ``budget.toml``, with what it said before, and with ``docs/decisions.md``.

A figure has a key, the path to it in the file: ``package.cli.python``, ``calls.3.11.read``. ``budget.toml`` says what
every section holds.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.budget.size import LONGEST, objects_without_docstring

FILE: Final = "budget.toml"
ROOT: Final = Path(__file__).resolve().parents[2]
ROOM: Final = {"waited": 1.01, "calls": 1.05, "served": 1.1, "modules": 1.0, "cpu": 1.2}
"""How far above its figure a measurement may be, by a word of the key. Lines, nodes and objects have no room."""
SETTLED: Final = {"calls": 0.995, "served": 0.9, "cpu": 0.9}
"""The share of its figure below which a noisy measurement lowers it, by a part of the key."""
_FLOORS: Final = ("docstrings.",)
_HEADING: Final = re.compile(r"^#{2,4} +(.+?) *$", re.MULTILINE)
_ROW: Final = re.compile(r'^(?P<name>"[^"]+"|[\w-]+) = (?P<value>.+)$')

Figures = dict[str, Any]


def read(root: Path) -> tuple[Figures, dict[str, str]]:
    """Return the figures of ``budget.toml`` by their keys, and the headings that explain raised ones."""
    return parse((root / FILE).read_text("utf-8"))


def parse(text: str) -> tuple[Figures, dict[str, str]]:
    """Return the figures in the text of a budget by their keys, and the headings under ``[why]``."""
    table = tomllib.loads(text)
    why = table.pop("why", {})
    return dict(_flat("", table)), why


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def limit(key: str, figure: Any) -> Any:
    """Return the highest measurement that a figure permits."""
    room = next((room for word, room in ROOM.items() if word in key.replace(" ", ".").split(".")), None)
    return figure if room is None else figure * room


def is_worse(key: str, new: Any, old: Any) -> bool:
    """Return True if ``new`` permits what ``old`` does not. Of ruff's settings, only fewer exceptions are no change."""
    if isinstance(new, list) and isinstance(old, list) and "ignore" in key:
        return not set(new) <= set(old)
    if key.startswith("ruff."):
        return bool(new != old)
    return bool(new < old if key.startswith(_FLOORS) else new > old)


# --- Measured beside the file ------------------------------------------------------------------------


def grown(root: Path, measured: Figures, figures: Figures) -> list[str]:
    """Return a sentence for each measurement without a figure or above it, and each of ruff's rules that is gone."""
    pinned = [
        key for key in figures if key.startswith("ruff.") and "ignore" not in key and "ruff.line-length" in measured
    ]
    gone = [key for key in pinned if key not in measured]
    return [
        *(f"pyproject.toml: tool.ruff: {key[5:]}: it is gone, {FILE} has {figures[key]!r}" for key in gone),
        *(
            _sentence(root, key, value, figures.get(key))
            for key, value in measured.items()
            if key not in figures or is_worse(key, value, limit(key, figures[key]))
        ),
    ]


def _sentence(root: Path, key: str, value: Any, figure: Any) -> str:
    section, _, name = key.partition(".")
    if section == "ruff":
        change = f"{sorted(set(value) ^ set(figure or []))} differ" if isinstance(value, list) else f"{value!r}"
        return f"pyproject.toml: tool.ruff: {name}: {change}, {FILE} has {figure!r}; a rule changes with a heading"
    if section == "docstrings":
        return f"callosum: {value:.2%} of the public objects have a docstring, {FILE} has {figure:.2%}: " + ", ".join(
            objects_without_docstring(root)[:20]
        )
    if section == "file":
        return f"{name}: {value} lines; at most {LONGEST if figure is None else figure}: split it or shorten it"
    if figure is None:
        return f"{FILE}: [{section}]: no figure for {name}, which is {value}: `make budget ARGS=--add` adds it"
    return (
        f"{FILE}: {key}: {value:g}, at most {limit(key, figure):g}: make it smaller, or raise the figure"
        " under a heading in docs/decisions.md (see CONTRIBUTING.md)"
    )


# --- The file beside what it said before -------------------------------------------------------------


def history(root: Path) -> list[Figures] | str:
    """Return the figures of every committed ``budget.toml``, newest first, or say why git cannot tell them."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    try:
        if Path(git("rev-parse", "--show-toplevel").strip()).resolve() != root.resolve():
            return f"{root} is not the root of a git checkout"
        versions = git("log", "--format=%H", "--diff-filter=AM", "--", FILE).split()
        return [parse(git("show", f"{version}:{FILE}"))[0] for version in versions]
    except (OSError, subprocess.CalledProcessError) as error:
        return f"git tells nothing: {getattr(error, 'stderr', None) or error}".strip()


def unexplained(root: Path, past: list[Figures]) -> list[str]:
    """Return a sentence for each figure above its lowest committed one without a heading of its own.

    A file above ``LONGEST`` lines that was not listed before is such a figure too; a new package is not, because the
    sum of all packages has a figure.
    """
    figures, why = read(root)
    headings = set(_HEADING.findall((root / "docs/decisions.md").read_text("utf-8")))
    faults = []
    for key, value in figures.items():
        known = [one[key] for one in past if key in one]
        lower = [old for old in known if is_worse(key, value, old)]
        if key.startswith("file.") and past and not known:
            lower = [LONGEST]
        if lower and why.get(key) not in headings:
            faults.append(
                f"{FILE}: {key}: it rises from {min(lower)} to {value}: say under a heading of docs/decisions.md what"
                f' that buys, and name the heading: [why] "{key}" = "..."'
            )
    for key, heading in why.items():
        if key not in figures:
            faults.append(f"{FILE}: [why]: {key} is no figure of this file: remove the line")
        elif heading not in headings:
            faults.append(f'{FILE}: [why]: {key}: docs/decisions.md has no heading "{heading}"')
    return list(dict.fromkeys(faults))


# --- The file, lowered -------------------------------------------------------------------------------


def lowered(text: str, measured: Figures, *, add: bool = False) -> str:
    """Return the text of a budget with every figure lowered to its measurement. Comments and order stay.

    Rows of what no longer exists are left out, and their headings. ``add`` appends a row to its section for what has no
    figure.
    """
    old, _ = parse(text)
    best = {key: _better(key, value, measured.get(key, value)) for key, value in old.items()}
    sections, rows = {_place(key)[0] for key in measured}, {_place(key)[:2] for key in measured}
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        row = _ROW.match(line)
        if line.startswith("["):
            section = line.strip("[]")
        if row is None or section not in sections:
            lines.append(line)
        elif (section, row["name"].strip('"')) in rows:
            lines.append(f"{row['name']} = {_lowered_row(section, row, best)}")
    left, why = parse("\n".join(lines))
    gone = {f'"{key}"' for key in why if key not in left}
    lines = [line for line in lines if line.partition(" = ")[0] not in gone]
    return _with_new_rows(lines, {key: value for key, value in measured.items() if add and key not in old})


def _better(key: str, old: Any, new: Any) -> Any:
    noisy = next((share for part, share in SETTLED.items() if part in key.split(".")), None)
    return new if is_worse(key, old, new) and (noisy is None or new < old * noisy) else old


def _place(key: str) -> tuple[str, str, str]:
    """Return the section, the name of the row and the field (or nothing) of a key."""
    section, _, name = key.partition(".")
    if section in ("calls", "served", "loading"):
        version, name = name[:4], name[5:]
        section = f'{section}."{version}"'
    name, field = name.rsplit(".", 1) if section[:7] in ("package", "tree", "loading") else (name, "")
    return section, name, field


def _lowered_row(section: str, row: re.Match[str], best: Figures) -> str:
    key, value = f"{section.replace(chr(34), '')}.{row['name'].strip(chr(34))}", row["value"]
    if value.startswith("{"):
        return re.sub(r"([\w-]+) = ([\d.]+)", lambda field: f"{field[1]} = {best[f'{key}.{field[1]}']}", value)
    end = value.rindex("]") + 1 if value.startswith("[") else len(value.split(" #")[0])
    return json.dumps(best[key]) + value[end:]


def _with_new_rows(lines: list[str], new: Figures) -> str:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for key, value in new.items():
        section, name, field = _place(key)
        rows.setdefault((section, name), {})[field] = value
    for (section, name), fields in rows.items():
        value = json.dumps(fields.get(""))
        if "" not in fields:
            value = f"{{ {', '.join(f'{field} = {json.dumps(figure)}' for field, figure in fields.items())} }}"
        row = f"{name if re.fullmatch('[A-Za-z_-]+', name) else json.dumps(name)} = {value}"
        if f"[{section}]" not in lines:
            lines += ["", f"[{section}]"]
        end = lines.index(f"[{section}]") + 1
        while end < len(lines) and not lines[end].startswith("["):
            end += 1
        while not lines[end - 1].strip() or lines[end - 1].startswith("# --"):
            end -= 1
        lines.insert(end, row)
    return "\n".join(lines) + "\n"
