"""What is tried: each target builds an input from a ``Source``, drives the real code and checks the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fuzz.source import Source
from fuzz.targets import classify, growth, keys, redaction, rules, shell, sketch, structured, wire


class Target(NamedTuple):
    """One target. ``words``: what a fuzzer may put in where it mutates text. ``minute``: how many inputs a short
    campaign tries, some five seconds' worth.
    """

    name: str
    about: str
    run: Callable[[Source], None]
    words: tuple[str, ...] = ()
    minute: int = 5000


TARGETS: Final = (
    Target("classify", "any call by any host", classify.run, classify.WORDS, minute=7000),
    Target("shell", "command lines", shell.run, shell.WORDS, minute=2500),
    Target("structured", "patches, SQL, here-documents", structured.run, structured.WORDS, minute=3000),
    Target("keys", "addresses, paths, URLs, slots and ids", keys.run, keys.WORDS, minute=10000),
    Target("sketch", "the content of calls", sketch.run, minute=7000),
    Target("rules", "files with rules and settings", rules.run, rules.WORDS, minute=8000),
    Target("wire", "bodies of /intercept and /complete", wire.run, wire.WORDS, minute=16000),
    Target("redaction", "secrets among params and texts", redaction.run, redaction.WORDS, minute=2500),
    Target("growth", "time: four times the input, four times the work", growth.run, shell.WORDS, minute=120),
)
