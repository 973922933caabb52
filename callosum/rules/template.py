"""Key templates: ``channel:{params.target|params.channel|unknown}`` compiled to a function.

A template is literal text with placeholders in braces. A placeholder is a list of alternatives,
the first that has a value wins:

``params.X``, ``params.X.Y``  a param of the call (``params.action`` is also the wire's ``action``)
``tool``, ``cwd``             the tool's name, the working directory
``commandRecipient``          every e-mail addressee of a shell command
``commandThread``             the mail that a shell command replies to
``commandPath``               every path that a shell command removes
``commandRepo``               the hosted repository a ``gh`` command names
``patchPath``                 every file that a patch touches
``pathFolder``                the folder of the file that a param such as ``path`` or ``filename`` names
anything else                 literal text, last and never alone; ``unknown`` counts as no value

A list of values gives a key for each. A placeholder without a value gives no key at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Any, Final

from callosum.model import Call
from callosum.rules import command, keys

Values = Callable[[Call, Mapping[str, Any]], Sequence[str]]
Derive = Callable[[Call, Mapping[str, Any]], Sequence[str]]

MAX_TEMPLATE: Final = 512

_PARAM: Final = re.compile(r"params((?:\.[^.{}|\s]+)+)")
_LITERAL: Final = re.compile(r"[^{}|.]+")
_ENTITY: Final = re.compile(r"[a-z][a-z0-9_.+-]*:")


class TemplateError(ValueError):
    """The template cannot be used; the text says why."""


def compile_template(template: str) -> Derive:
    """Return the function that derives a template's keys from a call. Raises ``TemplateError``."""
    if not template.strip():
        raise TemplateError("expected a key template, got an empty string")
    if len(template) > MAX_TEMPLATE:
        raise TemplateError(f"expected at most {MAX_TEMPLATE} characters, got {len(template)}")
    parts = [part for part in _split(template) if part != ""]
    prefix = ""
    if isinstance(parts[0], str):
        if parts[0].strip().lower() in ("unknown", "null", "none"):
            raise TemplateError(f"{template!r} names nothing")
        if match := _ENTITY.match(parts[0]):
            prefix = match.group()
            parts[0] = parts[0][len(prefix) :]
    if prefix and len(parts) == 2 and parts[0] == "":
        return _single(prefix, parts[1])
    return _general(prefix, parts, written_tree=template.endswith("/"))


def thread_alone(template: str) -> Derive | None:
    """Return what derives the thread alone (``thread:|msg-500``) where a template says with whom it is, else None.

    So a call that a rule names meets one that names its thread only.
    """
    match = _THREAD.fullmatch(template)
    if match is None:
        return None
    values = _placeholder(match.group(1))
    return lambda call, params: [name for value in values(call, params) for name in keys.thread(value)]


def takes_params(template: str) -> bool:
    """Return True if a template's keys are the texts of params as they are."""
    return _AS_THEY_ARE.fullmatch(template) is not None


_AS_THEY_ARE: Final = re.compile(r"(?:[a-z]+:)?\{params\.\w+(?:\|params\.\w+)*(?:\|unknown)?\}")
_THREAD: Final = re.compile(r"thread:.*:\{([^{}]+)\}")


def _split(template: str) -> list[Any]:
    """Cut a template into literal strings and functions."""
    parts: list[Any] = []
    rest = template
    while rest:
        literal, brace, rest = rest.partition("{")
        if "}" in literal:
            raise TemplateError("a closing brace without an opening one")
        parts.append(literal)
        if not brace:
            break
        inner, close, rest = rest.partition("}")
        if not close or "{" in inner:
            raise TemplateError("an opening brace without a closing one")
        parts.append(_placeholder(inner))
    return parts


