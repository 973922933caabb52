"""Start Python programs of the package without each of them importing it again.

Most of the processor time of a short command goes into imports. ``Popen`` and ``run`` here work like those of
``subprocess`` with one difference: for ``python -m module`` or ``python -c text``, a fork server that has imported the
package forks the process. The fork then takes over its own arguments, environment, folder and open files, and becomes a
child of the caller. Because nothing is imported for the first time, only tests that use ``subprocess`` find a program
that does not import what it needs.

Any other program is started by ``subprocess``, and so is every program on a system without subreapers.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import callosum
from callosum.errors import ConfigError
from callosum.redact import redact_text
from callosum.rulebook import Rulebook
from callosum.settings import default_state

ROOT: Final = Path(__file__).resolve().parents[2]
_SUBREAPER: Final = 36
"""``PR_SET_CHILD_SUBREAPER``: who is one becomes the parent of orphans below."""
_ABOVE: Final = 512
"""Files that came with a request lie above this number until they get their own."""
_READ_AT_START: Final = (
    "PYTHON", "LC_", "LANG", "TYPER_", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH",
)  # fmt: skip
"""How the names of the variables begin that Python and the libraries read once, when they start."""
_ALIKE: Final = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
_PLAIN: Final = {
    "close_fds": True, "executable": None, "preexec_fn": None, "shell": False, "process_group": -1, "gid": None,
    "gids": None, "uid": None, "umask": -1,
}  # fmt: skip
"""What a request for a process may not ask for here."""
_TURN: Final = threading.Lock()
"""One request at a time."""


class Popen(subprocess.Popen[Any]):
    """A process that is forked if possible."""

    def _execute_child(self, *asked: Any) -> None:
        """Start the process; ``subprocess`` calls this with its pipes already created."""
        start = super()._execute_child  # type: ignore[misc]
        wanted = inspect.signature(start).bind(*asked).arguments
        args = [str(word) for word in wanted["args"]]
        given = os.environ if wanted["env"] is None else wanted["env"]
        plain = all(wanted[name] == value for name, value in _PLAIN.items())
        if not _forks(args) or not plain or "LD_PRELOAD" in given:  # a library is preloaded only by a real start
            start(*asked)
            return
        files = [("p2cread", 0), ("c2pwrite", 1), ("errwrite", 2)]
        placed = {number: number if wanted[name] == -1 else wanted[name] for name, number in files}
        placed |= {number: number for number in wanted["pass_fds"]}
        environ = {str(name): str(value) for name, value in given.items()}
        order = {
            "args": args[1:],
            "environ": environ,
            "folder": str(Path.cwd() / (wanted["cwd"] or "")),
            "umask": _umask(),
            "session": wanted["start_new_session"],
            "numbers": list(placed),
        }
        with _TURN:
            server = _server(tuple(sorted(_at_start(environ).items())))
            self.pid = server.fork(order, list(placed.values()))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(wanted[name] for name in pipes))  # type: ignore[attr-defined]


def run(
    args: Sequence[str],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **more: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program like ``subprocess.run``."""
    if input is not None:
        more["stdin"] = subprocess.PIPE
    if capture_output:
        more["stdout"] = more["stderr"] = subprocess.PIPE
    with Popen(args, **more) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def shared_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with those that are read at the start set as in all programs of the tests.

    So one fork server serves them all.
    """
    return {name: value for name, value in environ.items() if not name.startswith(_READ_AT_START)} | _ALIKE


def _forks(args: Sequence[str]) -> bool:
    return sys.platform == "linux" and args[0] == sys.executable and len(args) > 2 and args[1] in {"-c", "-m"}


def _at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_READ_AT_START)}


def _umask() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:")), 8)


class _Server:
    """The fork server as its client sees it. It ends with its client."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._prctl = ctypes.CDLL(None).prctl
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
                env={
                    **{name: os.environ[name] for name in os.environ.keys() - _at_start(os.environ).keys()},
                    **environ,
                },
            )

    def close(self) -> None:
        """End the server; its forks keep running."""
        self._channel.close()
        self._process.wait()

    def fork(self, order: Mapping[str, Any], files: Sequence[int]) -> int:
        """Have a process forked; return its pid."""
        text = json.dumps(order).encode()
        self._prctl(_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._channel, [len(text).to_bytes(8)], files)
            self._channel.sendall(text)
            return int.from_bytes(_exactly(self._channel, 8))
        finally:
            self._prctl(_SUBREAPER, 0, 0, 0, 0)


