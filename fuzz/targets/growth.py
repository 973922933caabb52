"""Time: an input four times as long takes about four times as long, or is refused by a limit."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from callosum.errors import ConfigError
from callosum.model import Call
from callosum.redact import redact_text, summarise
from callosum.rules import RuleSet
from callosum.rules.harvest import harvest
from callosum.rules.shell import judge
from fuzz import make
from fuzz.check import check
from fuzz.source import Source
from fuzz.targets.classify import RULES
from fuzz.targets.shell import WORDS

SMALL: Final = 12_000
"""Characters of the shorter input: within the caps of most of what is read."""
TIMES: Final = 4
WORST: Final = 10.0
"""How much longer the longer may take: linear is 4, quadratic 16."""
FLOOR: Final = 0.02
"""Seconds; what takes less is fast enough, whatever it grows like."""
_TRIES: Final = 4


def run(source: Source) -> None:
    """Repeat a piece until it is long, and measure one parser on it, once and at four times the length."""
    what = source.pick(tuple(READERS))
    before, after = (
        source.pick(("", "echo ", "rm -rf ", "'", '"', "select ", "A=b; ", "{", "To: ")),
        source.pick(("", "'", " | sh", "\n")),
    )
    unit = "".join(source.pick(WORDS) + source.pick(("", " ")) for _ in range(1 + source.number(5))) + source.text(8)
    grows(what, READERS[what], lambda length: before + unit * (length // len(unit) + 1) + after, unit)


def grows(what: str, read: Callable[[str], object], made: Callable[[int], str], unit: str) -> None:
    """Check that reading a text four times as long takes at most ``WORST`` times as long.

    CPU time of this process, the best of a few alternating rounds, so that a busy machine does not count.
    """
    small, large = made(SMALL), made(SMALL * TIMES)
    best = [float("inf"), float("inf")]
    for _ in range(_TRIES):
        for place, text in enumerate((small, large)):
            best[place] = min(best[place], _seconds(read, text))
        if best[1] < FLOOR or best[1] <= WORST * best[0]:
            return
    check(False, f"{what}: {TIMES} times as long took {best[1] / best[0]:.1f} times the time", unit, best)


def _seconds(read: Callable[[str], object], text: str) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        began = time.process_time()
        read(text)
        return time.process_time() - began
    finally:
        if collecting:
            gc.enable()


def _call(tool: str, params: Callable[[str], dict[str, Any]]) -> Callable[[str], object]:
    return lambda text: RULES.classify(Call("a", tool, params(text), cwd="/w"))


def _rules(text: str) -> object:
    try:
        return RuleSet.parse(text, secret=b"s")
    except ConfigError as error:
        return error


READERS: Final[dict[str, Callable[[str], object]]] = {
    "a command line": lambda text: judge(text, "/w"),
    "a command by a tool": _call("Bash", lambda text: {"command": text}),
    "a message": _call("send_email", lambda text: {"to": "a@x.org", "body": text}),
    "recipients": _call("send_email", lambda text: {"to": text.split(), "body": "x"}),
    "an address": _call("send_email", lambda text: {"to": text}),
    "a path": _call("write_file", lambda text: {"path": text, "content": text}),
    "SQL": _call("run_sql", lambda text: {"sql": text}),
    "a patch": _call("apply_patch", lambda text: {"input": text}),
    "an address of the web": _call("fetch_page", lambda text: {"url": text}),
    "ids": _call("delete_items", lambda text: {"ids": text.split()}),
    "many params": _call("handle", lambda text: {f"{one}{at}": one for at, one in enumerate(text.split())}),
    "a tool's name": lambda text: RULES.classify(Call("a", text or "x", {"x": 1})),
    "a description": lambda text: RULES.classify(Call("a", "zzz", {"x": 1}, description=text)),
    "a result": lambda text: harvest("list_orders", (), {"orders": [{"id": one} for one in text.split()]}),
    "a result as text": lambda text: harvest("list_orders", (), text),
    "a document": lambda text: make.document(text) and RULES.classify(Call("a", "x", {"data": make.document(text)})),
    "a secret's place": redact_text,
    "a summary": lambda text: summarise({"a": text, "b": text.split()}, mode="full"),
    "a rules file": _rules,
}
