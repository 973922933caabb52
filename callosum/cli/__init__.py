"""The command ``callosum``: thin commands over the gate, one module a group.

``main`` is the program. What a command says goes to standard output, what went wrong in one sentence to
standard error, and the exit code tells a program which of the two it was (``codes``).
"""

from __future__ import annotations

import gc
import io
import sys
from typing import NoReturn

from callosum import __version__
from callosum.cli.codes import INTERRUPTED, NO, OK, code_of
from callosum.errors import CallosumError


def main() -> None:
    """Run the command with the arguments of the process, and end it with the exit code."""
    if sys.argv[1:] == ["--version"]:  # asked of a fresh installation and by scripts: nothing else is loaded
        print(f"callosum {__version__}")  # noqa: T201
        return
    usual = gc.get_threshold()
    gc.set_threshold(100_000)  # what loading makes stays: searching it for garbage takes a tenth of a start
    _say_what_can_be_said()
    from callosum.cli.app import app_for

    try:
        app = app_for(sys.argv[1:])
        gc.freeze()
        gc.set_threshold(*usual)
        app(prog_name="callosum")
    except CallosumError as error:
        _complain(str(error), code_of(error))
    except BrokenPipeError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains at its end that nobody reads any more
        sys.exit(OK)  # the reader has seen enough: `callosum journal | head`
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _complain(f"{place}{error.strerror or error}", NO)


def _complain(text: str, code: int) -> NoReturn:
    from callosum.cli.text import clean

    print(f"callosum: {clean(text, 2000)}", file=sys.stderr)  # noqa: T201  rich is not loaded here
    sys.exit(code)


def _say_what_can_be_said() -> None:
    """Have characters that the output's encoding lacks shown as ``?``, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
