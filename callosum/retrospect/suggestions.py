"""Narrower rules from the journal: proposed with their evidence, never applied.

Proposals
    A proposal is a copy of the rule that stopped the calls, limited to the tool and, if they are few, to the params. It

    * lets ``recent`` or ``held`` pass (``cells``), if every such stop was confirmed,
    * warns instead of stopping, if the rule itself asks to confirm and every stop was confirmed,
    * lets the session confirm instead of a person, if a person approved exactly these params each time.

Never proposed
    A lower tier; anything about ``duplicate``, ``opposed``, ``unknown`` and ``stale``; lifting a block; at tier 4
    anything but the third kind; anything about the gate's protection of itself; rules for tools that no rule names
    (name them first).

Conditions
    At least ``least`` confirmations (or approvals), and among the stops that the rule would let pass none that was
    heeded, waited for or denied, or that was confirmed and then failed or was regretted. A question that nobody
    answered counts against it too.

A copy placed first would also take calls from rules before the original. Rules that could match the same calls are
therefore copied in front of it (``Suggestion.before``), so that they decide as before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.characters import is_shown
from callosum.errors import ConfigError
from callosum.model import HOUR, SECOND, Call, Entry, Kind, Tier, Verdict
from callosum.policy.sentence import name as shown
from callosum.policy.table import cell
from callosum.redact import MARKER
from callosum.regions.learning.counts import LEAST, MILD, MOST_NAMED, EndingCount, convinces, covered, joined, learnable
from callosum.regions.learning.endings import Ending, EndingTracker, StoppedCall
from callosum.retrospect.recorded_calls import CallGroups
from callosum.rules import Rule, RuleSet
from callosum.rules.match import Index, scalar
from callosum.rules.parse import parse_rules

MOST_VALUES: Final = 8
"""Most values of a param that a rule names, if each occurred at least twice; otherwise the rule accepts any value."""
MOST_GROUPS: Final = 5_000
MOST_CELLS: Final = 20_000
"""Most values that are counted separately; further ones are counted together."""
_LONGEST: Final = 200
"""Longest value that a rule names, in characters: the journal cuts longer ones."""
_CUT: Final = re.compile(r"… \(\d+ characters\)\Z|\A(<.*>|\{…\}.*|\[…\].*)\Z", re.DOTALL)
"""The journal's marks for parts that it leaves out."""
_PLACE: Final = re.compile(r"rules\[\d+\]")
_PARAM: Final = re.compile(r"params\.([^.{}|\s]+)(?=[}|\s])")
_OTHER: Final = b""
"""Stands for a missing value, or one that a rule cannot name."""


class SuggestionEvidence(Struct, frozen=True, rename="camel"):
    """The evidence of a proposal. ``first`` and ``last`` are Unix seconds; ``keys`` are families (``channel:*``).

    At most ``MOST_NAMED`` sessions and families are listed. None of the stops that the rule would let pass was heeded,
    and every question was approved.
    """

    confirmed: int
    approved: int
    sessions: int
    keys: tuple[str, ...]
    first: float
    last: float


class Suggestion(Struct, frozen=True, rename="camel"):
    """A proposed rule, in the form of a rules file.

    ``before`` are copies of rules that must be placed in front of it. ``why`` is a sentence for a person.
    """

    pattern: str
    rule: Mapping[str, Any]
    before: tuple[Mapping[str, Any], ...]
    why: str
    evidence: SuggestionEvidence

    @property
    def rules(self) -> tuple[Mapping[str, Any], ...]:
        """All rules to paste, in order."""
        return (*self.before, self.rule)


def suggest(entries: Iterable[Entry], rules: RuleSet, *, least: int = LEAST, now: int = 0) -> list[Suggestion]:
    """Return the rules that the entries support, in the order in which they must precede all others.

    ``entries`` come in the journal's order and are read once; memory does not grow with them. ``rules`` are the current
    ones: stops that they would decide differently today prove nothing. ``now`` is the current moment: a stop that was
    not repeated by then was heeded, though no entry says so. Pure.
    """
    endings = EndingTracker()

    def ended() -> Iterator[Ending]:
        for entry in entries:
            yield from endings.feed(entry)
        yield from endings.pass_time(now)

    return suggest_from(ended(), rules, least=least)


def suggest_from(endings: Iterable[Ending], rules: RuleSet, *, least: int = LEAST) -> list[Suggestion]:
    """Return what ``suggest`` returns, for a caller that has already followed the entries."""
    tally = _Tally(rules)
    for ending in endings:
        tally.add(ending)
    found = [made for group in tally.groups.values() for made in tally.proposals(group, least)]
    return [suggestion for _, suggestion in sorted(found, key=lambda pair: pair[0])]


