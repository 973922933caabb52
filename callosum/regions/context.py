"""Prefrontal: puts a session's brief together, and says what an input asks for.

The brief, from the moment it is asked for::

    which keys matter      named by the host, in the prompt, touched lately by the session, files in its folder
    who else is at them    Store.nearby: others' live actions and newest acts there
    what has changed       acts later than the session's last look at the key, or its last act there
    what nobody knows      unknown outcomes of tier 4, of any session on any key, before everything else
    what was finished      the last answers of sessions that ended
    what else goes on      its own open calls, others' leases elsewhere, notable acts since its own last call

It only looks. No mark moves, so a call that would be warned before is warned after.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from callosum.brief import Brief, Section, brief_of
from callosum.characters import escaped
from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    ContextBuilt,
    CorpusEvent,
    InputClassified,
    InputReceived,
    InputRouted,
    LlmResponse,
)
from callosum.errors import ConfigError
from callosum.gate.check import check_name, key_of
from callosum.merging.merge_store import MergeRecord, merge_sentence
from callosum.model import DAY, DEFAULT_NAMESPACE, HOUR, NO_KEY, SECOND, Action, Commitment, Entry, State, Tier
from callosum.policy.commitments import found_on
from callosum.policy.evidence import lapsed, leased, lost, moment, unreported
from callosum.policy.sentence import ago, ask_to_resolve, decided_by, name, since
from callosum.policy.summary import NOTHING_KEPT, kept_in, shown, summary_of
from callosum.redact import SecretDigests, quote, redact_text
from callosum.rules.intent import LOOKED_AT, intent_of
from callosum.rules.keys import addresses, named, spell
from callosum.stores.base import Nearby, Store
from callosum.wire import MAX_KEYS, MAX_PATH

_OWN_KEYS: Final = 32
"""Most of the session's own keys that are looked at."""
_PROMPT_KEYS: Final = 8
_MOST: Final = 12
"""Most lines of one section that is about the session's own keys."""
_ELSEWHERE: Final = 6
_UNDER_WAY: Final = 20
"""How many live actions are looked at, of its own and elsewhere."""
_HIGH, _NOTABLE = 3, 2
_WITHIN: Final = 4_000
"""How many journal entries are looked back over for notable acts elsewhere."""
_ENDED: Final = 3
"""Most sessions that ended whose last answer is shown."""
_NAMED: Final = 3
"""How many keys are named of one session's acts with one tool."""
_WAITING: Final = 1_000
"""Most sessions whose input still waits for a model's answer."""
_GENERATIONS: Final = 8
_TOLD: Final = 128
"""Of how many actions a brief can say what they did, the newest."""
_SUMMARY: Final = 100
_PURPOSE: Final = 80
"""Characters of a summary and of a purpose."""

_PATH: Final = re.compile(r"(?<![\w/:.+@~-])(?:~|\.{1,2})?/?[\w.+@-]+(?:/[\w.+@-]+)+/?")
_CHANNEL: Final = re.compile(r"(?<!\S)#[a-z][\w-]{1,79}", re.IGNORECASE)

T = TypeVar("T")
_Who = tuple[str | None, str | None]
"""Namespace and session, as an event names them."""


