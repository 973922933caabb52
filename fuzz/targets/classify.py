"""The whole classifier: rules, judge, keys and content of one call."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from callosum.model import Call, Classification
from callosum.rules import RuleSet
from callosum.rules.harvest import harvest
from fuzz import make
from fuzz.check import check, sound, well_formed
from fuzz.source import Source

RULES: Final = RuleSet.parse(secret=b"secret", protected=("/state",))
FLOOR: Final = RuleSet.parse('{"rules": [{"tool": "*", "tier": 2}]}', secret=b"secret", protected=("/state",))
"""The same with a rule of the user's that names no tool."""
WORDS: Final = (*(one for one in make.WORDS if one), *make.NAMES, *make.TOOLS)


def run(source: Source) -> None:
    """Classify a call; then again with hints, with fields that the agent sets, and under another rule."""
    asked = _call(source)
    seen = RULES.classify(asked)
    facts = (asked.tool, _shown(asked))
    sound(seen, *facts)
    again = RULES.classify(asked)
    check(_same(seen, again), "the same call is judged alike twice", seen, again, *facts)
    hints = make.hints(source)
    bare, hinted = (RULES.classify(replace(asked, annotations=one)) for one in (None, hints))
    check(hinted.tier >= bare.tier, "no hint lowers a tier", bare, hinted, hints, *facts)
    plain = {name: one for name, one in asked.params.items() if name not in ("_tier", "_contextKey")}
    before = RULES.classify(replace(asked, params=plain))
    says = {**plain, "_tier": make.scalar(source), "_contextKey": make.scalar_text(source)}
    said = RULES.classify(replace(asked, params=says))
    sound(said, *facts)
    check(said.tier >= before.tier, "nothing that the agent says lowers a tier", before, said, says, *facts)
    floored = FLOOR.classify(asked)
    sound(floored, *facts)
    check(floored.tier >= max(2, seen.tier), "a rule for all tools only raises", seen, floored, *facts)
    found = harvest(asked.tool, seen.keys, make.value(source))
    well_formed(found)


def _call(source: Source) -> Call:
    """Return a call from JSON in the remaining bytes, or a generated one."""
    if source.maybe():
        return make.call(source, python=True)
    found = make.document(source.remaining())
    if not isinstance(found, dict) or not isinstance(given := found.get("params", found), dict):
        return Call("a", "unknown_tool", {"value": found})
    texts = {name: one for name in ("action", "cwd", "description") if isinstance(one := found.get(name), str)}
    maps = {name: one for name in ("schema", "annotations") if isinstance(one := found.get(name), dict)}
    return Call("a", str(found.get("tool") or "unknown_tool"), given, **texts, **maps)  # type: ignore[arg-type]


def _same(one: Classification, other: Classification) -> bool:
    return one == other


def _shown(asked: Call) -> str:
    try:
        return repr(asked)
    except Exception:  # noqa: BLE001  an object among the params may refuse
        return "a call that cannot be shown"