# --- counting -------------------------------------------------------------------------------------------


class _Group(Struct, gc=False):
    """The endings of one rule's stops of one tool at one tier."""

    rule: str = ""
    tool: str = ""
    tier: int = 0
    base: int | None = None
    """Index of the rule among the current ones, once a stop was found that it still decides."""
    pauses: dict[frozenset[Kind], EndingCount] = msgspec.field(default_factory=dict)
    values: dict[tuple[frozenset[Kind], str, bytes], EndingCount] = msgspec.field(default_factory=dict)
    """By conflicts, param and value."""
    questions: dict[tuple[frozenset[Kind], bytes], EndingCount] = msgspec.field(default_factory=dict)
    """By conflicts and all params."""


class _Tally:
    """Count endings by rule, tool, conflicts and params."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules.rules
        self._classify = rules.classify
        self._index = Index(rules.rules)
        self.groups: CallGroups[tuple[str, str, int], _Group] = CallGroups(_Group, MOST_GROUPS)
        self._cells = 0
        self._params: dict[str, set[str]] = {}
        """For each rule, the params that its keys are made of, or that it requires."""
        for rule in rules.rules:
            named = self._params.setdefault(rule.name, set())
            named.update(name for name, _ in rule.params)
            named.update(name for template in rule.keys for name in _PARAM.findall(template.key))

    def add(self, ending: Ending) -> None:
        """Count an ending, if a rule could be learned from it."""
        case = ending.case
        asked = case.verdict is Verdict.ASK and case.kinds <= MILD and bool(case.rule)
        if not (asked or learnable(ending)) or case.rule not in self._params:
            return
        group = self.groups.of((case.rule, case.tool, case.tier))
        if group is None:
            return
        group.rule, group.tool, group.tier = case.rule, case.tool, case.tier
        if ending.how in ("confirmed", "approved") and self._is_changed(group, case):
            return
        if asked:
            exact = _exact(case.params, "description" if self._runs_commands(case.rule) else None)
            self._cell(group.questions, (case.kinds, exact)).add(ending)
            return
        group.pauses.setdefault(case.kinds, EndingCount()).add(ending)
        for name in self._params[case.rule]:
            value = value_of(case.params.get(name)) if isinstance(case.params, Mapping) else _OTHER
            self._cell(group.values, (case.kinds, name, value), (case.kinds, name, _OTHER)).add(ending)

    def _cell(self, cells: dict[Any, EndingCount], place: Any, rest: Any = None) -> EndingCount:
        """Return the count for a key; if there are too many already, the count of all others."""
        found = cells.get(place)
        if found is None:
            if self._cells >= MOST_CELLS:
                return cells.setdefault(rest, EndingCount()) if rest is not None else EndingCount()
            self._cells += 1
            found = cells[place] = EndingCount()
        return found

    def _is_changed(self, group: _Group, case: StoppedCall) -> bool:
        """Return True if the current rules treat the call differently, so that it proves nothing. Note the rule."""
        params = case.params if isinstance(case.params, Mapping) else {}
        found = self._classify(Call(case.session, case.tool, params))
        if (found.rule, found.tier) != (case.rule, case.tier):
            return True
        today: set[Verdict | None] = {cell(found.tier, kind, 0, found.cells) for kind in case.kinds} or {found.verdict}
        if not today <= ({Verdict.ASK} if case.verdict is Verdict.ASK else {Verdict.WARN, Verdict.CONFIRM}):
            return True
        if group.base is None:
            group.base = self._place_of(case)
        return group.base is None

    def _place_of(self, case: StoppedCall) -> int | None:
        """Return the index of the call's rule; None if two have its name, or it names no tool."""
        named = self._index.naming(case.tool)
        places = [
            place
            for place, rule in enumerate(self._rules)
            if rule.name == case.rule and (place in named or "*" in rule.tools)
        ]
        if not places or len({replace(self._rules[place], tools=(), cells=None) for place in places}) > 1:
            return None
        return None if self._rules[places[0]].names_no_tool and self._rules[places[0]].judge else places[0]

    def _runs_commands(self, name: str) -> bool:
        return any(rule.pattern is not None for rule in self._rules if rule.name == name)

    # --- proposing -----------------------------------------------------------------------------------

    def proposals(self, group: _Group, least: int) -> list[tuple[tuple[int, int], Suggestion]]:
        """Return the proposals that the group supports, each with its index among all."""
        if group.base is None or not can_be_named(group.tool):
            return []
        made = [self._question(group, *place, count, least) for place, count in group.questions.items()]
        done: list[frozenset[Kind]] = []
        for kinds in sorted(group.pauses, key=lambda kinds: (-len(kinds), sorted(kinds))):
            if any(kinds and kinds <= wider for wider in done):
                continue
            found = self._pause(group, kinds, least)
            if found is not None:
                done.append(kinds)
                made.append(found)
        return [
            ((group.base, -len(suggestion.rule.get("params", ()))), suggestion)
            for suggestion in made
            if suggestion is not None
        ]

    def _pause(self, group: _Group, kinds: frozenset[Kind], least: int) -> Suggestion | None:
        """Return a rule that lets stops for these conflicts pass, if all or some values of a param support it."""
        base = self._base(group)
        pausing = base.verdict is not None and base.verdict.gravity >= Verdict.CONFIRM.gravity
        if pausing is bool(kinds):
            return None  # the rule's own stop would remain, or no longer exists
        passing = covered(group.pauses, kinds)
        whole = joined(group.pauses[one] for one in passing)
        values = self._values(group, passing)
        if not whole.against:
            if not convinces(whole, least):
                return None
            most = min(MOST_VALUES, whole.confirmed // 2)
            seen = {name: sorted(v for v in found if found[v].confirmed) for name, found in values.items()}
            few = {name: found for name, found in seen.items() if _OTHER not in found and 0 < len(found) <= most}
            return self._made(group, kinds, whole, few)
        best: tuple[str, list[bytes]] | None = None
        for name, found in values.items():
            good = sorted(v for v, count in found.items() if v and convinces(count, least))
            if good and (best is None or len(good) > len(best[1])):
                best = name, good[: 10 * MOST_VALUES]
        if best is None:
            return None
        name, good = best
        return self._made(group, kinds, joined(values[name][value] for value in good), {name: good}, among=True)

    def _values(self, group: _Group, passing: list[frozenset[Kind]]) -> dict[str, dict[bytes, EndingCount]]:
        """Return the counts of each value of each param, over these conflicts."""
        found: dict[str, dict[bytes, EndingCount]] = {}
        for (kinds, name, value), count in group.values.items():
            if kinds in passing:
                found.setdefault(name, {}).setdefault(value, EndingCount()).join(count)
        return dict(sorted(found.items()))

    def _question(
        self, group: _Group, kinds: frozenset[Kind], exact: bytes, count: EndingCount, least: int
    ) -> Suggestion | None:
        """Return a rule that lets the session confirm what a person approved each time."""
        base = self._base(group)
        asks = base.verdict is Verdict.ASK
        agreed = count.approved >= least and not count.against and not count.unanswered
        if not exact or not agreed or asks is bool(kinds):
            return None
        if kinds and group.tier >= Tier.CRITICAL:
            return None  # at tier 4 a conflict is raised on every call: no session could ever confirm it
        params = msgspec.json.decode(exact)
        return self._made(group, kinds, count, {name: [msgspec.json.encode(value)] for name, value in params.items()})

    def _base(self, group: _Group) -> Rule:
        return self._rules[group.base or 0]

    def _made(
        self,
        group: _Group,
        kinds: frozenset[Kind],
        count: EndingCount,
        named: Mapping[str, list[bytes]],
        *,
        among: bool = False,
    ) -> Suggestion | None:
        """Return the whole suggestion; None if the rule cannot be written into a file."""
        base, asked = self._base(group), bool(count.approved)
        milder = Verdict.CONFIRM if asked else Verdict.ALLOW if kinds else Verdict.WARN
        params = {name: tuple(map(msgspec.json.decode, values)) for name, values in named.items()}
        what = " and ".join(sorted(kinds)) or "its own pause"
        label = f"{_named(base)}: {what} {'asked of the session' if asked else 'let pass' if kinds else 'as a warning'}"
        rule = replace(
            self._raised(base, group.base or 0),
            name=label[-_LONGEST:],
            tools=(group.tool,),
            params=tuple({**dict(base.params), **params}.items()),
            cells={**(base.cells or {}), **dict.fromkeys(sorted(kinds), milder)} if kinds else base.cells,
            verdict=base.verdict if kinds else milder,
        )
        before = tuple(
            replace(self._raised(one, place), tools=(group.tool,))
            for place, one in enumerate(self._rules[: group.base])
            if self._meets(one, place, rule)
        )
        why = _why(group, what, count, params if among or asked else {}, asked=asked)
        where = ", ".join(map(shown, sorted(count.families)))
        suggestion = Suggestion(
            f"{what} on {where} by {shown(group.tool)} (rule {shown(base.name)})",
            {"description": why, **written(rule)},
            tuple(map(written, before)),
            why,
            SuggestionEvidence(
                count.confirmed,
                count.approved,
                len(count.sessions),
                tuple(sorted(count.families)),
                count.first / SECOND,
                count.last / SECOND,
            ),
        )
        try:
            parse_rules(json.dumps({"rules": suggestion.rules}), "the proposal")
        except ConfigError:
            return None
        return suggestion

    def _raised(self, rule: Rule, place: int) -> Rule:
        """Return the rule with the tier that an earlier rule of the user for all tools gives it."""
        floor = max((one.tier for one in self._rules[:place] if one.names_no_tool), default=0)
        return replace(rule, tier=floor, effect="write") if floor > rule.tier else rule

    def _meets(self, one: Rule, place: int, new: Rule) -> bool:
        """Return True if a rule could match a call that the new one matches too."""
        if one.names_no_tool or not ("*" in one.tools or place in self._index.naming(new.tools[0])):
            return False
        wanted = dict(new.params)
        return all(
            name not in wanted or {scalar(value) for value in values} & {scalar(value) for value in wanted[name]}
            for name, values in one.params
        )


# --- values ---------------------------------------------------------------------------------------------


def value_of(said: Any) -> bytes:
    """Return a param's value as JSON; ``_OTHER`` if it is missing or the journal has not kept it as it was."""
    if isinstance(said, str):
        whole = len(said) <= _LONGEST and MARKER not in said and not _CUT.search(said)
        return msgspec.json.encode(said) if whole and said and is_shown(said) else _OTHER
    if isinstance(said, bool | int | float):
        return msgspec.json.encode(said)
    return _OTHER


def _exact(params: Any, besides: str | None) -> bytes:
    """Return all params as JSON, if a rule can name them all; else ``_OTHER``.

    ``besides`` is left out, because a command's description has no effect. The note to the gate (``_tier``) is too.
    """
    if not isinstance(params, Mapping):
        return _OTHER
    kept = {name: said for name, said in params.items() if name != besides and not name.startswith("_")}
    if not kept or not all(is_shown(name) and value_of(said) for name, said in kept.items()):
        return _OTHER
    return msgspec.json.encode(dict(sorted(kept.items())))


def can_be_named(tool: str) -> bool:
    """Return True if a rule can name exactly this tool."""
    return 0 < len(tool) <= _LONGEST and not {"*", "?"} & set(tool) and tool == tool.strip() and is_shown(tool)


# --- words ----------------------------------------------------------------------------------------------


def written(rule: Rule) -> dict[str, Any]:
    """Return a rule as it is written in a rules file; ``parse`` returns the same rule."""
    made: dict[str, Any] = {} if _PLACE.fullmatch(rule.name) else {"name": rule.name}
    made |= {"tier": rule.tier, "tool": _one_or_all(rule.tools)}
    if rule.params:
        made["params"] = {name: _one_or_all(values) for name, values in rule.params}
    if rule.present:
        made["present"] = _one_or_all(rule.present)
    if rule.pattern is not None:
        made["commandPattern"] = rule.pattern
    if rule.keys:
        made["contextKey"] = _one_or_all(
            [(one.key if one.mode is None else {"key": one.key, "mode": one.mode.value}) for one in rule.keys]
        )
    if rule.window != HOUR:
        made["recentWindowMs"] = rule.window // 1000
    if rule.verdict is not None:
        made["verdict"] = rule.verdict.value
    if rule.cells:
        made["cells"] = {kind.value: verdict.value for kind, verdict in rule.cells.items()}
    if rule.effect != ("write" if rule.tier else "read"):
        made["effect"] = rule.effect
    if rule.repeats is not None:
        made["repeats"] = rule.repeats
    if rule.stance is not None:
        made["stance"] = rule.stance
    if not rule.judge:
        made["judge"] = False
    return made


def _one_or_all(values: Any) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _named(rule: Rule) -> str:
    return rule.tools[0] if _PLACE.fullmatch(rule.name) else rule.name


def _why(group: _Group, what: str, count: EndingCount, params: Mapping[str, tuple[Any, ...]], *, asked: bool) -> str:
    keys = ", ".join(map(shown, sorted(count.families)))
    days = sorted({datetime.fromtimestamp(at / SECOND, UTC).strftime("%Y-%m-%d") for at in (count.first, count.last)})
    number = len(count.sessions)
    many = "1 session" if number == 1 else f"{number}{' or more' if number >= MOST_NAMED else ''} sessions"
    seen = f"by {many}, {' to '.join(days)}"
    if asked:
        return (
            f"A person approved all {count.approved} calls of {shown(group.tool)} on {keys} with these params, {seen}; "
            "none was denied. The session is asked to confirm instead. A call with further params matches too."
        )
    only = " with these values" if params else ""
    return (
        f"All {count.confirmed} pauses of {shown(group.tool)} for {what} on {keys}{only} were confirmed, {seen}; "
        "none was heeded, and none of the calls is known to have failed."
    )
