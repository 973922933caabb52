"""A folder with files that leave a trace when anything runs them, and variables that point to them."""

import os
import stat
import sys
from pathlib import Path

MODULES = (
    *("uvicorn", "starlette", "msgspec", "re2", "typer", "apscheduler", "platformdirs", "click", "anyio"),
    *("secrets", "types", "typing", "json", "socket", "re", "os", "site", "struct", "logging", "asyncio", "ssl"),
    *("sitecustomize", "usercustomize", "callosum", "callosum.cli", "callosum.cli.__main__", "callosum.launch"),
    *("callosum.hosts", "callosum.hosts.offline", "encodings"),
)
"""Modules of which the folder has a version of its own."""
PROGRAMS = ("curl", "cat", "sh", "timeout", "python", "python3", "callosum", "date", "node", "git")


class Planted:
    """The folder with the planted files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trace = folder.parent / f"{folder.name}-ran"
        folder.mkdir()
        for module in MODULES:
            self._module(folder, module)
        programs = folder / "bin"
        programs.mkdir()
        for place in (folder, programs):
            for name in PROGRAMS:
                if not (place / name).exists():
                    self._program(place / name)
        user = folder / "user" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        user.mkdir(parents=True)
        self._module(user, "usercustomize")
        (user / "planted.pth").write_text(f"import os; open({str(self._trace)!r}, 'a').write('pth')\n")
        (folder / ".curlrc").write_text(f'output = "{self._trace}"\n')
        (folder / "planted.sh").write_text(f"echo planted.sh >>{self._trace}\n")
        (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
        (folder / "tiers.json").write_text('{"rules": [{"name": "all", "tier": 0, "tool": "*"}]}')
        (folder / "callosum.toml").write_text(f'mode = "observe"\nnotify = ["{folder}/sh"]\nrules = "tiers.json"\n')
        self.variables = {
            "PATH": f".:{programs}:node_modules/.bin:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder}:.",
            "PYTHONHOME": str(folder),
            "PYTHONSTARTUP": str(folder / "json.py"),
            "PYTHONUSERBASE": str(folder / "user"),
            "PYTHONPLATLIBDIR": "planted",
            "PYTHONINSPECT": "1",
            "CURL_HOME": str(folder),
            "BASH_ENV": str(folder / "planted.sh"),
            "ENV": str(folder / "planted.sh"),
            "BASH_FUNC_cat%%": f"() {{ echo function >>{self._trace}; }}",
            "LD_PRELOAD": str(folder / "planted.so"),  # the linker reports an error wherever this file is read
            "OPENSSL_CONF": str(folder / "planted.cnf"),
            "CALLOSUM_MODE": "observe",
            "CALLOSUM_RULES": str(folder / "tiers.json"),
            "CALLOSUM_CONFIG": str(folder / "callosum.toml"),
        }

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables of a host that works in the folder."""
        return {**os.environ, **self.variables}

    @property
    def ran(self) -> str:
        """Return the files of the folder that were run."""
        return self._trace.read_text() if self._trace.exists() else ""

    def _module(self, folder: Path, name: str) -> None:
        *packages, last = name.split(".")
        is_package = any(other.startswith(f"{name}.") for other in MODULES)
        path = folder.joinpath(*packages, *((last, "__init__.py") if is_package else (f"{last}.py",)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"import posix\nfile = posix.open({str(self._trace)!r}, 1089, 0o600)\nposix.write(file, b'{name} ')\n"
        )

    def _program(self, path: Path) -> None:
        path.write_text(f"#!/bin/sh\necho {path.name} >>{self._trace}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
