"""Classifying a call where it runs, for the spool: by the rules of its state folder, with the folder's content key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callosum.model import Call
    from callosum.rulebook import Rulebook


class Classifier:
    """Classifies calls by the rules of ``state``, which are loaded with the first call.

    ``folder`` is the one of the spool, whose content key makes the hashes: a gate with the same key compares them, any
    other only tells records apart by them. By default both are the same folder.
    """

    def __init__(self, state: str, folder: str | None = None) -> None:
        self._state = state
        self._folder = folder or state
        self._rules: Rulebook | None = None

    def __call__(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``found`` and ``contentKey`` as a record holds them; empty for a call that cannot be classified.

        ``words`` are the call in the words of the wire.
        """
        import msgspec  # noqa: PLC0415 - like all below: needed when a gate is away, not at each start

        from callosum.errors import CallosumError  # noqa: PLC0415
        from callosum.model import Call  # noqa: PLC0415

        try:
            return self.of(msgspec.convert(words, Call))
        except (CallosumError, msgspec.ValidationError, ValueError, TypeError, RecursionError, OSError):
            return {}

    def of(self, call: Call) -> dict[str, Any]:
        """Return the same of a ``Call``. Raises what the rules and the state folder raise."""
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
            rules = Rulebook(None, secret=secret)  # rules that cannot be read: the shipped ones
        self._rules = rules
        return rules