@cache
def _server(environ: tuple[tuple[str, str], ...]) -> _Server:
    server = _Server(dict(environ))
    atexit.register(server.close)
    return server


def _exactly(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            raise EOFError("the fork server has ended")
        data += more
    return data


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork one process for each request.

    Return in each fork with the request, and in the server at its end.
    """
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the signal is meant for the forks
    while True:
        head, files, _, _ = socket.recv_fds(channel, 8, 253)
        if not head:
            return None
        order: dict[str, Any] = json.loads(_exactly(channel, int.from_bytes(head)))
        told, tell = os.pipe()
        go, let_go = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                os.write(tell, pid.to_bytes(8))
                os._exit(0)
            os.close(let_go)
            os.read(go, 1)
            signal.signal(signal.SIGINT, interrupted)
            return {**order, "files": files}
        os.waitpid(between, 0)
        number = os.read(told, 8)
        for file in (
            *files,
            told,
            tell,
            go,
            let_go,
        ):  # the fork starts once this is closed, because its parent is then the caller
            os.close(file)
        channel.sendall(number)


def _become(order: Mapping[str, Any]) -> None:
    """Turn this process into the one that a real start would have made."""
    files = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE) for file in order["files"]]
    os.closerange(0, _ABOVE)
    for file, number in zip(files, order["numbers"], strict=True):
        os.dup2(file, number)
        os.close(file)
    if order["session"]:
        os.setsid()
    os.umask(order["umask"])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    time.tzset()
    tempfile.tempdir = None
    sys.stdin = sys.__stdin__ = _stream(0, "rb", sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "wb", sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "wb", sys.stderr)  # type: ignore[misc]


def _stream(number: int, mode: str, like: Any) -> io.TextIOWrapper:
    """Open one of the three standard streams as Python does."""
    buffer = open(number, mode, buffering=0 if like.write_through else -1, closefd=False)  # noqa: SIM115
    raw: Any = getattr(buffer, "raw", buffer)
    raw.name = like.name
    line_buffering = number == 2 or os.isatty(number)
    return io.TextIOWrapper(
        buffer, like.encoding, like.errors, "\n", line_buffering=line_buffering, write_through=like.write_through
    )


def execute(args: Sequence[str]) -> None:
    """Do in this process what ``python`` does with these arguments."""
    kind, what, *words = args
    if kind == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv[:] = ["", *words]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = ""
    sys.argv[:] = ["-c", *words]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), main.__dict__)  # noqa: S102


def _end(code: Any) -> None:
    """End this process as Python does, but skip the teardown of modules, which takes longer than most commands.

    If there is something to report at the end, Python itself does it.
    """
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit((code or 0) & 0xFF)
    sys.exit(code)


_LEFT_OUT: Final = frozenset(("callosum.adapters", "callosum.testing"))
"""What no program loads by itself: an adapter brings its whole framework."""


def _modules(package: types.ModuleType) -> Iterator[str]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name not in _LEFT_OUT and not module.name.endswith("__main__"):
            with suppress(ImportError, ConfigError):  # its dependency is optional and missing in this environment
                imported = importlib.import_module(module.name)
                yield module.name
                if module.ispkg:
                    yield from _modules(imported)


def main() -> None:
    """Run the fork server, and in each fork the requested program."""
    for name in (*_modules(callosum), "rich.markdown", "typer.rich_utils"):
        importlib.import_module(name)
    with suppress(ConfigError):
        default_state()  # loads what names the folders of this system
    redact_text("password=hunter2hunter2")  # compiles the search for secrets
    Rulebook(None)  # and the patterns of the default rules
    gc.collect()
    gc.freeze()  # so that a garbage collection copies none of the shared memory
    order = _serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        _become(order)
        code: Any = 0
        try:
            execute(order["args"])
        except SystemExit as end:
            code = end.code
        _end(code)


if __name__ == "__main__":
    main()
