"""Count what the repository consists of: lines, AST nodes, public objects, long files, and the rules of ruff."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

LONGEST: Final = 400
"""Lines of the longest file that needs no figure of its own."""
WIDEST: Final = 120
"""Characters of a line outside Python, where no linter bounds it. A longer line counts as several."""
CODE: Final = frozenset((".js", ".mjs", ".cjs", ".c", ".h", ".sh", ".lua", ".sql"))
FIELDS: Final = (("python", "nodes", "code", "data", "public"), ("python", "code"))
"""What is counted of a package of ``callosum/``, and of another tree."""
TREES: Final = ("tests", "bench", "website")
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Object(NamedTuple):
    """A public module, class, function or method."""

    path: Path
    line: int
    name: str
    is_method: bool
    has_docstring: bool


def size(root: Path) -> dict[str, float]:
    """Return the figures of size of the repository at ``root``, by their keys in ``budget.toml``."""
    figures: Counter[str] = Counter()
    objects: list[Object] = []
    for folder in ("callosum", *TREES):
        for path in files_of(root / folder):
            parts = path.relative_to(root).parts
            row = f"tree.{folder}" if folder in TREES else f"package.{parts[1].removesuffix('.py')}"
            lines = lines_of(path)
            if not lines and path.suffix != ".py":
                continue
            figures.update(dict.fromkeys((f"{row}.{field}" for field in FIELDS[folder != "callosum"]), 0))
            if path.suffix == ".py":
                figures[f"{row}.python"] += lines
            elif path.suffix in CODE:
                figures[f"{row}.code"] += lines
            elif folder == "callosum":
                figures[f"{row}.data"] += lines
            if lines > LONGEST and (path.suffix == ".py" or path.suffix in CODE):
                figures[f"file.{path.relative_to(root).as_posix()}"] = lines
            if folder == "callosum" and path.suffix == ".py":
                tree = ast.parse(path.read_bytes())
                own = list(public_objects(tree, path))
                figures[f"{row}.nodes"] += nodes(tree)
                figures[f"{row}.public"] += len(own)
                objects += own
    sums: Counter[str] = Counter()
    for key, figure in figures.items():
        if key.startswith("package."):
            sums[f"package.all.{key.rpartition('.')[2]}"] += figure
    documented = 1 - len(undocumented(objects)) / len(objects) if objects else 1.0
    return {**sums, **figures, "docstrings.share": round(documented, 4)}


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the text files below a folder, without caches, hidden files and compiled programs."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if not hidden and path.is_file() and b"\0" not in path.read_bytes()[:4096]:
            yield path


def lines_of(path: Path) -> int:
    """Return the number of lines. Outside Python, a line counts once for each ``WIDEST`` characters it begins."""
    lines = path.read_text("utf-8").splitlines()
    return len(lines) if path.suffix == ".py" else sum(1 + max(0, len(line) - 1) // WIDEST for line in lines)


def nodes(tree: ast.Module) -> int:
    """Return the number of AST nodes. Docstrings do not count, so that explaining costs nothing."""
    every = list(ast.walk(tree))
    return len(every) - 2 * sum(
        isinstance(n, _DOCUMENTED) and ast.get_docstring(n, clean=False) is not None for n in every
    )


def public_objects(tree: ast.Module, path: Path) -> Iterator[Object]:
    """Yield the module and the public classes, functions and methods in it. A private module has none."""
    if path.name.startswith("_") and not path.name.startswith("__"):
        return

    def walk(node: ast.Module | ast.ClassDef, outer: str, *, in_class: bool) -> Iterator[Object]:
        for child in node.body:
            if isinstance(child, _DOCUMENTED[1:]) and not child.name.startswith("_"):
                name = f"{outer}{child.name}"
                yield Object(path, child.lineno, name, in_class, ast.get_docstring(child) is not None)
                if isinstance(child, ast.ClassDef):
                    yield from walk(child, f"{name}.", in_class=True)

    yield Object(path, 1, path.stem, False, ast.get_docstring(tree) is not None)
    yield from walk(tree, "", in_class=False)


def undocumented(objects: list[Object]) -> list[Object]:
    """Return the objects without a docstring. A method of a protocol needs one in one of its classes only."""
    described = {o.name.rpartition(".")[2] for o in objects if o.is_method and o.has_docstring}
    return [o for o in objects if not o.has_docstring and not (o.is_method and o.name.rpartition(".")[2] in described)]


def objects_without_docstring(root: Path) -> list[str]:
    """Return where the public objects of ``callosum/`` without a docstring are: ``path:line name``."""
    paths = [path for path in files_of(root / "callosum") if path.suffix == ".py"]
    objects = [found for path in paths for found in public_objects(ast.parse(path.read_bytes()), path)]
    return [f"{o.path.relative_to(root).as_posix()}:{o.line} {o.name}" for o in undocumented(objects)]


def ruff_rules(root: Path) -> dict[str, Any]:
    """Return the settings of ruff by their path in ``[tool.ruff]``, and every file that would overrule them."""
    rules: dict[str, Any] = {}

    def flatten(prefix: str, table: dict[str, Any]) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                flatten(f"{prefix}{name}.", value)
            else:
                rules[f"{prefix}{name}"] = value

    flatten("", tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"])
    for name in ("ruff.toml", ".ruff.toml", "pyproject.toml"):
        for path in (*root.glob(name), *root.glob(f"[!.]*/**/{name}")):
            if any(part.startswith(".") for part in path.relative_to(root).parts[:-1]):
                continue  # what tests have installed
            if path != root / "pyproject.toml" and (
                name != "pyproject.toml" or "[tool.ruff" in path.read_text("utf-8")
            ):
                rules[path.relative_to(root).as_posix()] = "settings of its own"
    return rules


def measure(root: Path, listed: Iterable[str]) -> dict[str, Any]:
    """Return every figure of size, and ruff's settings. ``listed`` are the keys of the budget, for generated files."""
    listed = [key.removeprefix("generated.") for key in listed if key.startswith("generated.")]
    files = {f"generated.{name}": lines_of(root / name) for name in listed if (root / name).is_file()}
    return {**size(root), **files, **{f"ruff.{name}": value for name, value in ruff_rules(root).items()}}