def _placeholder(inner: str) -> Values:
    alternatives = [part.strip() for part in inner.split("|")]
    if not all(alternatives):
        raise TemplateError(f"an empty alternative in {{{inner}}}")
    getters: list[Values] = []
    plain: list[str] = []
    for place, alternative in enumerate(alternatives):
        if alternative in _SOURCES:
            getters.append(_SOURCES[alternative])
        elif match := _PARAM.fullmatch(alternative):
            path = match.group(1)[1:].split(".")
            plain += path if len(path) == 1 else []
            getters.append(_params([path[0]]) if len(path) == 1 else _deep(path))
        elif place == 0 or not _LITERAL.fullmatch(alternative) or alternative == "params":
            known = ", ".join(["params.X", *_SOURCES])
            raise TemplateError(f"unknown placeholder {{{alternative}}}; known are {known}")
        elif place < len(alternatives) - 1:
            raise TemplateError(f"the literal {alternative!r} must come last in {{{inner}}}")
        elif alternative.lower() != "unknown":
            getters.append(partial(_fixed, (alternative,)))
    if len(getters) == len(plain):
        return _params(plain)  # the commonest kind in one loop
    if len(getters) == 1:
        return getters[0]

    def first(call: Call, params: Mapping[str, Any]) -> Sequence[str]:
        for getter in getters:
            values = getter(call, params)
            if values:
                return values
        return ()

    return first


def _fixed(texts: tuple[str, ...], _call: Call, _params: Mapping[str, Any]) -> Sequence[str]:
    return texts


def _params(names: list[str]) -> Values:
    """Return the first of some params that has a value."""

    def read(_call: Call, params: Mapping[str, Any]) -> Sequence[str]:
        for name in names:
            value = params.get(name)
            if type(value) is str:
                value = value.strip()
                if value and value != "unknown":
                    return (value,)
            elif value is not None:
                values = flatten(value)
                if values:
                    return values
        return ()

    return read


def _deep(path: list[str]) -> Values:
    """Return a value inside an object."""

    def read(_call: Call, params: Mapping[str, Any]) -> Sequence[str]:
        value: Any = params
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        return flatten(value)

    return read


def _folder(call: Call, params: Mapping[str, Any]) -> Sequence[str]:
    """Return the folder of the file that the call names, without a slash at its end."""
    for value in _FILE(call, params):
        above, slash, _ = keys.path(keys.clean(value), call.cwd).rstrip("/").rpartition("/")
        return (above if slash else ".",)
    return ()


_FILE: Final = _params(["path", "file_path", "filePath", "filename", "target_file", "absolute_path"])


def flatten(value: Any) -> list[str]:
    """Return the texts of a value: one for a scalar, one for each scalar of a list (at most 256)."""
    if isinstance(value, (list, tuple)):
        texts = [item.strip() if type(item) is str else keys.text(item) for item in islice(value, 256)]
        return [text for text in texts if text and text != "unknown"]
    text = keys.text(value)
    return [text] if text and text != "unknown" else []


_SOURCES: Final[dict[str, Values]] = {
    "tool": lambda call, params: (call.tool,),
    "cwd": lambda call, params: (call.cwd,) if call.cwd else (),
    "commandRecipient": lambda call, params: command.recipients(command.of(params)),
    "commandThread": lambda call, params: command.threads(command.of(params)),
    "commandPath": lambda call, params: command.removed(command.of(params)),
    "commandRepo": lambda call, params: command.repositories(command.of(params)),
    "patchPath": lambda call, params: command.patched(params),
    "pathFolder": _folder,
}


def _single(prefix: str, values: Values) -> Derive:
    """Return the commonest form: an entity and one placeholder."""
    spell = keys.spell

    def derive(call: Call, params: Mapping[str, Any]) -> Sequence[str]:
        found = values(call, params)
        if len(found) == 1:
            return spell(prefix, found[0], call.cwd)
        return [name for value in found for name in spell(prefix, value, call.cwd)]

    return derive


def _general(prefix: str, parts: list[Any], *, written_tree: bool) -> Derive:
    def derive(call: Call, params: Mapping[str, Any]) -> Sequence[str]:
        columns: list[list[str]] = []
        for part in parts:
            columns.append([part] if type(part) is str else [keys.clean(value) for value in part(call, params)])
            if not columns[-1]:
                return []
        found: list[str] = []
        for row in islice(product(*columns), 4 * keys.MAX_KEYS):
            # A bar that the rule itself wrote is a facet; those of values are escaped by now.
            value, bar, facet = "".join(row).partition("|")
            names = keys.spell(prefix, value, call.cwd) if prefix else keys.canonical(value, call.cwd)
            if bar:
                found += [keys.fit(name + bar + keys.clean(facet)) for name in names]
            elif written_tree:
                found += [keys.fit(name.rstrip("/") + "/") for name in names]
            else:
                found += names
        return found

    return derive
