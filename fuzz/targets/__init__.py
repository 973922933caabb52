"""The fuzz targets: each builds an input from a ``Source``, drives the real code and checks the answer."""

from __future__ import annotations

from typing import Final

from fuzz.target import Target
from fuzz.targets import classify, growth, hook, keys, offline, redaction, rules, shell, sketch, structured, wire

TARGETS: Final = (
    Target("classify", "any call by any host", classify.run, classify.WORDS, minute=7000),
    Target("shell", "command lines", shell.run, shell.WORDS, minute=2500),
    Target("structured", "patches, SQL, here-documents", structured.run, structured.WORDS, minute=3000),
    Target("keys", "addresses, paths, URLs, slots and ids", keys.run, keys.WORDS, minute=10000),
    Target("sketch", "the content of calls", sketch.run, minute=7000),
    Target("rules", "files with rules and settings", rules.run, rules.WORDS, minute=8000),
    Target("wire", "bodies of /intercept and /complete", wire.run, wire.WORDS, minute=16000),
    Target("redaction", "secrets among params and texts", redaction.run, redaction.WORDS, minute=2500),
    Target("hook", "answers of gates to the native hook client", hook.run, hook.WORDS, minute=150),
    Target(
        "offline",
        "calls to the hook client for Windows while nobody can be asked",
        offline.run,
        offline.WORDS,
        minute=20000,
    ),
    Target("growth", "time: four times the input, four times the work", growth.run, shell.WORDS, minute=120),
)

__all__ = ["TARGETS", "Target"]
