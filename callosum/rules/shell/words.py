"""Put variables and braces into the words of a command, as far as the text itself tells their values."""

from __future__ import annotations

import re
from typing import Final

from callosum.programs import HOSTS
from callosum.rules.shell import programs
from callosum.rules.shell.programs import maps

MAX_WORDS: Final = 4096
"""How many words a command can have after expansion."""
MAX_WORD: Final = 65_536
"""How long a word can get by its variables, in characters."""
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*|\d)(?:\[[@*]\]|:?[-=]([^{}$`]*))?\}|([A-Za-z_]\w*|\d))")
_SEPARATED: Final = re.compile(r"\$(?:\{IFS\}|IFS)(?:\$9)?")
"""What stands for a blank."""
_BRACES: Final = re.compile(r"(?<!\$)\{([^{}\s\"':$]*+)\}")  # the comma is looked for behind it: in linear time
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_KNOWN: Final = {
    **maps.VARIABLE_VALUES,
    **{host.folder_variable: f"~/{host.folder}" for host in HOSTS if host.folder_variable},
}
"""What variables hold where nobody has set them."""

Variables = dict[str, tuple[str, ...]]
"""What a line has set: a name's possible values."""


def expand(words: list[str], variables: Variables) -> list[str]:
    """Return the words with what is known of their variables; what is not known stays as it is."""
    for word in words:
        if "$" in word or "{" in word:
            break
    else:
        return words
    made: list[str] = []
    for place, word in enumerate(words):
        if "$" not in word and "{" not in word:
            made.append(word)
            continue
        if "IFS" in word and len(parts := _SEPARATED.split(word)) > 1:
            made += expand(parts, variables)
            continue
        for one in _braces(word):
            values = _variables(one, variables)
            if one[:1] == "$" and len(values) == 1 and values[0] != one and (not place or values[0][:1] == "-"):
                made += _parted(values[0], variables) or [""]
            else:
                made += values
        if len(made) > MAX_WORDS:
            break
    return made


def _parted(value: str, variables: Variables) -> list[str]:
    """Return the words of a variable's value, parted by what the line says parts words; a substitution stays whole."""
    if value[:2] == "$(":
        return [value]
    signs = variables.get("IFS")
    return value.translate({ord(one): " " for one in signs[0][:8]}).split() if signs else value.split()


def _variables(word: str, variables: Variables) -> list[str]:
    match = _VARIABLE.search(word)
    if match is None:
        return [word]
    several: tuple[str, tuple[str, ...]] | None = None

    def value(match: re.Match[str]) -> str:
        nonlocal several
        name = match.group(1) or match.group(3)
        known = variables.get(name)
        if known is not None:
            if len(known) == 1:
                return known[0]
            if known:
                several = (match.group(), known)
            return match.group()
        if name in _KNOWN:
            return _KNOWN[name]
        default = match.group(2)
        if default and name not in programs.TEMPORARY_VARIABLES:
            return default
        return (
            f"${name}"
            if match.group(1) and not default
            else (f"${name}" if name in programs.TEMPORARY_VARIABLES else match.group())
        )

    made = _VARIABLE.sub(value, word)[:MAX_WORD]
    if several is None and "${" in made and made != word:  # a default that was a variable itself
        made = _VARIABLE.sub(value, made)[:MAX_WORD]
    if several is None:
        return [made]
    return [made.replace(several[0], one) for one in several[1][:16]]


def _braces(word: str) -> list[str]:
    if "," not in word or "{" not in word:
        return [word]
    made = [word]
    for _ in range(4):
        if len(made) > 64 or not any(map(_listed, made)):
            break
        made = [
            one[: match.start()] + part + one[match.end() :] if match else one
            for one in made
            for match in (_listed(one),)
            for part in (_parts(match.group(1)) if match else ("",))
        ]
    return made


def _parts(text: str) -> list[str]:
    """Return the items of a list in braces; of too many the last stands for those that are left out: it may be all."""
    parts = text.split(",", 64)
    return parts if len(parts) <= 64 else [*parts[:63], "$"]


def _listed(word: str) -> re.Match[str] | None:
    return next((match for match in _BRACES.finditer(word) if "," in match.group(1)), None)


def assignment(word: str) -> tuple[str, str] | None:
    """Return name and value of ``NAME=value``, None for any other word."""
    match = _ASSIGNMENT.match(word)
    return (match.group(1), word[match.end() :]) if match else None
