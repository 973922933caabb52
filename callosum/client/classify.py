"""Classify calls in the client for the spool, with the rules and the content key of a state folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callosum.model import Call
    from callosum.rulebook import Rulebook


class Classifier:
    """Classifies calls by the rules of ``state``, which are loaded with the first call.

    ``folder`` is the spool's state folder (default: ``state``). Its content key makes the hashes. A gate with the same
    key compares them with its own; any other gate only uses them to tell records apart.
    """

    def __init__(self, state: str, folder: str | None = None) -> None:
        self._state = state
        self._folder = folder or state
        self._rules: Rulebook | None = None

    def __call__(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``found`` and ``contentKey`` as a spool record holds them; empty if the call cannot be classified.

        ``words`` is the call in wire form.
        """
        import msgspec  # noqa: PLC0415 - as are all imports below: needed only while the gate is unreachable

        from callosum.errors import CallosumError  # noqa: PLC0415
        from callosum.model import Call  # noqa: PLC0415

        try:
            return self.of(msgspec.convert(words, Call))
        except (CallosumError, msgspec.ValidationError, ValueError, TypeError, RecursionError, OSError):
            return {}

    def of(self, call: Call) -> dict[str, Any]:
        """Return the same for a ``Call``. Raises whatever the rules and the state folder raise."""
        import msgspec  # noqa: PLC0415

        from callosum.wire import LateClassification  # noqa: PLC0415
        from callosum.worktree import located  # noqa: PLC0415

        rules = self._rules or self._load()
        classification = rules.current().classify(located(call))
        found = LateClassification(
            tier=classification.tier,
            keys=classification.keys,
            rule=classification.rule,
            effect=classification.effect,
            content=classification.content,
            gap=classification.gap,
        )
        return {"found": msgspec.to_builtins(found), "contentKey": rules.fingerprint}

    def _load(self) -> Rulebook:
        from pathlib import Path  # noqa: PLC0415

        from callosum.errors import CallosumError  # noqa: PLC0415
        from callosum.rulebook import Rulebook, content_secret  # noqa: PLC0415
        from callosum.settings import load  # noqa: PLC0415

        secret = content_secret(Path(self._folder))
        try:
            rules = Rulebook.of(load({"state": self._state}), secret=secret)
        except CallosumError:
            rules = Rulebook(None, secret=secret)  # the rules cannot be read: use the default rules
        self._rules = rules
        return rules
