"""The version of the package before this one, as processes of its own beside the processes of this version."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from callosum.server.listeners import heard
from tests.support.serving import SECONDS, Server

PREVIOUS: Final = "f2e0d31"
"""Commit whose clients and keys this version must understand."""
PREVIOUS_STORE: Final = "7941d35a"
"""Commit that works on one store with this version."""
_ROOT: Final = Path(__file__).resolve().parents[2]
_CLASSIFY: Final = """
import json, sys
from callosum import Call
from callosum.rulebook import Rulebook
rules = Rulebook(None, secret=b"s" * 32).current()
for line in sys.stdin:
    found = rules.classify(Call("mira", **json.loads(line)))
    print(json.dumps([[key.name for key in found.keys], found.content.digest.hex()]))
"""


class Previous:
    """The package of the previous version, unpacked in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}  # compiled once

    @contextmanager
    def serving(self, state: Path, *options: str, environ: Mapping[str, str]) -> Iterator[Server]:
        """Run a server of the previous version for the length of a block."""
        state.mkdir(parents=True, exist_ok=True)
        read, write = os.pipe()
        log = state.parent / f"{state.name}-previous.log"
        command = [sys.executable, "-m", "callosum.cli", "serve", "--state", str(state), "--port", "0", *options]
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [*command, "--ready-fd", str(write)],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, pass_fds=(write,),
                env=self._environ | dict(environ), cwd=self._folder,
            )  # fmt: skip
        os.close(write)
        address = heard(read, SECONDS)
        server = Server(process, state, address, log)
        try:
            assert address, f"the previous version's server did not start: {log.read_text()[-2000:]}"
            yield server
            assert server.stop() == 0, log.read_text()[-3000:]
        finally:
            if process.poll() is None:
                server.kill()
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run Python in the previous version's package; return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], input=stdin, capture_output=True, text=True, check=False,
            env=self._environ, cwd=self._folder, timeout=SECONDS * 3,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def classify(self, calls: list[dict[str, Any]]) -> list[tuple[list[str], str]]:
        """Return the keys and the content digest of each call (``tool``, ``params``, ``cwd``)."""
        lines = self.run("-c", _CLASSIFY, stdin="\n".join(map(json.dumps, calls))).splitlines()
        return [(keys, digest) for keys, digest in map(json.loads, lines)]


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Previous:
    """Unpack the previous version from this repository's history; skip where the history is missing."""
    return _unpacked(PREVIOUS, tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="session")
def previous_store(tmp_path_factory: pytest.TempPathFactory) -> Previous:
    """Unpack the oldest version that shares a store with this one; skip where the history is missing."""
    return _unpacked(PREVIOUS_STORE, tmp_path_factory.mktemp("previous-store"))


def _unpacked(commit: str, folder: Path) -> Previous:
    command = ["git", "-C", str(_ROOT), "archive", commit, "callosum"]
    try:
        packed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"commit {commit} is not here: mixed versions are tested only in a full clone of the repository")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    found = Previous(folder)
    where = Path(found.run("-c", "import callosum; print(callosum.__file__)").strip())
    assert where.is_relative_to(folder), f"the previous version is imported from {where}"
    return found
