"""Windows programs on this machine, run by Wine in a prefix of their own."""

import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

WINE: Final = shutil.which("wine")
WHY_NOT: Final = "the hook client for Windows is NOT run: this needs wine (Debian: wine64 wine) and the package ziglang"
IS_HERE: Final = WINE is not None and importlib.util.find_spec("ziglang") is not None
_TRUST: Final = Path(__file__).with_name("trust.c")


class Wine:
    """A Wine prefix, the disk of a Windows machine. ``end`` stops the programs in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environ = {**os.environ, "WINEPREFIX": str(folder / "prefix"), "WINEDEBUG": "-all", "DISPLAY": ""}
        self._trust: Path | None = None
        (folder / "prefix").mkdir()
        # One server for the whole test: each start of it takes seconds.
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["wineserver", "-p"], env=self.environ, check=True, timeout=60, **quiet)
        subprocess.run(["wine", "wineboot", "-i"], env=self.environ, check=True, timeout=300, **quiet)

    def run(self, *words: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a program whose arguments are paths of this machine; they mean the same in its folder."""
        options = {"capture_output": True, "timeout": 120, "cwd": "/", "env": self.environ, **options}
        return subprocess.run(["wine", *map(str, words)], check=False, **options)

    def trust(self, certificate: Path) -> None:
        """Make programs in the prefix trust a certificate, whose file is in PEM."""
        if self._trust is None:
            self._trust = self._folder / "trust.exe"
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"]
            subprocess.run([*compiler, "-o", str(self._trust), str(_TRUST), "-lcrypt32"], check=True)
        encoded = self._folder / "certificate"
        encoded.write_bytes(ssl.PEM_cert_to_DER_cert(certificate.read_text()))
        done = self.run(self._trust, encoded)
        assert done.returncode == 0, done

    def end(self) -> None:
        """End every program in the prefix, which has a server of its own."""
        subprocess.run(["wineserver", "-k"], env=self.environ, check=False, capture_output=True, timeout=60)
        subprocess.run(["wineserver", "-w"], env=self.environ, check=False, capture_output=True, timeout=60)