class Prefrontal:
    """Builds briefs over a store, and classifies the inputs that the corpus tells of.

    Emits ``context.built`` for each brief; for each ``input.received`` an ``input.classified``, and an
    ``input.routed`` when the next ``llm.response`` of that session says which model took it, unless the host
    itself said so. Methods may be called from any thread. ``close`` ends the subscriptions.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        store: Store,
        secrets: SecretDigests | None = None,
        shares: bool = False,
        merges: Callable[[], Sequence[MergeRecord]] = tuple,
    ) -> None:
        """``secrets`` replaces secrets in keys and names, as the gate of this store does.

        ``shares``: sessions are told of others' purposes also where these are of another instance. ``merges`` returns
        the writes that ran merged, newest first.
        """
        self._merges = merges
        self._shares = shares
        self._corpus = corpus
        self._store = store
        self._secrets = secrets
        self._waiting: OrderedDict[_Who, str | None] = OrderedDict()
        self._guard = threading.RLock()
        self._scope = corpus.scope()
        self._scope.on(InputReceived, self._classify)
        self._scope.on(InputRouted, self._routed)
        self._scope.on(LlmResponse, self._route)

    def close(self) -> None:
        """Listens no more. Idempotent."""
        self._scope.close()

    # --- the brief -------------------------------------------------------------------------------

    def brief(
        self,
        instance: str,
        session: str | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        keys: Sequence[str] = (),
        cwd: str | None = None,
        prompt: str | None = None,
        forgot: bool = False,
    ) -> Brief:
        """Returns what others have in hand and did lately, as far as it matters to this session.

        ``keys`` are context keys that the host knows to matter, at most ``MAX_KEYS``; a key that ends in ``/``
        stands for all below it. ``cwd`` is the session's folder. Of ``prompt`` the addresses, paths and
        channels count as keys. ``forgot``: the session's context was compacted, so what it has in hand itself and
        what it committed to come first. The whole brief, uncut: ``RAS`` cuts it. Empty if there is nothing to tell.

        Raises ``ConfigError`` with the place for what cannot be used, ``StoreUnavailable`` as the store does.
        """
        check_name(instance, "instance")
        if session is not None:
            check_name(session, "session")
        check_name(namespace, "namespace")
        folder = _folder(cwd)
        named = [*_given(keys, cwd), *_mentioned(prompt, cwd)]
        if self._secrets is not None:
            folder, named = list(map(self._secrets.key, folder)), list(map(self._secrets.key, named))
            instance, session = self._secrets.name(instance), self._secrets.name(session) if session else session
        actor = f"{instance}/{session}" if session else instance
        look = _Looked(self._store, namespace, actor, shares=self._shares, merges=self._merges)
        found = look.brief(named, folder, forgot=forgot)
        self._corpus.emit(
            ContextBuilt(found.tokens, len(found.sections), instance=actor, namespace=namespace),
        )
        return found

    # --- inputs ----------------------------------------------------------------------------------

    def _classify(self, event: InputReceived) -> None:
        who = _who(event)
        with self._guard:
            self._waiting[who] = event.cause
            self._waiting.move_to_end(who)
            while len(self._waiting) > _WAITING:
                self._waiting.popitem(last=False)
        intent, confidence = intent_of(event.content)
        self._corpus.emit(
            InputClassified(intent, confidence, instance=event.instance, namespace=event.namespace, cause=event.cause)
        )

    def _routed(self, event: InputRouted) -> None:
        """The host has said it itself; of what was said here nothing is waiting any more."""
        with self._guard:
            self._waiting.pop(_who(event), None)

    def _route(self, event: LlmResponse) -> None:
        who = _who(event)
        with self._guard:
            if who not in self._waiting:
                return
            cause = self._waiting.pop(who)
        self._corpus.emit(
            InputRouted(event.provider, event.model, instance=event.instance, namespace=event.namespace, cause=cause)
        )


def _who(event: CorpusEvent) -> _Who:
    return event.namespace, event.instance


# --- which keys ---------------------------------------------------------------------------------------


def _given(keys: Sequence[str], cwd: str | None) -> list[str]:
    """The keys that the host names, in their one spelling."""
    if len(keys) > MAX_KEYS:
        raise ConfigError(f"expected at most {MAX_KEYS}, got {len(keys)}", at="key")
    found: list[str] = []
    for key in keys:
        try:
            key_of(key)
        except ConfigError as error:
            raise ConfigError(error.message, at="key") from None
        found += named(key, cwd) or (key,)
    return found


def _folder(cwd: str | None) -> list[str]:
    """The tree of the session's folder."""
    if cwd is None:
        return []
    if type(cwd) is not str or not 0 < len(cwd) <= MAX_PATH:
        raise ConfigError(f"expected a path of 1 to {MAX_PATH} characters", at="cwd")
    return list(spell("file:", cwd, tree=True))


