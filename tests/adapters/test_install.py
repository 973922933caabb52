"""``callosum.adapters.install()``: the gate around all frameworks that a program has imported."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

import callosum.adapters
from callosum.adapters import install
from callosum.adapters.installing import SEAMS
from tests.acceptance.command import run
from tests.adapters.behaviours import Bench, mail
from tests.adapters.harness import Framework, Job, Mode, every_framework
from tests.adapters.test_matrix import left_out

FOLDER = Path(callosum.adapters.__file__).parent
WITH_SEAM = [
    pytest.param(one, mode, id=f"{name}-{mode}", marks=[pytest.mark.filterwarnings(text) for text in one.warnings])
    for name, one in every_framework().items()
    for mode in one.modes
    if one.module in SEAMS and mode != "streamed"
]


@pytest.mark.parametrize(("framework", "mode"), WITH_SEAM)
def test_install_gates_agents_until_it_is_undone(framework: Framework, mode: Mode, tmp_path: Path) -> None:
    left_out(framework)
    bench = Bench(framework, mode, tmp_path)
    session = ["chat"]
    importlib.import_module(SEAMS[framework.module])

    def run(body: str, **gate: object) -> str:
        job = Job(None, [[mail("c1", body)]], [bench.mail()], conversation=session[0], awaited=bench.awaited)
        for name, value in gate.items():
            setattr(job, name, value)
        return bench.ran(job).read["c1"]

    with bench.gate:
        first = install(bench.gate, instance="other", session="other")
        installed = install(bench.gate, instance="mira", session=lambda: session[0])
        try:
            assert framework.module in installed.gated
            assert framework.module in str(installed)
            assert run("Friday works") == "sent Friday works"
            session[0] = "heartbeat"
            assert "mira/chat acted on" in run("no")
            assert [entry.session for entry in bench.entries()] == ["mira/chat", "mira/heartbeat"]
            first.uninstall()  # its gate was replaced: nothing happens
            assert "mira/chat acted on" in run("not at all")
            asked = len(bench.entries())
            run("third", gate=bench.gate, options={"instance": "mira", "session": "own"})
            assert len(bench.entries()) == asked + 1  # an adapter of the agent's own and this one do not ask twice
        finally:
            installed.uninstall()
        asked = len(bench.entries())
        assert run("free") == "sent free"
        assert len(bench.entries()) == asked


def test_a_framework_that_is_not_imported_is_left_alone(tmp_path: Path) -> None:
    code = (
        "import sys, callosum.adapters, callosum\n"
        "print(callosum.adapters.install(callosum.LocalGate()))\n"
        f"print(*{{*{list(SEAMS.values())}}} & sys.modules.keys())"
    )
    done = run(tmp_path, program=(sys.executable, "-c", code))
    assert done.stdout.split("\n")[:2] == ["gated: nothing", ""], done.stderr


def test_a_framework_whose_adapter_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("callosum.adapters.installing.SEAMS", {"nothing_of_this_name": "sys"})
    with callosum.LocalGate(tmp_path) as gate:
        installed = install(gate)
    assert installed.gated == ()
    assert "NOT gated" in caplog.text
    assert "nothing_of_this_name" in installed.failed


def test_every_adapter_with_an_install_is_known() -> None:
    with_install = {
        path.stem
        for path in FOLDER.glob("*.py")
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "install" for node in ast.parse(path.read_text()).body
        )
    }
    assert with_install - {"installing"} == SEAMS.keys()
