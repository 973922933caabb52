"""Programs that listen, in processes of their own: started, watched, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

SECONDS = 30.0
"""How long one may take to start or to stop."""


@dataclass(frozen=True)
class Served:
    """One that listens: its process and its address (``http://HOST:PORT`` or ``unix:PATH``)."""

    process: psutil.Process
    address: str

    def cpu(self) -> float:
        """The processor time it has taken, in seconds."""
        times = self.process.cpu_times()
        return times.user + times.system

    def memory(self) -> tuple[float, float]:
        """What it holds, in megabytes: unique and resident set."""
        found = self.process.memory_full_info()
        return found.uss / 1e6, found.rss / 1e6


@contextmanager
def started(
    module: str,
    *options: str,
    log: Path,
    environ: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> Iterator[Served]:
    """Run ``python -m module options --ready-fd N`` until the block ends."""
    from callosum.server.listeners import heard  # noqa: PLC0415 - earlier versions, which import this file, lack it

    read, write = os.pipe()
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *options, "--ready-fd", str(write)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=(write,),
            env={**os.environ, **(environ or {})},
            cwd=working_folder,
        )
    os.close(write)
    try:
        address = heard(read, SECONDS)
        if not address:
            raise RuntimeError(f"{module} did not start: {log.read_text()[-2000:]}")
        yield Served(psutil.Process(process.pid), address)
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def callosum(
    state: Path, *options: str, environ: Mapping[str, str] | None = None, working_folder: Path | None = None
) -> Iterator[Served]:
    """Run the server with its defaults, on a free port of the loopback or as the options say."""
    where = () if "--socket" in options else ("--port", "0")
    arguments = ("serve", "--state", str(state), *where, *options)
    with started(
        "callosum.cli", *arguments, log=state.with_suffix(".log"), environ=environ, working_folder=working_folder
    ) as served:
        yield served
