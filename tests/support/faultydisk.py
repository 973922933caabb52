"""A disk that fails on request, for a program in a process of its own."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Fault = Literal["sync", "full", "read-only"]


class FaultyDisk:
    """A library to preload, and the switch of its faults. ``folder`` must exist.

    Raises ``RuntimeError`` if there is no C compiler.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise RuntimeError("there is no C compiler (cc): install one, such as gcc")
        self._folder = folder / "faulty-disk"
        self._folder.mkdir()
        library = self._folder / "library.so"
        source = Path(__file__).with_suffix(".c")
        command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        self.environ = {"LD_PRELOAD": str(library), "FAULTY_DISK": str(self._folder)}

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Make the disk fail for the length of the block.

        ``sync``: every sync; ``full``: every write to a file; ``read-only``: every write to a database or its log.
        """
        switch = self._folder / fault
        switch.touch()
        try:
            yield
        finally:
            switch.unlink()
