"""Measure what loading costs: modules, and processor time as a multiple of a Python's that does nothing."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

STARTS: Final = 12
"""Number of starts of each case; the figure is the lowest quarter's highest ratio, as other work only adds to one."""
CASES: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "import callosum": ((), "import callosum"),
    "callosum --version": ((), "import sys; sys.argv[1:] = ['--version']; from callosum.cli import main; main()"),
    "hook fallback": (("-I", "-S"), "import sys; sys.path.insert(0, {root!r}); import callosum.hosts.offline"),
}  # fmt: skip
"""What is loaded: the interpreter's options, and the program."""
_MODULES: Final = "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr)); "


def measure(root: Path, starts: int = STARTS) -> dict[str, float]:
    """Return the modules that each case loads beyond Python's own, and its processor time over an empty program's."""
    chance = random.Random(1)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    figures: dict[str, float] = {}
    ratios: dict[str, list[float]] = {name: [] for name in CASES}
    for name, (options, program) in CASES.items():
        text = program.format(root=str(root))
        modules = [int(_run(root, options, _MODULES + one)[1].split()[-1]) for one in ("pass", text)]
        figures[f"loading.{version}.{name}.modules"] = modules[1] - modules[0]
    for _ in range(starts):
        for name in chance.sample(list(CASES), len(CASES)):
            options, program = CASES[name]
            nothing = _run(root, options, "pass")[0]
            ratios[name].append(_run(root, options, program.format(root=str(root)))[0] / nothing)
    for name, found in ratios.items():
        figures[f"loading.{version}.{name}.cpu"] = round(sorted(found)[(len(found) - 1) // 4], 2)
    return figures


def _run(root: Path, options: Sequence[str], program: str) -> tuple[float, str]:
    """Return the processor time of a Python, in seconds, and what it printed to standard error."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CALLOSUM_", "PYTHON"))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=120, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr
