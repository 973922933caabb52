"""``RuleSet``: from a call to its classification.

The order of things: the guard looks first, and nothing lowers what it says; then the first rule
that matches (the user's before the default set); a call that no rule names is judged by what it
shows; then what the agent itself says, which can only raise.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from callosum.budget import unread
from callosum.model import HOUR, Call, Classification, Content, Key, Mode, Tier, Verdict
from callosum.redact import SecretDigests, secrets_in
from callosum.redact.json_lines import is_harmless
from callosum.redact.redactor import REDACTOR, SHORT, is_plain
from callosum.rules import acts, command, commitments, keys, shell
from callosum.rules import lexicon as lex
from callosum.rules import shape as shapes
from callosum.rules.content import Hasher, brief
from callosum.rules.guard import Guard
from callosum.rules.judge import Judgement, holds, judge, look
from callosum.rules.keys import APPEND
from callosum.rules.lexicon import lists
from callosum.rules.match import NOTHING, Index
from callosum.rules.opposites import about_itself
from callosum.rules.parse import Rule, default_rules, parse_file
from callosum.rules.protected import GUARDS
from callosum.rules.template import Derive, compile_template, takes_params, thread_alone
from callosum.unclean import READINGS, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from callosum.rules.shape import Shape
    from callosum.rules.standing import StandingApproval

WHOLE: Final = ("content", "contents", "file_text", "text")
"""Params that hold all that a written file will hold."""

_CONTENTS: Final = frozenset((*WHOLE, "edits", "cells", "rows", "old_string", "new_string"))
"""Params that hold what a file or a table will hold."""
_UNREAD: Final = "its params hold too many values to be looked into as a whole"

_GUARD_KEYS: Final = (Key("callosum:guard"),)
_GUARD: Final = "self-guard"
_DEEPEST: Final = 4
"""How deep calls are followed that call others."""
_NO_HINTS: Final[Mapping[str, Any]] = {}
_TOO_MANY: Final = "more keys than a call can have: the first and the alphabetically next are kept"
_READ: Final = 4096
"""Characters of a param's text that are searched for secrets which its keys may hold."""
_TEXTS: Final = {str}
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


class _Compiled:
    """A rule made ready for the hot path."""

    __slots__ = ("commands", "derive", "floor", "rule", "why")

    def __init__(self, rule: Rule, *, floor: bool, commands: bool) -> None:
        self.rule = rule
        self.floor = floor
        self.commands = commands  # what it matches is judged as a command line
        self.derive: list[tuple[Derive, Mode | None]] = [(compile_template(key.key), key.mode) for key in rule.keys]
        self.derive += [(thread, APPEND) for key in rule.keys if (thread := thread_alone(key.key)) is not None]
        self.why: tuple[str, ...] = (f"rule {rule.name}",)


class RuleSet:
    """Rules, ready to classify calls. Immutable, and safe to share between threads."""

    def __init__(  # noqa: PLR0913  what a file and the settings say, each by its name
        self,
        rules: tuple[Rule, ...],
        *,
        user: int,
        secret: bytes,
        protected: Mapping[str, str] | tuple[str, ...],
        ports: tuple[int, ...],
        strict: bool,
        shell_policy: shell.ShellPolicy = shell.DEFAULT_POLICY,
        fold_plus_tags: bool = False,
        window: int = HOUR,
    ) -> None:
        """Use ``RuleSet.parse``. ``user`` is how many of ``rules`` are the user's own."""
        self.rules = rules
        self._window = window  # of calls that no rule decides
        self.longest_window = max([HOUR, window, *(rule.window for rule in rules)])
        self._hasher = Hasher(secret)
        self._secrets = SecretDigests(secret)
        self._guard = Guard(protected, ports)
        # A rule that names no tool decides for calls that nothing else knows; see ``_assembled``.
        # The shipped rules for shells only name what a line speaks of: the line itself is read. So is it for
        # a user's copy of such a rule, which is there for its cells.
        lines = {(rule.pattern, rule.keys) for rule in rules[user:] if not lex.RULED_SHELL_TOOLS.isdisjoint(rule.tools)}
        self._shell = shell_policy
        self._fold = fold_plus_tags
        self._compiled = [
            _Compiled(
                rule,
                floor=rule.names_no_tool and rule.judge and not strict,
                commands=lex.RULED_SHELL_TOOLS.issuperset(rule.tools)
                and (rule.pattern, rule.keys) in lines
                and not rule.params,
            )
            for rule in rules
        ]
        self._index = Index(rules)
        self._defaults = Index(rules[user:])
        self._user = user
        self._standing: Mapping[str, tuple[StandingApproval, ...]] = {}

    @classmethod
    def parse(
        cls,
        user: bytes | str | None = None,
        *,
        source: str = "tiers.json",
        defaults: bool = True,
        secret: bytes = b"",
        protected: Mapping[str, str] | tuple[str, ...] = (),
        ports: tuple[int, ...] = (7700,),
        shell_policy: shell.ShellPolicy = shell.DEFAULT_POLICY,
        fold_plus_tags: bool = False,
    ) -> RuleSet:
        """Return the rules of a file, before those that ship; the first that matches a call decides.

        ``user`` is the file's content (None: the shipped rules alone), ``source`` its name in faults.
        ``secret`` keys the hashes of contents. ``protected`` are absolute paths that no call may
        change, with what each is in words, ``ports`` Callosum's own, which no call may talk to. ``shell_policy`` says
        how grave it is to remove, discard and push by a command line. ``fold_plus_tags``: ``alice+news@x.org`` is
        ``alice@x.org``.
        Raises ``ConfigError`` with the place (``rules[3].tier``).

        A user's rule for tool ``*`` without conditions names no tool: its tier is a floor, which the
        default set and the look of the call may raise, unless it says ``"judge": false`` or
        ``defaults`` is False.
        """
        own, window = ((), None) if user is None else parse_file(user, source)
        shipped = default_rules() if defaults else ()
        if window is not None:
            shipped = tuple(rule if rule.window != HOUR else replace(rule, window=window) for rule in shipped)
        return cls(
            own + shipped,
            user=len(own),
            secret=secret,
            protected=protected,
            ports=ports,
            strict=not defaults,
            shell_policy=shell_policy,
            fold_plus_tags=fold_plus_tags,
            window=HOUR if window is None else window,
        )

    def classify(self, call: Call) -> Classification:
        """Return what the rules make of a call. Never raises for params as JSON knows them."""
        params, action = call.params, call.action
        if action is not None:
            written = params.get("action")
            if written is None:
                params = {**params, "action": action}
            elif written != action:
                # Which of the two the tool will obey is not known: the graver reading counts.
                first = self._classify(call, params)
                second = self._classify(call, {**params, "action": action})
                return self._unread(call, params, first if first.tier >= second.tier else second)
        found = self._classify(call, params)
        if UNREAD in params or READINGS in params:
            return self._unread(call, params, found)
        for approval in self._standing.get(call.tool, ()) if self._standing else ():
            if approval.fits(params, call.cwd):
                found = approval.lift(found)
        return found

    # --- standing approvals -------------------------------------------------------------------------

    @property
    def standing(self) -> tuple[StandingApproval, ...]:
        """The standing approvals that are laid over these rules."""
        return tuple(approval for approvals in self._standing.values() for approval in approvals)

    def with_standing(self, approvals: Iterable[StandingApproval]) -> RuleSet:
        """Return these rules with those of the approvals that were given under rules as they are here."""
        made = copy(self)
        standing: dict[str, tuple[StandingApproval, ...]] = {}
        for approval in approvals:
            if approval.is_allowed and approval.under == self.digest_of(approval.rule):
                standing[approval.tool] = (*standing.get(approval.tool, ()), approval)
        made._standing = standing  # noqa: SLF001
        return made

    def digest_of(self, name: str) -> str:
        """Return the digest of the rules of a name, which changes when one of them does; ``""`` for no name."""
        if not name:
            return ""
        named = [rule for rule in self.rules if rule.name == name]
        return blake2b(msgspec.json.encode(named), digest_size=16).hexdigest()

    def _unread(self, call: Call, params: Mapping[str, Any], found: Classification) -> Classification:
        """Raise the tier where params have other readings, or were not looked into as a whole.

        Of several readings the gravest counts, with the keys of all. What a file will hold never raises a tier.
        """
        others = params.get(READINGS)
        for other in others if isinstance(others, list) else ():
            tool, given = other if isinstance(other, list) and len(other) == 2 else (None, None)
            if not isinstance(tool, str) or not isinstance(given, dict):
                found = replace(found, tier=max(found.tier, Tier.HIGH), effect="write", why=(*found.why, _UNREAD))
                continue
            read = self._classify(replace(call, tool=tool, params=given, action=None), given)
            first, second = (found, read) if found.tier >= read.tier and read.rule != _GUARD else (read, found)
            content = replace(first.content, digest=found.content.digest)
            found = replace(first, keys=keys.merge([*first.keys, *second.keys])[0], content=content)
        if UNREAD not in params:
            return found
        names = unread(params) or ()
        if names and set(names) <= _CONTENTS:
            return found
        hidden = not names and shell.runs_commands(call.tool)  # its command line may be among them
        tier = max(found.tier, Tier.CRITICAL if hidden else Tier.HIGH)
        return replace(found, tier=tier, effect="write", why=(*found.why, _UNREAD))

    def deciding(self, call: Call) -> tuple[Rule | None, tuple[StandingApproval, ...]]:
        """Return the first rule that matches a call as it stands, and the standing approvals that it fits.

        The rule is None where the call is judged by its looks. Two sets with the same default rules that return the
        same classify a call alike.
        """
        place = self._index.first(call.tool, call.params)
        fitting = tuple(item for item in self._standing.get(call.tool, ()) if item.fits(call.params, call.cwd))
        return None if place == NOTHING else self.rules[place], fitting

    def highest_tiers(self) -> dict[str, int]:
        """Return, for every tool that a rule names in full, the highest tier it can have.

        A tool that runs commands counts as 3 at least. What only the guard or the call itself could
        raise (``_tier``) is not in it. For clients that cannot ask.
        """
        found = {}
        for tool in self._index.names:
            places = sorted(self._index.naming(tool) | {p for p, rule in enumerate(self.rules) if "*" in rule.tools})
            highest = 0
            for place in places:
                rule = self.rules[place]
                highest = max(highest, rule.tier, Tier.HIGH if rule.pattern is not None else 0)
                bare = not (rule.params or rule.present or rule.pattern)
                if bare and not self._compiled[place].floor:
                    break  # it matches every call of this tool: nothing after it can decide
            found[tool] = highest
        return found

    def takes_keys_from_params(self, tool: str) -> bool:
        """Return True if one rule decides every call of a tool, and its keys are the texts of params as they are."""
        place = self._index.certain(tool)
        if place == NOTHING or self._compiled[place].floor or shell.runs_commands(tool):
            return False
        return all(takes_params(key.key) for key in self.rules[place].keys)

    def digest(self, tool: str, params: Mapping[str, Any], action: str | None = None) -> bytes:
        """Return the digest that ``classify`` gives a call of this tool with these params."""
        if action is not None and params.get("action") is None:
            params = {**params, "action": action}
        return self._hasher.digest(tool, params)

    def protects(self, path: str) -> str:
        """Return what protected thing a change of an absolute path would change, ``""`` for none."""
        return self._guard.protected.touched(path)

    def refused(self, call: Call, reason: str) -> Classification:
        """Return the classification of a call that the guard blocks for a reason that only the disk tells."""
        return self._guarded(call, call.params, shapes.of(call.params), reason)

    def _classify(
        self, call: Call, params: Mapping[str, Any], *, depth: int = 0, alone: bool = False
    ) -> Classification:
        """Classify a call that is ``depth`` calls deep; ``alone``: without the calls of other tools in it."""
        shape = shapes.of(params)
        if shape.lines and not alone:
            lines = shape.lines
            if not (call.tool in lex.RULED_SHELL_TOOLS or shell.runs_commands(call.tool)):
                lines = tuple([name for name in lines if name in lists.COMMAND_PARAMS])
            if read := command.readings(params, lines):
                return self._calling(call, params, [(call.tool, reading) for reading in read], depth, readings=True)
        if shape.calling and not alone and (made := acts.calls(call.tool, params)):
            return self._calling(call, params, made, depth)
        hints = _NO_HINTS
        if shape.agent:  # nothing is judged by them: what an agent says beside the call must hide nothing in it
            hints = {name: params[name] for name in lex.AGENT_PARAMS if name in params}
            params = {name: value for name, value in params.items() if name not in lex.AGENT_PARAMS}
            shape = shapes.of(params)
        found = line = None
        if shape.guarded:
            reads = not shape.telling and look(call.tool, params, shape).effect == "read"
            found = self._guard.reason(params, shape.guarded, call.cwd, reads=reads)
        if found is not None or shape.commands or shape.programs:
            danger, line = self._danger(call, params, shape, found)
            if danger:
                return self._guarded(call, params, shape, danger)
        place = self._index.first(call.tool, params)
        compiled, floor = None if place == NOTHING else self._compiled[place], None
        if compiled is not None and compiled.floor:
            floor = compiled
            place = self._defaults.first(call.tool, params)
            compiled = None if place == NOTHING else self._compiled[self._user + place]
        if compiled is None and line is not None and not shell.runs_commands(call.tool):
            line = None
        return self._assembled(call, params, shape, hints, compiled, floor, line)

    def _calling(
        self,
        call: Call,
        params: Mapping[str, Any],
        made: list[tuple[str, Mapping[str, Any]]],
        depth: int,
        *,
        readings: bool = False,
    ) -> Classification:
        """Classify a call of a tool that calls others: it is as grave as the gravest of those calls.

        A rule of the user's that names the tool decides alone, as ever, except where a call would harm the gate, and
        where the calls are readings of this one, whose tool may take either.
        """
        found = self._classify(call, params, alone=True)
        if depth >= _DEEPEST:
            why = (*found.why, "calls within calls, too deep to be read")
            return replace(found, tier=max(found.tier, Tier.HIGH), effect="write", why=why)
        bare = replace(call, action=None, description=None, schema=None, annotations=None)
        inner = [self._classify(replace(bare, tool=tool, params=given), given, depth=depth + 1) for tool, given in made]
        if readings:
            inner.append(found)
        gravest = max(
            inner, key=lambda entry: (entry.tier, entry.rule == _GUARD, entry.verdict.gravity if entry.verdict else 0)
        )
        place = self._index.first(call.tool, params)
        ruled = place != NOTHING and place < self._user and not self._compiled[place].floor and not readings
        if gravest.rule != _GUARD and (ruled or gravest.tier < found.tier):
            return found
        touched = keys.merge(
            [key for made_call in sorted(inner, key=lambda item: -item.tier) for key in made_call.keys]
        )[0]
        effect = "write" if gravest.tier else found.effect
        repeats, stance = gravest.content.repeats, gravest.content.stance
        changed = touched if effect != "read" else ()
        content = self._content(call, params, shapes.of(params), repeats=repeats, stance=stance, keys=changed)
        calls = "more than one param can be its command: the gravest counts"
        if not readings:
            calls = f'it calls "{keys.clean(made[inner.index(gravest)][0])[:64]}"'
        why = (calls, *gravest.why)
        gap = gravest.tier >= Tier.MEDIUM and effect != "read" and keys.only_read(touched)
        return replace(gravest, keys=touched, effect=effect, content=content, gap=gap, why=why)

    def _danger(
        self, call: Call, params: Mapping[str, Any], shape: Shape, found: tuple[str, str] | None
    ) -> tuple[str, Judgement | None]:
        """Return what a call would do to the gate itself, ``""`` for nothing, and how its command line is judged.

        ``found`` is the guard's reason by the params alone. The line is judged here once, for its danger and its tier.
        """
        if found is not None:
            reason, kind = found
            if not kind:
                return reason, None
            seen = look(call.tool, params, shape)
            if seen.effect != "read" and (kind == "write" or seen.verb in lex.TAKES_AWAY_TREE):
                return reason, None
        judged, guard = None, self._guard
        if shape.commands:
            shells = call.tool in lex.RULED_SHELL_TOOLS or shell.runs_commands(call.tool)
            others = (
                [] if shells and len(shape.commands) == 1 else [guard.line(params[name]) for name in shape.commands]
            )
            if shells or others:
                line = shell.of_call(
                    params, call.cwd, self._shell, call.worktree, guard, call.tool, call.home, call.worktrees
                )
                if line is not None:
                    tier, effect, touched, repeats, stance, why, danger, _ = line
                    if danger:
                        return danger, None
                    judged = Judgement(tier, effect, touched, repeats, stance, whole=False, why=why)
            for text in others:
                if danger := shell.judge(text, call.cwd, policy=self._shell, guard=guard).danger:
                    return danger, None
        for name in shape.programs:
            text = guard.code(params[name])
            if text and (danger := shell.danger_of_code(text, call.cwd, guard, self._shell)):
                return danger, None
        return "", judged

    def _guarded(self, call: Call, params: Mapping[str, Any], shape: Shape, reason: str) -> Classification:
        content = self._content(call, params, shape, repeats=False, stance="")
        why = (GUARDS + reason,)
        return Classification(
            Tier.CRITICAL, _GUARD_KEYS, _GUARD, "write", content, verdict=Verdict.BLOCK, gap=False, why=why
        )

    def _assembled(
        self,
        call: Call,
        params: Mapping[str, Any],
        shape: Shape,
        hints: Mapping[str, Any],
        compiled: _Compiled | None,
        floor: _Compiled | None,
        seen: Judgement | None,
    ) -> Classification:
        """Classify by the rule that matched, else by what the call shows.

        ``compiled`` is the rule. What one for command lines matches is judged, and the rule lends its cells where it
        agrees. ``floor`` is a rule that names no tool: the other rules and the judge may raise what it says. ``seen``
        is how a command line is judged, None for another call.
        """
        rule: Rule | None
        derived: tuple[Key, ...] = ()
        if compiled is None or (compiled.commands and seen is not None):
            seen = seen or judge(call, params, shape)
            tier, effect, derived, _, stance, _, why = seen
            rule, templates = None, floor.derive if floor is not None else []
            if compiled is not None or floor is not None:
                rule, tier, effect, stance, why = _judged(seen, compiled, floor)
        else:
            rule, seen, stance, templates = compiled.rule, None, "", compiled.derive
            tier, effect, why = rule.tier, rule.effect, compiled.why
            if floor is not None and floor.rule.tier > tier:
                tier, effect = floor.rule.tier, "write"
                why = (*why, f"raised to tier {tier} by the rule for all tools")
        found: list[Key] = []
        if hints:
            tier, effect, why = _raised(hints, tier, effect, why)
            if "_contextKey" in hints:
                why = _named(found, hints["_contextKey"], call.cwd, effect, why)
        for derive, mode in templates:
            found += [Key(name, mode or keys.default_mode(name, effect)) for name in derive(call, params)]
        if seen is not None and derived and effect != seen.effect and effect == "write":
            derived = tuple([Key(key.name, keys.default_mode(key.name, effect)) for key in derived])
        if found:
            several = derived or len(found) > 1
            derived, cut = keys.merge([*found, *derived]) if several else (tuple(found), False)
            why = (*why, _TOO_MANY) if cut else why
        if self._fold:
            derived = keys.untagged(derived)
        if call.home is not None:
            derived = keys.homed(derived, call.home, call.homes)
        derived = self._without_secrets(derived, params, shape)
        changes = effect != "read"
        gap = tier >= Tier.MEDIUM and changes and (keys.only_read(derived) if seen is not None else not derived)
        repeats = whole = False
        if seen is not None:
            repeats = seen.repeats and not (call.annotations and _harmless_twice(call, tier, derived))
            stance, whole = about_itself(stance, derived) if stance else "", seen.whole
        elif rule is not None:
            repeats, stance, whole = _repetition(call, params, shape, rule, derived, tier, effect)
        content = self._content(
            call,
            params,
            shape,
            repeats=repeats and changes,
            stance=stance,
            whole=whole,
            keys=derived if changes else (),
            declared=hints.get("_commitment"),
        )
        if rule is None:
            return Classification(tier, derived, "", effect, content, self._window, gap=gap, why=why)
        return Classification(
            tier, derived, rule.name, effect, content, rule.window, rule.cells, rule.verdict, gap, why
        )

    def _without_secrets(self, found: tuple[Key, ...], params: Mapping[str, Any], shape: Shape) -> tuple[Key, ...]:
        """Replace the secrets in keys by digests: what a summary hides in the params, no key shows."""
        spell = self._secrets.key
        names = [key.name for key in found]
        if shape.secret or (
            (shape.composed or not _SCALARS.issuperset(map(type, params.values())))
            and not _are_harmless(params, names, composed=shape.composed)
        ):
            spell = partial(self._secrets.key_without, secrets=secrets_in(params))
        elif not REDACTOR.plain.issuperset(names):  # one search for the keys and the texts that a summary shows
            is_plain(*names, *[value[:SHORT] for value in params.values() if type(value) is str])
        for name in names:
            if spell(name) != name or not name.isprintable():
                return keys.with_old_spelling(keys.merge([Key(spell(key.name), key.mode) for key in found])[0])
        return found

    def _content(
        self,
        call: Call,
        params: Mapping[str, Any],
        shape: Shape,
        *,
        repeats: bool,
        stance: str,
        whole: bool = False,
        keys: tuple[Key, ...] = (),
        declared: Any = None,
    ) -> Content:
        hasher = self._hasher
        text = next((text for name in WHOLE if type(text := params.get(name)) is str), None) if whole else None
        full = b"" if text is None else hasher.whole(text)
        origin = hasher.origin(call.origin) if call.origin else b""
        digest = hasher.digest(call.tool, params, whole=shape.said)
        commitment = None
        if keys and (
            call.commits is not None
            or declared is not None
            or stance[1:] in lex.COMMITMENT_SIDES
            or (not stance and any(map(commitments.takes, keys)))
        ):
            stance, commitment = commitments.made(call, params, stance, keys, declared)
        if not repeats:
            return Content(digest=digest, whole=full, stance=stance, origin=origin, commitment=commitment)
        words, numbers = hasher.words(params)
        # A phrase may be said twice where people talk.
        talk = not keys or keys[0].mode is APPEND or keys[0].name.startswith(lists.TALK_KEY_KINDS)
        short = not words and talk and brief(params)
        return Content(digest, full, words, numbers, True, stance, origin, short, commitment)


def _judged(
    seen: Judgement, compiled: _Compiled | None, floor: _Compiled | None
) -> tuple[Rule | None, int, str, str, tuple[str, ...]]:
    """Return the rule whose cells count, tier, effect, stance and reason of a call that is judged by what it shows."""
    tier, effect, _, _, stance, _, why = seen
    lent = None
    if compiled is not None:
        rule = compiled.rule
        if rule.tier == tier or (rule.pattern is None and tier < rule.tier):
            lent, why, stance = rule, (*compiled.why, *why), rule.stance or stance
    if floor is not None:
        lent, why = floor.rule, (*floor.why, *why)
        if lent.tier > tier:
            tier, effect = lent.tier, lent.effect
    return lent, tier, effect, stance, why


def _repetition(
    call: Call, params: Mapping[str, Any], shape: Shape, rule: Rule, found: tuple[Key, ...], tier: int, effect: str
) -> tuple[bool, str, bool]:
    """Return for a call that a rule decides whether it has its effect again, its stance, and whether it is whole."""
    repeats, stance = rule.repeats, rule.stance
    if effect == "read" or not (repeats is None or stance is None or (found and found[0].name[:5] == "file:")):
        return bool(repeats), stance or "", False
    seen = look(call.tool, params, shape)
    if stance is None:
        stance = about_itself(seen.stance, found) if seen.stance else ""
    if repeats is None:
        repeats = tier >= Tier.MEDIUM and (
            seen.repeats or (not seen.settles and any(key.name.startswith(lists.REPEATING_KEY_KINDS) for key in found))
        )
        repeats = repeats and not _harmless_twice(call, tier, found)
    return repeats, stance, holds(seen, params)


