"""Every class name is unique: a reader who searches for a class finds one."""

import ast
from collections import Counter
from pathlib import Path

import callosum

PACKAGE = Path(callosum.__file__).parent


def test_every_public_class_has_a_name_of_its_own() -> None:
    """Adapters are left out: their classes are named as the framework's users expect."""
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        if "adapters" not in path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(names) > 300
    assert [name for name, count in names.items() if count > 1] == []
