"""Each framework's example and quickstart page: both run, and both are short."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from callosum.model import Event
from tests.adapters.harness import Framework, every_framework
from tests.adapters.matrix import page_of
from tests.adapters.test_matrix import left_out

ROOT = Path(__file__).resolve().parents[2]
LINES = 60
"""An example's lines at most."""
SCREEN = 45
"""A page's lines at most."""
SHOWN = [
    pytest.param(one, id=name, marks=[pytest.mark.filterwarnings(text) for text in one.warnings])
    for name, one in every_framework().items()
    if page_of(one).exists()
]


def example(framework: Framework) -> Path:
    return ROOT / f"examples/{framework.module}_mail.py"


def load(path: Path, **names: object) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


def code_of(page: Path) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return str(code)


def lines_beyond_imports(code: str) -> int:
    """Return how many statements of a program use a name that it imports from Callosum."""
    tree = ast.parse(code)
    ours: set[str] = set()
    count = 0
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("callosum"):
            ours |= {name.asname or name.name for name in statement.names}
        elif ours & {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}:
            count += 1
    return count


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give examples their folder to import from and a home; restore the environment variables that they set."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with mock.patch.dict(os.environ, HOME=str(tmp_path)):
        yield


@pytest.mark.parametrize("framework", SHOWN)
def test_second_session_is_notified_that_the_first_answered(framework: Framework, tmp_path: Path) -> None:
    left_out(framework)
    inbox, told = load(example(framework)).main(str(tmp_path))
    assert inbox == ["Friday works, says chat"]
    assert "[Callosum] Conflict: mira/chat" in told


@pytest.mark.parametrize("framework", SHOWN)
def test_the_quickstart_gates_the_call(framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out(framework)
    monkeypatch.setenv("CALLOSUM_STATE", str(tmp_path))
    program = tmp_path / "quickstart.py"
    program.write_text(code_of(page_of(framework)))
    names = vars(load(program, model=load(example(framework)).scripted("chat")))
    with names["gate"] as gate:
        if "install" in names:
            names["install"](gate)()  # undoes the installation of the page
        calls = [entry for entry in gate.entries() if entry.event is Event.INTERCEPT]
    assert [(call.session, call.tool) for call in calls] == [("mira/chat", framework.named("send_email"))]


@pytest.mark.parametrize("framework", SHOWN)
def test_an_example_and_a_page_are_short_and_take_two_lines_beyond_the_imports(framework: Framework) -> None:
    assert len(example(framework).read_text().splitlines()) <= LINES
    assert len(page_of(framework).read_text().splitlines()) <= SCREEN
    assert lines_beyond_imports(code_of(page_of(framework))) <= 2
    assert f"quickstarts/{framework.module}.md" in (ROOT / "docs/frameworks.md").read_text()
    assert f"{framework.module}_mail.py" in page_of(framework).read_text()


def test_each_page_and_example_belongs_to_a_framework() -> None:
    modules = {framework.module for framework in every_framework().values() if page_of(framework).exists()}
    assert {path.stem for path in (ROOT / "docs/quickstarts").glob("*.md")} == modules
    assert {path.stem.removesuffix("_mail") for path in (ROOT / "examples").glob("*_mail.py")} == modules
