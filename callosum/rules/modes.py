"""What a call's params add to its act: a dry run, a flag that makes it grave, a command line that is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from callosum.rules import lexicon as lex
from callosum.rules import shell
from callosum.rules.lexicon import groups, lists, maps

if TYPE_CHECKING:
    from callosum.model import Call
    from callosum.rules.judge import Look
    from callosum.rules.name import Name


Flags = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def flags(names: tuple[str, ...]) -> Flags:
    """Return those of some params that can be flags, each with its plain spelling."""
    known = lex.DRY_RUN_PARAMS.union(*groups.GRAVE_FLAGS.values())
    plain = [(name, re.sub("[_-]", "", name).lower()) for name in names if type(name) is str and len(name) < 64]
    return tuple(pair for pair in plain if pair[1] in known)


def _flag(params: Mapping[str, Any], found_flags: Flags, verb: str, head: str) -> tuple[int, str] | None:
    """Return the tier that a flag gives to an act on ``head``, with the reason; None without such a flag.

    A dry run is tier 0. What is made anew, or is one file, loses nothing by being overwritten or public.
    """
    found = None
    for name, plain in found_flags:
        said = str(params[name])[:32].lower() if isinstance(params[name], (bool, int, str)) else ""
        if said == "true" and plain in lex.DRY_RUN_PARAMS:
            return 0, f'its param "{name}" asks for a dry run'
        loses = head not in lists.FILE_PARAMS and maps.ACT_KINDS.get(verb) != "make"
        if loses and plain in groups.GRAVE_FLAGS.get(said, ()):
            found = 4, f'its param "{name}" says "{said}"'
    return found


def _runs_what_is_grave(call: Call, params: Mapping[str, Any], name: Name) -> bool:
    """Return True if a param of a tool that runs things holds a command line, or code, of tier 4."""
    store = "" if lex.STORE_NOUNS.isdisjoint(name.words) else "redis-cli "
    runner = not lex.EXECUTOR_WORDS.isdisjoint(name.words)
    for param, value in islice(params.items(), 16):
        if param not in lex.EXECUTOR_PARAMS and (not runner or param in lex.TEXT_PARAMS):
            continue
        words = value[:64] if isinstance(value, (list, tuple)) else [value]
        text = " ".join([word for word in words if type(word) is str])[:8192]
        for line in (store + text, shlex.join(("python3", "-c", text))) if text.strip() else ():
            if shell.judge(line, call.cwd, home=call.home).tier == 4:
                return True
    return False


def flagged(seen: Look, params: Mapping[str, Any], found: Flags) -> Look:
    """Return a look with what flags among the params say: a dry run only looks, others make an act grave."""
    if not seen.sure or (flag := _flag(params, found, seen.verb, seen.name.head)) is None:
        return seen
    if flag[0] == 0:
        return seen._replace(tier=0, effect="read", repeats=False, why=(flag[1],))
    return seen._replace(tier=max(seen.tier, flag[0]), why=(*seen.why, flag[1]))


def running(call: Call, params: Mapping[str, Any], seen: Look) -> Look:
    """Return the look of a tool that runs what it is given, at tier 4 if a param holds something of tier 4."""
    if not _runs_what_is_grave(call, params, seen.name):
        return seen
    return seen._replace(tier=4, effect="write", why=(*seen.why, "a param holds a command line, or code, that does it"))
