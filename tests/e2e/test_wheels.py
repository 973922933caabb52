"""The published files: the same sources make the same bytes, and a wheel needs no compiler."""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from callosum.hosts import native
from tests.support.serving import end_gates

pytestmark = [
    pytest.mark.e2e,  # on a fresh machine, the compiler needs minutes
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("hatchling", "ziglang"))),
        reason="the wheels are NOT tested: there is no pinned compiler (`make native` sets it up)",
    ),
    pytest.mark.timeout(900),
]
MAGIC: Final = {"linux": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe", "windows": b"MZ"}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels once for all workers of a test run, because the compiler needs minutes."""
    from release.wheels import SUMS, make  # noqa: PLC0415 - it needs the compiler

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "wheels" / SUMS).exists():  # it is written last
            make(folder / "wheels")
    return folder / "wheels"


def test_same_sources_make_the_same_bytes(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another cache and another time, so that nothing is reused from the first build."""
    from release.wheels import SUMS, make  # noqa: PLC0415

    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", str(tmp_path / "cache"))
    make(tmp_path / "again")
    assert (tmp_path / "again" / SUMS).read_text() == (built / SUMS).read_text()
    for line in (built / SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((built / name).read_bytes()).hexdigest() == digest


def test_wheel_of_a_platform_holds_only_the_client_of_that_platform(built: Path) -> None:
    from release.client import PLATFORMS  # noqa: PLC0415

    clients = {}
    for wheel in built.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [
                one for one in archive.namelist() if one.endswith((f"/{native.PROGRAM}", f"/{native.PROGRAM}.exe"))
            ]
            clients[wheel.name.partition("-none-")[2].removesuffix(".whl")] = names
            assert "callosum/hosts/native/hook.c" in archive.namelist()
            data = {str(file) for suffix in ("sql", "lua") for file in Path("callosum/stores").rglob(f"*.{suffix}")}
            assert data, "the stores' statements and scripts"
            assert data <= set(archive.namelist())
            for name in names:
                system = name.split("/")[3].partition("-")[0]
                assert archive.read(name).startswith(MAGIC[system])
                assert str(Path.cwd()).encode() not in archive.read(name)
    expected = {one.tag: [f"callosum/hosts/native/{name}/{native.program_of(name)}"] for name, one in PLATFORMS.items()}
    assert clients == {"any": [], **expected}


@pytest.mark.parametrize(("name", "machine"), [("windows-x86_64", 0x8664), ("windows-aarch64", 0xAA64)])
def test_client_for_windows_needs_nothing_but_windows(built: Path, name: str, machine: int) -> None:
    from release.client import PLATFORMS  # noqa: PLC0415

    (wheel,) = built.glob(f"*-{PLATFORMS[name].tag}.whl")
    with zipfile.ZipFile(wheel) as archive:
        program = archive.read(f"callosum/hosts/native/{name}/{native.program_of(name)}")
    head = int.from_bytes(program[0x3C:0x40], "little")
    assert program[head : head + 4] == b"PE\0\0"
    assert int.from_bytes(program[head + 4 : head + 6], "little") == machine
    libraries = {one.decode().lower() for one in re.findall(rb"([A-Za-z0-9-]+\.dll)\0", program, re.IGNORECASE)}
    others = {one for one in libraries if not one.startswith("api-ms-win-crt-")}
    assert others == {"kernel32.dll", "advapi32.dll", "winhttp.dll"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Yield a home; a gate that a hook has started is ended."""
    folder = tmp_path / "home"
    (folder / ".claude").mkdir(parents=True)
    yield folder
    end_gates(folder / "state")


@pytest.mark.parametrize("kind", ["platform", "pure", "clone"])
def test_installed_wheel_gates_a_host_without_a_compiler(built: Path, home: Path, tmp_path: Path, kind: str) -> None:
    """A fresh environment with only the wheel and its dependencies, and a PATH without a compiler.

    The wheel of the kind ``clone`` is what ``pip install .`` makes from a clone, with the machine's own compiler.
    """
    from release.client import PLATFORMS  # noqa: PLC0415
    from release.wheels import build_archive  # noqa: PLC0415

    if kind == "clone":
        built = tmp_path / "built"
        build_archive("wheel", built, os.environ)
    tag = {"platform": PLATFORMS[native.platform()].tag, "pure": "any", "clone": "*"}[kind]
    (wheel,) = built.glob(f"*-{tag}.whl")
    fresh = tmp_path / "venv"
    venv.create(fresh, with_pip=False, symlinks=True)
    (site,) = (fresh / "lib").glob("python*/site-packages")
    words = [
        sys.executable, "-m", "pip", "--python", str(fresh), "install", "--no-deps", "--no-index", "-q", str(wheel),
    ]  # fmt: skip
    subprocess.run(words, check=True, timeout=300)
    ours = Path(sys.prefix) / "lib" / site.parent.name / "site-packages"
    for path in ours.iterdir():
        other = path.suffix != ".pth" and not path.name.startswith(("callosum", "_callosum", "zig", "__editable__"))
        if other and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "curl", "timeout", "env", "uname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "claude").write_text("#!/bin/sh\necho '2.1.400 (Claude Code)'\n")
    (tools / "claude").chmod(0o700)
    environ = {"HOME": str(home), "PATH": str(tools), "CALLOSUM_STATE": str(home / "state"), "LANG": "C.UTF-8"}

    def callosum(*words: str) -> str:
        done = subprocess.run(
            [fresh / "bin" / "callosum", *words], env=environ, cwd=home, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    said = callosum("install", "claude-code", "--yes")
    expected = "the script" if kind == "pure" else "the native client"
    assert f"({expected})" in said
    found = {one["check"]: one for one in json.loads(callosum("doctor", "--json"))["findings"]}
    assert found["claude-code canary"] == {**found["claude-code canary"], "level": "ok"}
    assert found["claude-code script"]["says"].endswith(expected)
    assert found["claude-code script"]["level"] == "ok"
