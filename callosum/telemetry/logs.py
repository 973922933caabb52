"""Events of the corpus as lines of the standard ``logging``.

::

    logging.basicConfig(level=logging.INFO)
    Logs(corpus)
    # INFO:callosum.events:tool.completed {"name":"github_prs","duration":1204.0,"at":1715850906.2,...}
"""

from __future__ import annotations

import logging
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, encode

LOGGER: Final = "callosum.events"
LONGEST: Final = 2000
"""Longest payload in a line, in characters; a longer one is cut, with an ellipsis."""

_LEVELS: Final = {
    "context.built": logging.DEBUG,
    "cortex.reindexed": logging.DEBUG,
    "health.ok": logging.DEBUG,
    "llm.token": logging.DEBUG,
    "scheduler.tick": logging.DEBUG,
    "health.warning": logging.WARNING,
    "llm.error": logging.WARNING,
    "resource.low.context": logging.WARNING,
    "resource.low.disk": logging.WARNING,
    "resource.low.memory": logging.WARNING,
    "safety.blocked": logging.WARNING,
    "task.failed": logging.WARNING,
    "tool.failed": logging.WARNING,
    "health.critical": logging.ERROR,
}
"""Levels of events; any other event is INFO."""


class Logs:
    """Write a record for each event to ``logger`` (default: ``callosum.events``), in the emitter's thread.

    The message is the dotted name and the payload as JSON on one line, without invisible characters. The record also
    has ``event``, ``instance`` and ``namespace``, for formatters that use them.
    """

    def __init__(self, corpus: Corpus, logger: logging.Logger | None = None) -> None:
        self._logger = logging.getLogger(LOGGER) if logger is None else logger
        self._off = corpus.on(CorpusEvent, self._log)

    def close(self) -> None:
        """End the subscription. Idempotent."""
        self._off()

    def _log(self, event: CorpusEvent) -> None:
        level = _LEVELS.get(event.dotted, logging.INFO)
        if self._logger.isEnabledFor(level):
            more = {"event": event.dotted, "instance": event.instance, "namespace": event.namespace}
            self._logger.log(level, "%s %s", event.dotted, _payload(event), extra=more)


def _payload(event: CorpusEvent) -> str:
    text = encode(event).decode()
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text if text.isprintable() else "".join(map(_seen, text))


def _seen(char: str) -> str:
    """Return the character, escaped as in JSON if it would be invisible or break the line."""
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