def _mentioned(prompt: str | None, cwd: str | None) -> list[str]:
    """The addresses, paths and channels in a prompt, as keys. What names nothing is looked up in vain."""
    if not prompt:
        return []
    text = prompt[:LOOKED_AT]
    found = [key for address in addresses(text) for key in spell("email:", address)]
    found += [key for path in _PATH.findall(text) for key in spell("file:", path, cwd)]
    found += [key for channel in _CHANNEL.findall(text) for key in spell("channel:", channel)]
    return list(dict.fromkeys(found))[:_PROMPT_KEYS]


def _shown_keys(action: Action) -> list[str]:
    return [key.name for key in action.keys if not key.name.startswith(NO_KEY)]


# --- one look at the store, told in lines -------------------------------------------------------------


class _Acts(NamedTuple):
    """What one session did with one tool: on which keys, newest first, when last, and the id of the newest."""

    session: str
    tool: str
    keys: dict[str, None]
    age: float
    newest: int


class _Held(NamedTuple):
    """What one session has in hand with one tool on one key: the newest of such calls, and how many there are."""

    action: Action
    calls: int


class _Looked:
    """What the store shows one session now. Ages are in seconds."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        actor: str,
        *,
        shares: bool = False,
        merges: Callable[[], Sequence[MergeRecord]] = tuple,
    ) -> None:
        self._merges = merges
        self._store = store
        self._shares = shares
        self._bodies: Mapping[int, bytes] = {}
        self._namespace = namespace
        self._now = store.now()
        self._mine = (actor, *self._chain(actor, "continues"))
        self._ancestors = self._chain(actor, "parent")
        self._names: dict[str, str] = {}
        self._told: set[int] = set()
        self._held: set[tuple[str, str, str]] = set()
        """Session, tool and key of what was told to be in hand."""
        self._left_out = 0

    def brief(self, named: Sequence[str], folder: Sequence[str], *, forgot: bool = False) -> Brief:
        """The whole of it. ``named`` keys come before the session's own, the ``folder`` after them."""
        own = self._store.touched(self._namespace, self._mine)
        touched = dict.fromkeys(key for action in own for key in _shown_keys(action))
        keys = dict.fromkeys([*named, *list(touched)[:_OWN_KEYS], *folder])
        near = self._store.nearby(self._namespace, self._mine, list(keys)) if keys else []
        under_way = self._store.underway(self._namespace, self._mine, _HIGH, _UNDER_WAY)
        recent = self._store.recent(self._namespace, floor=_NOTABLE, besides=self._mine, within=_WITHIN)
        told = {action.id for action in (*(one.action for one in near), *under_way, *recent, *own) if not action.lock}
        self._bodies = self._store.bodies(self._namespace, sorted(told)[-_TOLD:]) if told else {}
        lately = max(self._now - HOUR, own[0].started if own else 0)
        mine = {action.id: action for action in (*under_way, *own) if action.session in self._mine}
        others = (action for action in under_way if action.session not in self._mine)
        here, elsewhere = "where this session works", "elsewhere"
        own_first = (
            (
                self._section(
                    "This session's own, from before a compaction",
                    self._open(mine.values()),
                    self._own_line,
                ),
                self._section("This session committed to", self._own_commitments(), self._own_commitment),
            )
            if forgot
            else ()
        )
        sections = (  # the first that has an action tells it
            *own_first,
            self._section("Outcome unknown, of what cannot be undone", self._gravest(under_way), self._unsettled),
            self._section(f"In hand now, {here}", self._in_hand(one.action for one in near), self._holding),
            self._section(f"Outcome unknown, {here}", self._unknown(near), self._lost),
            self._section(f"Committed to by others, {here}", self._committed(keys), self._commitment),
            self._section("Merged with what this session wrote", self._merged(near), self._merge),
            self._section("Done by others since this session last looked", self._done(near), self._acts),
            self._section("Sessions that ended lately", self._ended(own), self._farewell, _ENDED),
            self._section("This session's own", self._own(mine.values()), self._own_line),
            self._section(f"In hand {elsewhere}", self._in_hand(others), self._holding, _ELSEWHERE),
            self._section(f"Done {elsewhere} lately", self._notable(recent, lately), self._acts, _ELSEWHERE),
        )
        return brief_of(sections, self._left_out)

    def _section(self, title: str, items: Sequence[T], line_of: Callable[[T], str], most: int = _MOST) -> Section:
        self._left_out += max(0, len(items) - most)
        return Section(title, tuple(map(line_of, items[:most])))

    # --- what is told where ---

    def _in_hand(self, actions: Iterable[Action]) -> list[_Held]:
        """Leases, places in line, calls of lower tiers that may still be running, questions to a person."""
        groups: dict[tuple[object, ...], _Held] = {}
        known = {key for _, _, key in self._held if key}
        for action in actions:
            key = _where(action)
            if key in known or not (self._is_held(action) or self._waits(action)) or not self._is_news(action):
                continue
            self._held.add((action.session, action.tool, key))
            sort = (action.session, action.tool, key, action.state, action.lock, action.approved > 0)
            newest, calls = groups.get(sort, (action, 0))
            groups[sort] = _Held(max(newest, action, key=_begun), calls + 1)
        return list(groups.values())

    def _gravest(self, under_way: Iterable[Action]) -> list[Action]:
        """The ``unknown`` actions of tier 4, whosever they are, the newest first."""
        known = self._store.live(self._namespace, (State.UNKNOWN,))
        lost = [
            one
            for one in (*under_way, *known)
            if one.tier >= Tier.CRITICAL and self._is_lost(one) and self._is_news(one)
        ]
        return sorted(lost, key=_begun, reverse=True)

    def _unknown(self, near: Iterable[Nearby]) -> list[Action]:
        return [one.action for one in near if self._is_lost(one.action) and self._is_news(one.action)]

    def _done(self, near: Iterable[Nearby]) -> list[_Acts]:
        """Of acts on keys at which the session never looked only the last day counts."""
        fresh = [
            (one.action, one.action.key)
            for one in near
            if one.action.state is State.DONE
            and moment(one.action, self._now) > (one.seen or self._now - DAY)
            and not self._is_in_hand(one.action)
            and self._is_news(one.action)
        ]
        return self._together(fresh)

    def _merged(self, near: Iterable[Nearby]) -> list[MergeRecord]:
        """Writes that ran merged with a change of this session's, at whose file it has not looked since."""
        looked: dict[str, int] = {}
        for one in near:
            if one.action.key.startswith("file:"):
                looked[one.action.key] = max(one.seen, looked.get(one.action.key, 0))
        if not looked:
            return []
        found = [
            merged
            for merged in self._merges()
            if merged.namespace == self._namespace
            and not set(self._mine).isdisjoint(merged.others)
            and merged.id > looked.get(f"file:{merged.path}", merged.id)
        ]
        self._told.update(merged.id for merged in found)
        return found

    def _merge(self, merged: MergeRecord) -> str:
        return merge_sentence(merged, next(one for one in self._mine if one in merged.others))

    def _committed(self, keys: Collection[str]) -> list[Action]:
        """Others' commitments on these keys, the newest first."""
        made = self._store.commitments(self._namespace, list(keys)) if keys else []
        return [
            replace(one, key=next((key.name for key in found_on(one) if key.name in keys), _first(one)))
            for one in reversed(made)
            if one.session not in self._mine and self._is_news(one)
        ]

    def _own(self, actions: Iterable[Action]) -> list[Action]:
        return [
            action
            for action in sorted(actions, key=lambda action: -action.id)
            if (self._waits(action) or leased(action, self._now) or self._is_lost(action)) and self._is_news(action)
        ]

    def _open(self, actions: Iterable[Action]) -> list[Action]:
        """What the session has in hand itself, calls of lower tiers that may still be running too."""
        running = [action for action in actions if self._is_held(action) and self._is_news(action)]
        return sorted([*self._own(actions), *running], key=lambda action: -action.id)

    def _own_commitments(self) -> list[Action]:
        made = self._store.commitments(self._namespace)
        return [replace(one, key=_first(one)) for one in reversed(made) if one.session in self._mine]

    def _notable(self, actions: Iterable[Action], lately: int) -> list[_Acts]:
        fresh = [
            (action, _first(action))
            for action in actions
            if action.state is State.DONE
            and not action.lock
            and moment(action, self._now) > lately
            and not self._is_in_hand(action)
            and self._is_news(action)
        ]
        return self._together(fresh)

    def _ended(self, own: Sequence[Action]) -> list[Entry]:
        """The sessions that ended since this one did anything; to one that begins, those of the last day."""
        since = own[0].started if own else self._now - DAY
        farewells = self._store.farewells(self._namespace)
        newest = {one.session: one for one in reversed(farewells) if one.seq > since and one.session not in self._mine}
        return sorted(newest.values(), key=lambda one: -one.seq)

    def _together(self, acts: Iterable[tuple[Action, str]]) -> list[_Acts]:
        """All that a session did with one tool, as one."""
        groups: dict[tuple[str, str], _Acts] = {}
        for action, key in acts:
            age = (self._now - (action.ended or action.started)) / SECOND
            who = (action.session, action.tool)
            group = groups.get(who) or _Acts(*who, {}, age, action.id)
            groups[who] = group._replace(age=min(group.age, age))
            if key:
                group.keys[key] = None
        return list(groups.values())

    def _is_held(self, action: Action) -> bool:
        return leased(action, self._now) or (action.state is State.DONE and unreported(action, self._now))

    def _is_in_hand(self, action: Action) -> bool:
        """Whether its session was told to be at just this still."""
        key = _where(action)
        return bool(key) and (action.session, action.tool, key) in self._held

    def _is_lost(self, action: Action) -> bool:
        return lost(action, self._now) and not action.lock

    def _waits(self, action: Action) -> bool:
        """Whether it is a question to a person that is open, or was answered with yes."""
        return action.state is State.ASKED and action.approved >= 0 and not lapsed(action, self._now)

    def _is_news(self, action: Action) -> bool:
        """Whether it was not told in this brief yet; then it is."""
        if action.id in self._told:
            return False
        self._told.add(action.id)
        return True

    # --- lines ---

    def _holding(self, held: _Held) -> str:
        action, calls = held
        who, key, tool = self._who(action.session), _on(_where(action)), name(action.tool)
        begun, what = self._since(action.started), self._what(action.id, action.session, _where(action))
        if calls > 1:
            tool, what = f"{tool}, {calls} calls", ""
        if action.state is State.ASKED:
            waits = "was allowed to by a person" if action.approved else "waits for a person"
            return f"{who} wants to act{key} ({tool}, {begun}) and {waits}{what}."
        if action.state is State.QUEUED:
            return f"{who} waits in line{key} ({tool}, {begun}){what}."
        if action.state is State.DONE:
            return f"{who} is at work{key} ({tool}, begun {begun}){what}."
        until = max(action.expires, action.limit) if action.alive else action.expires
        left = f"begun {begun}, lease for {ago((until - self._now) / SECOND)} more"
        return f"{who} holds a lock{key} ({left})." if action.lock else f"{who} is at work{key} ({tool}, {left}){what}."

    def _own_commitment(self, action: Action) -> str:
        return self._commitment(action, "This session")

    def _commitment(self, action: Action, who: str = "") -> str:
        made = action.content.commitment or Commitment()
        key = action.key
        did = decided_by(action.tool, action.content.stance or made.side, key) or "took a side"
        what = f", {quote(made.what, 120)}" if made.what else ""
        left = ago((made.until - self._now) / SECOND)
        return (
            f"{who or self._who(action.session)} {did} {_key(key)} {self._since(action.started)} "
            f"({name(action.tool)}){what}; it counts for {left} more."
        )

    def _lost(self, action: Action) -> str:
        return (
            f"An action of {self._who(action.session)}{_on(action.key)} began {self._since(action.started)} "
            f"({name(action.tool)}) and its outcome was never reported: it may or may not have happened."
            f"{self._it_was(action)}"
        )

    def _unsettled(self, action: Action) -> str:
        if action.session not in self._mine:
            return f"{self._lost(action)} To settle it, {ask_to_resolve(action.id)}."
        return f"{self._own_line(action)} Look whether it did, then {ask_to_resolve(action.id)}."

    def _acts(self, acts: _Acts) -> str:
        names = ", ".join(_key(key) for key in list(acts.keys)[:_NAMED])
        more = f" and {len(acts.keys) - _NAMED} more" if len(acts.keys) > _NAMED else ""
        on = f" on {names}{more}" if names else ""
        lead = "; the last was " if len(acts.keys) > 1 else ": "
        what = self._what(acts.newest, acts.session, next(iter(acts.keys), ""), lead)
        return f"{self._who(acts.session)} acted{on} {since(acts.age)} ({name(acts.tool)}){what}."

    def _farewell(self, entry: Entry) -> str:
        return f"{self._who(entry.session)} ended {self._since(entry.seq)}: {shown(entry.body['summary'], _SUMMARY)}."

    def _own_line(self, action: Action) -> str:
        what = f"{_on(_first(action))} ({name(action.tool)}, {self._since(action.started)})"
        did = self._what(action.id, action.session, _first(action))
        if action.state is State.ASKED and action.approved:
            return f"A person agreed to a call{what}: it runs when it is made again.{self._it_was(action)}"
        if action.state is State.ASKED:
            return f"A call{what} waits for a person{did}."
        if self._is_lost(action):
            return f"An action{what} has no known outcome: it may or may not have happened.{self._it_was(action)}"
        if action.state is State.QUEUED:
            return f"A call{what} waits in line{did}."
        return f"A lock{what} is still held." if action.lock else f"An action{what} is still open{did}."

    def _what(self, id: int, session: str, key: str, lead: str = ": ") -> str:
        """Return what an action did and what its session was asked for, as far as that is known."""
        kept = kept_in(self._bodies[id]) if id in self._bodies else NOTHING_KEPT
        summary = summary_of(kept, key, _SUMMARY)
        told = self._shares or _instance(session) == _instance(self._mine[0])
        asked = f" (asked: {shown(kept.purpose, _PURPOSE)})" if kept.purpose and told else ""
        return f"{lead}{summary}{asked}" if summary else asked

    def _it_was(self, action: Action) -> str:
        what = self._what(action.id, action.session, _where(action)).removeprefix(":").strip()
        return f" It was {what}." if what else ""

    def _since(self, at: int) -> str:
        return since((self._now - at) / SECOND)

    # --- sessions ---

    def _chain(self, session: str, link: str) -> tuple[str, ...]:
        """The sessions that this one continues, or descends from, nearest first."""
        chain: list[str] = []
        following = session
        while len(chain) < _GENERATIONS:
            following = getattr(self._store.kin(self._namespace, following), link)
            if not following or following in chain or following == session:
                break
            chain.append(following)
        return tuple(chain)

    def _who(self, session: str) -> str:
        """A session's name, and what it is to this one."""
        known = self._names.get(session)
        if known is None:
            role = ""
            if session in self._ancestors:
                role = "your parent " if session == self._ancestors[0] else "your ancestor "
            elif self._store.kin(self._namespace, session).parent in self._mine:
                role = "your sub-agent "
            known = self._names[session] = role + name(session)
        return known


def _first(action: Action) -> str:
    return next(iter(_shown_keys(action)), "")


def _where(action: Action) -> str:
    """The key through which it was found, else its first; nothing for what has none."""
    return _first(action) if not action.key or action.key.startswith(NO_KEY) else action.key


def _instance(session: str) -> str:
    return session.partition("/")[0]


def _begun(action: Action) -> int:
    return action.started


def _on(key: str) -> str:
    return f" on {_key(key)}" if key and not key.startswith(NO_KEY) else ""


def _key(key: str) -> str:
    return quote(escaped(redact_text(key)), 120)
