"""Fixtures of processes: state folders, servers, wraps of MCP servers, and file systems."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.mcpwrap import Wrapped, wrapped
from tests.support.serving import Server, end_gates, serving
from tests.support.visiting import Visitor, visiting


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a state folder. If a hook or a command starts a gate in it, the gate is ended afterwards."""
    yield tmp_path / "state"
    end_gates(tmp_path / "state")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server with default settings for all tests of a module."""
    with serving(tmp_path_factory.mktemp("server") / "state") as server:
        yield server


@pytest.fixture
def anna(server: Server) -> Iterator[Visitor]:
    """Yield a person who has opened the console of the server."""
    with visiting(server) as visitor:
        yield visitor


@pytest.fixture
def wrap(tmp_path: Path) -> Iterator[Callable[..., Wrapped]]:
    """Start wraps as ``wrapped`` does, with the options and keywords given; all end after the test."""
    with ExitStack() as stack:
        yield lambda *options, **more: stack.enter_context(wrapped(tmp_path / "state", *options, **more))


@pytest.fixture(scope="session")
def node() -> str:
    """Return Node, if it is new enough for the JavaScript client, and loads the OpenClaw plugin as OpenClaw does."""
    found = shutil.which("node")
    asked = subprocess.run([found or "true", "--version"], capture_output=True, text=True, timeout=60, check=True)
    version = asked.stdout.strip().removeprefix("v")
    if found is None or tuple(map(int, version.split("."))) < (20, 19):
        pytest.skip(f"JavaScript is NOT tested: node 20.19 or later is needed, this is {version or 'none'}")
    return found


@pytest.fixture
def mounted() -> Iterator[Callable[..., None]]:
    """Yield ``mount(place, *options)``. What it mounts is unmounted after the test."""
    places: list[Path] = []

    def mount(place: Path, *options: str) -> None:
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        places.append(place)

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", "-l", str(place)], check=False)
