"""Add the native hook client of the requested platform to a wheel when it is built.

``CALLOSUM_WHEEL=linux-x86_64`` builds the wheel of that platform (see ``release.wheels``). Without it the wheel is
pure, and hooks use the script.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClientHook(BuildHookInterface[Any]):
    """Extend Hatchling's build. Hatchling finds this class by its type."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the program of one platform, compiled by ``release.client``, and set the tag of that platform's wheel."""
        name, tag = os.environ.get("CALLOSUM_WHEEL", ""), os.environ.get("CALLOSUM_WHEEL_TAG", "")
        if self.target_name != "wheel" or version == "editable" or not name:
            return
        program = "callosum-hook.exe" if name.startswith("windows") else "callosum-hook"
        path_in_wheel = f"callosum/hosts/native/{name}/{program}"
        built = Path(os.environ["CALLOSUM_WHEEL_CLIENTS"]) / name / program
        if not built.is_file():
            raise FileNotFoundError(f"{built} is missing: python -m release.client --all")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        build_data["force_include"][str(built)] = path_in_wheel
