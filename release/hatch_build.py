"""Add the native hook client to a wheel when it is built.

``CALLOSUM_WHEEL=linux-x86_64`` builds the wheel of that platform with the client that ``release.wheels`` compiled, and
``CALLOSUM_WHEEL=pure`` the wheel without a client, whose hooks use the script. Without the variable, as with
``pip install .`` from a clone, this machine's own C compiler makes the client; without a compiler the wheel is pure.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClientHook(BuildHookInterface[Any]):
    """Extend Hatchling's build. Hatchling finds this class by its type."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the program of one platform, and set the tag of that platform's wheel."""
        name = os.environ.get("CALLOSUM_WHEEL", "")
        if self.target_name != "wheel" or version == "editable" or name == "pure":
            return
        if name:
            tag = os.environ["CALLOSUM_WHEEL_TAG"]
            program = "callosum-hook.exe" if name.startswith("windows") else "callosum-hook"
            built = Path(os.environ["CALLOSUM_WHEEL_CLIENTS"]) / name / program
            if not built.is_file():
                raise FileNotFoundError(f"{built} is missing: python -m release.client --all")
        else:
            sys.path.insert(0, self.root)  # a front end may start the build without the current folder
            from release.client import build_here  # noqa: PLC0415

            self._folder = TemporaryDirectory(prefix="callosum-client-")  # as long as the build
            compiled = build_here(Path(self._folder.name))
            if compiled is None:
                return
            built, tag = compiled, sysconfig.get_platform().translate(str.maketrans("-.", "__"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        build_data["force_include"][str(built)] = f"callosum/hosts/native/{built.parent.name}/{built.name}"
