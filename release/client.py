"""Compile the native hook client, with the pinned compiler (the package ``ziglang``), which cross-compiles, or ``cc``.

::

    python -m release.client            for this machine, into callosum/hosts/native
    python -m release.client --all      for every platform
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from callosum.hosts import native

FOLDER: Final = Path(native.__file__).parent


class Platform(NamedTuple):
    """Describe a platform. ``target`` and ``options`` are for the compiler; ``tag`` is the tag of its wheel."""

    target: str
    tag: str
    source: str = "hook.c"
    options: tuple[str, ...] = ()


_GLIBC_AND_MUSL: Final = "manylinux_2_17_{0}.musllinux_1_1_{0}"
_WINDOWS: Final = ("windows.c", ("-municode", "-lwinhttp", "-ladvapi32"))
PLATFORMS: Final = {
    "linux-x86_64": Platform("x86_64-linux-musl", _GLIBC_AND_MUSL.format("x86_64"), options=("-static",)),
    "linux-aarch64": Platform("aarch64-linux-musl", _GLIBC_AND_MUSL.format("aarch64"), options=("-static",)),
    "macos-x86_64": Platform("x86_64-macos", "macosx_13_0_x86_64"),
    "macos-aarch64": Platform("aarch64-macos", "macosx_13_0_arm64"),
    "windows-x86_64": Platform("x86_64-windows-gnu", "win_amd64", *_WINDOWS),
    "windows-aarch64": Platform("aarch64-windows-gnu", "win_arm64", *_WINDOWS),
}
"""Platforms by the names of ``callosum.hosts.native.platform``. A Linux program is static and needs no libc."""
_FLAGS: Final = ("-std=gnu11", "-Os", "-s", "-g0", "-Wall", "-Wextra")


def build(name: str, folder: Path = FOLDER) -> Path:
    """Compile the client for one platform into its place below ``folder``. Replace an existing one. Return the path.

    The same source produces the same bytes. Raises ``subprocess.CalledProcessError`` with the compiler's messages.
    """
    platform = PLATFORMS[name]
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", platform.target, "-Werror")
    return _compile(compiler, name, platform.source, platform.options, folder)


def build_here(folder: Path) -> Path | None:
    """Compile the client for this machine with its own C compiler: ``CC``, else ``cc``. Return the path.

    Return None, and print why, if there is no client for this system, no compiler, or the compiler fails. On Linux the
    program is static if the compiler can link it so: it starts sooner and loads no library of ``LD_PRELOAD``.
    """
    name = native.platform()
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if not name.startswith(("linux", "macos")) or shutil.which(compiler[0]) is None:
        print(f"The native hook client was not compiled: there is no {compiler[0]!r}. Hooks use the script.")  # noqa: T201
        return None
    for options in (("-static",), ()) if name.startswith("linux") else ((),):
        try:
            return _compile(compiler, name, "hook.c", options, folder)
        except subprocess.CalledProcessError:
            continue
    print(f"The native hook client was not compiled: {compiler[0]!r} failed. Hooks use the script.")  # noqa: T201
    return None


def _compile(compiler: Sequence[str], name: str, source: str, options: Sequence[str], folder: Path) -> Path:
    program = folder / name / native.program_of(name)
    program.parent.mkdir(parents=True, exist_ok=True)
    new_program = program.with_name(f".{os.getpid()}.{program.name}")
    words = [*compiler, *_FLAGS, *native.definitions(), source, *options, "-o", str(new_program.absolute())]
    # Compile in the source folder, so that the program contains no path of this machine.
    subprocess.run(words, cwd=FOLDER, check=True)  # noqa: S603
    new_program.replace(program)
    return program


def main() -> None:
    """Build as the command line asks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--all", action="store_true", help="for every platform")
    arguments = options.parse_args()
    if importlib.util.find_spec("ziglang") is None:
        sys.exit("ziglang is not installed: pip install '.[wheels]'. Hooks use the script.")
    names = list(PLATFORMS) if arguments.all else [name for name in PLATFORMS if name == native.platform()]
    for name in names:
        path = build(name)
        print(f"{path}: {path.stat().st_size} bytes")  # noqa: T201
    if not names:
        print("There is no native client for this machine; hooks use the script.")  # noqa: T201


if __name__ == "__main__":
    main()
