"""Start Callosum's own processes so that no code from the folder in which an agent works runs in them.

Every process of Callosum is started with one command line, which runs this file as a script::

    PYTHON -I [-S] .../callosum/launch.py [--import FOLDER]... [--in FOLDER] [--run MODULE:FUNCTION] ARGUMENT...

``PYTHON`` is the interpreter that was recorded when a host was set up, or that of the starting process. ``-I`` keeps
the working folder, ``PYTHON*`` variables and the user's site folder out of the import path. The package ``callosum`` is
loaded from this file's own folder, whatever else has that name. ``--import`` names further folders with installed
packages that ``-I`` leaves out, after a ``pip install --user`` or ``--target``; they come after the standard library.
``--in`` is the working folder, so that the process leaves the host's folder before anything is loaded. Without
``--run`` the command ``callosum`` runs.

This file uses only a small part of the standard library, because every hook process runs it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

NEUTRAL: Final = "/"
"""Working folder of a gate in the background. It belongs to no project and always exists."""
RECORD: Final = "launch.json"
"""Name of the file in the state folder with the settings that ``callosum install`` records for hosts' gates."""
DROPPED: Final = (
    *("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"),
    *("BASH_ENV", "BASHOPTS", "ENV", "IFS", "PS4", "SHELLOPTS", "NODE_OPTIONS", "__PYVENV_LAUNCHER__"),
)
"""Variables that change which code a process runs. Libraries, shells and interpreters read them when they start."""
DROPPED_PREFIXES: Final = ("PYTHON", "LD_", "DYLD_", "BASH_FUNC_", "CALLOSUM_")
"""Prefixes of more such variables, and of Callosum's own, which are passed on only as options."""

_recorded: tuple[str, ...] | None = None
"""``--import`` folders of this process, or None if this file did not start it."""


def root() -> str:
    """Return the folder that holds the package ``callosum``, with links resolved."""
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - a hook imports no pathlib


def command(*arguments: str, working_folder: str = "", run: str = "") -> list[str]:
    """Return the command line that starts this installation of Callosum with the arguments.

    ``working_folder`` is the folder to run in, or "" to keep the folder of the starting process. ``run`` names what to
    call (``MODULE:FUNCTION``) instead of the command ``callosum``.
    """
    words = [sys.executable, "-I", os.path.join(root(), "callosum", "launch.py")]  # noqa: PTH118
    for folder in import_folders():
        words += ["--import", folder]
    if working_folder:
        words += ["--in", working_folder]
    if run:
        words += ["--run", run]
    return [*words, *arguments]


def import_folders() -> tuple[str, ...]:
    """Return the folders with packages that this process uses and that ``-I`` leaves out.

    They are the user's site folder if it is in use, the folder of this package if its dependencies are installed beside
    it, and the folder of a dependency that is already loaded. No other entry of ``sys.path`` counts, because the
    working folder may be among them.
    """
    if _recorded is not None:
        return _recorded
    import site  # noqa: PLC0415 - needed only to start a process

    folders = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    if os.path.isdir(os.path.join(root(), "msgspec")):  # noqa: PTH112, PTH118
        folders.append(root())
    loaded = getattr(sys.modules.get("msgspec"), "__file__", None)
    if loaded:
        folders.append(os.path.dirname(os.path.dirname(os.path.abspath(loaded))))  # noqa: PTH100, PTH120
    site_folders = {os.path.realpath(folder) for folder in site.getsitepackages()}
    return tuple(
        folder
        for folder in dict.fromkeys(folders)
        if os.path.isdir(folder) and os.path.realpath(folder) not in site_folders  # noqa: PTH112
    )


def environment(environ: Mapping[str, str], settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a process of Callosum, without Callosum's own and without those that change its code.

    ``settings`` are variables of Callosum (``CALLOSUM_STORE``) that the process is given on purpose.
    """
    kept = {
        name: value for name, value in environ.items() if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)
    }
    return {**kept, **(settings or {})}


def serve_command(state: str, socket: str, idle: float) -> list[str]:
    """Return the command line of the local gate of a state folder."""
    options = ("--state", state, "--socket", socket, "--idle", f"{idle:g}")
    return command("serve", "--recorded", *options, working_folder=NEUTRAL)


def recorded_path(state: str | os.PathLike[str], name: str) -> str | None:
    """Return a path that was recorded when a host was set up to use this state folder, or None.

    ``config`` is the ``callosum.toml``, ``git`` the program that merges if the system has none.
    """
    import json  # noqa: PLC0415 - needed only to start a gate

    try:
        with open(os.path.join(state, RECORD), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            path = json.load(file)[name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return path if isinstance(path, str) and os.path.isabs(path) else None  # noqa: PTH117


# --- As a script ----------------------------------------------------------------------------------------


def _main(words: list[str]) -> int | None:
    """Parse the options of this file, load the package and run the requested function."""
    folders: list[str] = []
    where = "callosum.cli:main"
    while words and words[0] in ("--import", "--in", "--run"):
        option, value, *words = words
        if option == "--import":
            folders.append(value)
        elif option == "--in":
            os.chdir(value)
        else:
            where = value
    _search(folders)
    _load_package()
    import callosum.launch as loaded  # noqa: PLC0415, PLW0406 - this file is a script, not yet a module

    loaded._recorded = tuple(folders)  # noqa: SLF001 - the same file, loaded a second time
    sys.argv = ["callosum", *words]
    module, _, name = where.partition(":")
    __import__(module)
    code: int | None = getattr(sys.modules[module], name)()
    return code


def _search(folders: Sequence[str]) -> None:
    """Insert the folders into the import path, after the standard library and before installed packages."""
    ends = (f"{os.sep}site-packages", f"{os.sep}dist-packages")
    index = next((position for position, folder in enumerate(sys.path) if folder.endswith(ends)), len(sys.path))
    sys.path[index:index] = folders


def _load_package() -> None:
    """Load ``callosum`` from the folder of this file, whatever else has that name on the import path."""
    # This is importlib.machinery.PathFinder, whose import takes a hook half a millisecond.
    finder = next(entry for entry in sys.meta_path if getattr(entry, "__name__", "") == "PathFinder")
    spec = finder.find_spec("callosum", [root()])
    if spec is None or spec.loader is None:
        raise ImportError(f"{root()} holds no package callosum")
    package = type(sys)("callosum")
    package.__spec__, package.__loader__, package.__package__ = spec, spec.loader, "callosum"
    package.__file__, package.__path__ = spec.origin, list(spec.submodule_search_locations or ())
    sys.modules["callosum"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