def _are_harmless(params: Mapping[str, Any], names: list[str], *, composed: bool) -> bool:
    """Return True if no value that a key can quote holds a secret.

    A key that holds a whole value shows by itself whether that is a secret. ``composed``: the texts too are taken
    apart for keys, whose ``names`` are then searched with them.
    """
    texts: list[str] = []
    for value in params.values():
        kind = type(value)
        if kind is str:
            if composed:
                texts.append(value[:_READ])
        elif (kind is dict or (kind is list and (composed or set(map(type, value)) - _TEXTS))) and not is_harmless(
            value
        ):
            return False
    return not texts or is_plain(*texts, *names)


def _harmless_twice(call: Call, tier: int, found: tuple[Key, ...]) -> bool:
    """Return True if a tool's author is believed that twice is as once: not where others notice."""
    notes = call.annotations
    if not notes or notes.get("idempotentHint") is not True:
        return False
    return tier < Tier.HIGH and not any(key.name.startswith(lists.TALK_KEY_KINDS) for key in found)


def _raised(hints: Mapping[str, Any], tier: int, effect: str, why: tuple[str, ...]) -> tuple[int, str, tuple[str, ...]]:
    """Apply what the agent says of the tier, which only raises it: ``_tier``, ``_commitment``, ``_irreversible``.

    A ``_tier`` above 4 means 4, one between two tiers the graver.
    """
    if "_tier" in hints:
        said = hints["_tier"]
        if isinstance(said, str) and len(said) <= 8 and said.strip().isdecimal():
            said = int(said)
        if isinstance(said, bool) or not isinstance(said, (int, float)) or not said >= 0:
            why = (*why, "_tier is no tier from 0 to 4 and was ignored")
        elif (wanted := 4 if said > 4 else -int(-said // 1)) > tier:
            tier, effect, why = wanted, "write", (*why, f"raised to tier {wanted} by _tier")
        elif wanted < tier:
            why = (*why, "_tier cannot lower the tier")
    for name, least in (("_commitment", Tier.HIGH), ("_irreversible", Tier.CRITICAL)):
        if hints.get(name) and tier < least:
            tier, effect, why = least, "write", (*why, f"raised to tier {least} by {name}")
    return tier, effect, why


def _named(found: list[Key], said: Any, cwd: str | None, effect: str, why: tuple[str, ...]) -> tuple[str, ...]:
    """Apply ``_contextKey``: the call's first key."""
    names = keys.canonical(said, cwd) if isinstance(said, str) and said.strip() else []
    if not names or said.strip().lower().endswith(":unknown"):
        return (*why, "_contextKey is no key and was ignored")
    found += [Key(name, keys.default_mode(name, effect)) for name in names]
    return (*why, "first key by _contextKey")
